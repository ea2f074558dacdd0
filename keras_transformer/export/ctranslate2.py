"""A CTranslate2 model: the same weights in the format of its C++ engine."""

import numpy as np
from keras import ops

from keras_transformer.data.tokenizer import END_ID, START_ID, UNKNOWN_ID
from keras_transformer.errors import UserError
from keras_transformer.files import whole
from keras_transformer.layers import SinePositionEncoding
from keras_transformer.models.quantization import is_quantized

# Sinusoids go on for ever, but CTranslate2 reads ours from a table: its own are laid out otherwise.
_SINE_POSITIONS = 2048

# Names of activations, in Keras and in CTranslate2.
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}


def export_ctranslate2(translator, path):
    """Write a CTranslate2 model folder (float32).

    The folder also gets `tokenizer.spm`, which splits text into the model's tokens:

    ```python
    tokenizer = sentencepiece.SentencePieceProcessor("FOLDER/tokenizer.spm")
    translator = ctranslate2.Translator("FOLDER")
    tokens = tokenizer.encode("A dog runs.", out_type=str)
    result = translator.translate_batch([tokens], suppress_sequences=[["<pad>"], ["<s>"]])
    tokenizer.decode(result[0].hypotheses[0])
    ```

    CTranslate2 adds the start and end tokens by itself. Our search never gives padding or a start
    token; `suppress_sequences` forbids them there, which matters to a model that is hardly trained.
    A source or translation may have up to 2,048 tokens, or as many as there are learned positions.

    Args:
        translator: a `Translator`, on any backend.
        path: the folder to write: whole, or not at all.

    Raises:
        UserError: if the package `ctranslate2` is not installed, model and tokenizer do not have
            the same vocabulary, the model's activation is one that CTranslate2 does not have, or
            the model has an `attention_window` or is quantised.
    """
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=translator.tokenizer.proto)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    spec = ctranslate2_spec(translator.model, pieces)
    with whole(path) as folder:
        folder.mkdir()
        spec.save(str(folder))
        translator.tokenizer.save(folder / "tokenizer.spm")


def ctranslate2_spec(model, pieces):
    """The `ctranslate2.specs.TransformerSpec` of a model, ready to be saved.

    Args:
        model: a `Transformer`.
        pieces: list of strings, the tokens in the order of their ids.

    Returns:
        A `TransformerSpec` that holds copies of the weights.

    Raises:
        UserError: as `export_ctranslate2`.
    """
    try:
        from ctranslate2.specs import transformer_spec
    except ImportError as error:
        raise UserError(
            "A CTranslate2 model is written with the package `ctranslate2`, which cannot be "
            f"imported here ({error}). Install it: pip install ctranslate2"
        ) from error
    config = model.hyperparameters
    _check(model, pieces)
    options = {
        "num_layers": config["num_layers"],
        "num_heads": config["num_heads"],
        "pre_norm": config["normalize_first"],
        "activation": _activation(config["activation"]),
        "head_dim": _head_dim(model.encoder.layers[0].self_attention),
    }
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(**options),
        transformer_spec.TransformerDecoderSpec(**options),
    )
    _set_encoder(spec.encoder, model.encoder)
    _set_decoder(spec.decoder, model.decoder)
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.layer_norm_epsilon = config["layer_norm_epsilon"]
    spec.config.add_source_eos = True
    spec.config.bos_token = spec.config.decoder_start_token = pieces[START_ID]
    spec.config.eos_token = pieces[END_ID]
    spec.config.unk_token = pieces[UNKNOWN_ID]
    spec.validate()
    spec.optimize()  # Stores what is there several times, such as the tied embeddings, once.
    return spec


