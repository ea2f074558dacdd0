"""The same weights in PyTorch's own `torch.nn.Transformer`."""

import numpy as np
import torch
from keras import ops

from keras_transformer.layers import SinePositionEncoding

_POSITIONS = 1024


class TorchTransformer(torch.nn.Module):
    """The code around `torch.nn.Transformer` that a user needs for the same model.

    Args:
        model: a `Transformer` in which `num_heads` times `key_dim` equals `hidden_dim`.
        dropout: P_drop, applied as in the paper. PyTorch's dropout of attention weights and inner
            activations of the feed-forward network is disabled.
    """

    def __init__(self, model, dropout=0.0):
        super().__init__()
        config = model.config
        self.transformer = torch.nn.Transformer(
            d_model=config.hidden_dim,
            nhead=config.num_heads,
            num_encoder_layers=config.num_layers,
            num_decoder_layers=config.num_layers,
            dim_feedforward=config.intermediate_dim,
            dropout=dropout,
            layer_norm_eps=config.layer_norm_epsilon,
            batch_first=True,
            norm_first=config.normalize_first,
        )
        for ours, theirs in (
            (model.encoder, self.transformer.encoder),
            (model.decoder, self.transformer.decoder),
        ):
            for layer, torch_layer in zip(ours.layers, theirs.layers, strict=True):
                copy_layer(layer, torch_layer)
                _leave_dropout_to_sublayers(torch_layer)
            if config.normalize_first:
                copy_norm(ours.layer_norm, theirs.norm)
            else:
                # PyTorch normalises each stack's output once more, which the paper does not.
                theirs.norm = None
        self.dropout = torch.nn.Dropout(dropout)
        self.embeddings = torch.nn.Parameter(_tensor(model.encoder.token_embedding.embeddings))
        zeros = ops.zeros((1, _POSITIONS, config.hidden_dim))
        self.register_buffer("positions", _tensor(SinePositionEncoding(dtype="float32")(zeros)[0]))
        # PyTorch's masks are true where a query must not look.
        causal = torch.triu(torch.ones(_POSITIONS, _POSITIONS, dtype=torch.bool), diagonal=1)
        self.register_buffer("causal", causal)

    def forward(self, source, target):
        is_padding, length = source == 0, target.shape[1]
        output = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=self.causal[:length, :length],
            tgt_is_causal=True,
            src_key_padding_mask=is_padding,
            memory_key_padding_mask=is_padding,
        )
        return output @ self.embeddings.T

    def embed(self, token_ids):
        length, hidden_dim = token_ids.shape[1], self.embeddings.shape[1]
        # As `Embedding`, whose gradient is quicker than that of an index.
        embedded = torch.nn.functional.embedding(token_ids, self.embeddings) * hidden_dim**0.5
        return self.dropout(embedded + self.positions[:length])


def copy_layer(layer, torch_layer):
    """Assign the weights of the encoder or the decoder."""
    copy_attention(layer.self_attention, torch_layer.self_attn)
    norms = [layer.self_attention_norm, layer.feed_forward_norm]
    if hasattr(layer, "cross_attention"):
        copy_attention(layer.cross_attention, torch_layer.multihead_attn)
        norms.insert(1, layer.cross_attention_norm)
    _copy_dense(layer.feed_forward.intermediate_dense, torch_layer.linear1)
    _copy_dense(layer.feed_forward.output_dense, torch_layer.linear2)
    for number, norm in enumerate(norms, start=1):
        copy_norm(norm, getattr(torch_layer, f"norm{number}"))


def copy_attention(attention, torch_attention):
    projections = (attention.query_dense, attention.key_dense, attention.value_dense)
    _copy(torch_attention.in_proj_weight, torch.cat([_tensor(p.kernel).T for p in projections]))
    if attention.use_bias:
        _copy(torch_attention.in_proj_bias, torch.cat([_tensor(p.bias) for p in projections]))
    _copy_dense(attention.output_dense, torch_attention.out_proj)


def copy_norm(norm, torch_norm):
    _copy(torch_norm.weight, _tensor(norm.gamma))
    _copy(torch_norm.bias, _tensor(norm.beta))


def _copy_dense(dense, linear):
    _copy(linear.weight, _tensor(dense.kernel).T)
    if dense.use_bias:
        _copy(linear.bias, _tensor(dense.bias))


def _copy(parameter, values):
    if parameter.shape != values.shape:
        raise ValueError(f"{tuple(values.shape)} does not fit {tuple(parameter.shape)}.")
    with torch.no_grad():
        parameter.copy_(values)


def _tensor(x):
    return torch.tensor(np.array(ops.convert_to_numpy(ops.cast(x, "float32"))))


def _leave_dropout_to_sublayers(torch_layer):
    torch_layer.dropout = torch.nn.Identity()  # between the feed-forward network's two products
    for attention in ("self_attn", "multihead_attn"):
        if hasattr(torch_layer, attention):
            getattr(torch_layer, attention).dropout = 0.0
