"""Our weights in the layout of CTranslate2's specification."""

from typing import Any

import numpy as np
from keras import ops

from keras_transformer.layers import SinePositionEncoding

# Sinusoids have no last position, but CTranslate2 needs a table: its own have another layout.
_SINE_POSITIONS = 2048


def set_encoder(spec: Any, encoder: Any) -> None:
    """Fill a `TransformerEncoderSpec` with the weights of an `Encoder`."""
    _set_embeddings(spec, spec.embeddings[0], encoder)
    for layer_spec, layer in zip(spec.layer, encoder.layers):
        _set_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_norm)
        _set_feed_forward(layer_spec.ffn, layer)


def set_decoder(spec: Any, decoder: Any, config: Any) -> None:
    """Fill a `TransformerDecoderSpec` with the weights of a `Decoder`."""
    _set_embeddings(spec, spec.embeddings, decoder)
    spec.projection.weight = spec.embeddings.weight
    if not config.tie_weights:
        spec.projection.weight = _array(decoder.token_embedding.reverse_embeddings).T
    if config.output_bias:
        spec.projection.bias = _array(decoder.output_bias.bias)
    for layer_spec, layer in zip(spec.layer, decoder.layers):
        _set_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_norm)
        _set_attention(layer_spec.attention, layer.cross_attention, layer.cross_attention_norm)
        _set_feed_forward(layer_spec.ffn, layer)


def _set_embeddings(spec, embeddings_spec, stack):
    """Set embeddings, positions, and the norm after the stack, if there is one."""
    embeddings_spec.weight = _array(stack.token_embedding.embeddings)
    spec.position_encodings.encodings = _positions(stack)
    if stack.layer_norm is not None:
        _set_norm(spec.layer_norm, stack.layer_norm)


def _positions(stack):
    """Return the table that is added to the embeddings, `(positions, hidden_dim)`."""
    if not isinstance(stack.position_encoding, SinePositionEncoding):
        return _array(stack.position_encoding.embeddings)
    # The layer's output for zeros, in float32 independent of the model's dtype.
    config = {**stack.position_encoding.get_config(), "dtype": "float32"}
    sinusoids = SinePositionEncoding.from_config(config)
    return _array(sinusoids(ops.zeros((1, _SINE_POSITIONS, stack.token_embedding.output_dim)))[0])


def _set_attention(spec, attention, norm):
    """Set one attention sub-layer.

    CTranslate2's keys and values have one size. If ours have two, the smaller is padded with zeros,
    which change neither the products of queries and keys nor the output.
    """
    _set_norm(spec.layer_norm, norm)
    spec.queries_scale = np.float32(attention.key_dim**-0.5)
    size = head_dim(attention)
    query, key, value = (
        _projection(dense, attention.num_heads, size)
        for dense in (attention.query_dense, attention.key_dense, attention.value_dense)
    )
    # Self-attention is one matrix and the output's; cross-attention has the queries' apart.
    fused = [[query, key, value]] if len(spec.linear) == 2 else [[query], [key, value]]
    for linear_spec, parts in zip(spec.linear, fused):
        weights, biases = zip(*parts)
        linear_spec.weight = np.concatenate(weights)
        if attention.use_bias:
            linear_spec.bias = np.concatenate(biases)
    weight, bias = _dense(attention.output_dense)
    # (hidden_dim, num_heads * value_dim)
    spec.linear[-1].weight = _fill_heads(weight, attention.num_heads, size)
    if attention.use_bias:
        spec.linear[-1].bias = bias


def _projection(dense, num_heads, size):
    """Return weight `(num_heads * size, hidden_dim)` and bias of a projection to heads."""
    weight, bias = _dense(dense)
    weight = _fill_heads(weight.T, num_heads, size).T
    return weight, None if bias is None else _fill_heads(bias[None], num_heads, size)[0]


def _fill_heads(x, num_heads, size):
    """Pad each head with zeros, from `(rows, num_heads * s)` to `(rows, num_heads * size)`."""
    heads = x.reshape(len(x), num_heads, -1)
    zeros = np.zeros((len(x), num_heads, size - heads.shape[-1]), x.dtype)
    return np.concatenate([heads, zeros], axis=-1).reshape(len(x), num_heads * size)


def head_dim(attention: Any) -> int:
    """Return the size of a head in CTranslate2, which is the same for keys and values."""
    return max(attention.key_dim, attention.value_dim)


def _set_feed_forward(spec, layer):
    _set_norm(spec.layer_norm, layer.feed_forward_norm)
    spec.linear_0.weight, spec.linear_0.bias = _dense(layer.feed_forward.intermediate_dense)
    spec.linear_1.weight, spec.linear_1.bias = _dense(layer.feed_forward.output_dense)


def _set_norm(spec, norm):
    spec.gamma, spec.beta = _array(norm.gamma), _array(norm.beta)


def _dense(layer):
    """Return weight `(outputs, inputs)`, the transpose of Keras's kernel, and bias or None."""
    return _array(layer.kernel).T, _array(layer.bias) if layer.use_bias else None


def _array(x):
    return np.asarray(ops.convert_to_numpy(x), "float32")