def _check(model, pieces):
    config = model.hyperparameters
    if len(pieces) != config["vocabulary_size"]:
        raise UserError(
            "Model and tokenizer must have the same vocabulary. Received: a model of "
            f"{config['vocabulary_size']} tokens, a tokenizer of {len(pieces)}"
        )
    # What is no string is the serialised form of a function of the user's own.
    if config["activation"] not in list(_ACTIVATIONS):
        raise UserError(
            f"CTranslate2 can run the activations {', '.join(_ACTIVATIONS)}. "
            f"Received a model with activation={config['activation']!r}"
        )
    if config["attention_window"] is not None:
        raise UserError(
            "CTranslate2 has no restricted self-attention. Received a model with "
            f"attention_window={config['attention_window']}"
        )
    if is_quantized(model):
        raise UserError(
            "A quantised model cannot be exported to CTranslate2, which quantises by itself: "
            'export the model in floats, and load it there with `compute_type="int8"`.'
        )


def _activation(name):
    from ctranslate2.specs import common_spec

    return common_spec.Activation[_ACTIVATIONS[name]]


def _set_encoder(spec, encoder):
    _set_embeddings(spec, spec.embeddings[0], encoder)
    for layer_spec, layer in zip(spec.layer, encoder.layers):
        _set_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_norm)
        _set_feed_forward(layer_spec.ffn, layer)


def _set_decoder(spec, decoder):
    _set_embeddings(spec, spec.embeddings, decoder)
    spec.projection.weight = spec.embeddings.weight
    for layer_spec, layer in zip(spec.layer, decoder.layers):
        _set_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_norm)
        _set_attention(layer_spec.attention, layer.cross_attention, layer.cross_attention_norm)
        _set_feed_forward(layer_spec.ffn, layer)


def _set_embeddings(spec, embeddings_spec, stack):
    """Embeddings, positions, and the norm after the stack, where there is one."""
    embeddings_spec.weight = _array(stack.token_embedding.embeddings)
    spec.scale_embeddings = True
    spec.position_encodings.encodings = _positions(stack)
    if stack.layer_norm is not None:
        _set_norm(spec.layer_norm, stack.layer_norm)


def _positions(stack):
    """The table that is added to the embeddings, `(positions, hidden_dim)`."""
    if not isinstance(stack.position_encoding, SinePositionEncoding):
        return _array(stack.position_encoding.embeddings)
    # What the layer adds to zeros, in float32 whatever the model's dtype.
    sinusoids = SinePositionEncoding(stack.position_encoding.max_wavelength, dtype="float32")
    return _array(sinusoids(ops.zeros((1, _SINE_POSITIONS, stack.token_embedding.output_dim)))[0])


def _set_attention(spec, attention, norm):
    """Set one attention sub-layer.

    CTranslate2's keys and values have one size. Ours may have two: the smaller is filled up with
    zeros, which add nothing to the products of queries and keys, nor to the output.
    """
    _set_norm(spec.layer_norm, norm)
    spec.queries_scale = np.float32(attention.key_dim**-0.5)
    size = _head_dim(attention)
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
    """Weight `(num_heads * size, hidden_dim)` and bias of a projection to heads."""
    weight, bias = _dense(dense)
    weight = _fill_heads(weight.T, num_heads, size).T
    return weight, None if bias is None else _fill_heads(bias[None], num_heads, size)[0]


def _fill_heads(x, num_heads, size):
    """Fill each head up with zeros to `size`: `(rows, num_heads * s)` to `(rows, num_heads *
    size)`.
    """
    heads = x.reshape(len(x), num_heads, -1)
    zeros = np.zeros((len(x), num_heads, size - heads.shape[-1]), x.dtype)
    return np.concatenate([heads, zeros], axis=-1).reshape(len(x), num_heads * size)


def _head_dim(attention):
    return max(attention.key_dim, attention.value_dim)


def _set_feed_forward(spec, layer):
    _set_norm(spec.layer_norm, layer.feed_forward_norm)
    spec.linear_0.weight, spec.linear_0.bias = _dense(layer.feed_forward.intermediate_dense)
    spec.linear_1.weight, spec.linear_1.bias = _dense(layer.feed_forward.output_dense)


def _set_norm(spec, norm):
    spec.gamma, spec.beta = _array(norm.gamma), _array(norm.beta)


def _dense(layer):
    """Weight `(outputs, inputs)`, the transpose of Keras's kernel, and bias or None."""
    return _array(layer.kernel).T, _array(layer.bias) if layer.use_bias else None


def _array(x):
    return np.asarray(ops.convert_to_numpy(x), "float32")
