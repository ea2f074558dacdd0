"""The same weights in the Marian model of HuggingFace's `transformers`, on PyTorch."""

import torch
from keras import ops
from transformers import MarianConfig, MarianMTModel
from transformers.utils import logging

from keras_transformer.layers import SinePositionEncoding
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID

_POSITIONS = 1024


def marian_model(model):
    """Return a `MarianMTModel` that computes the same as `model`, a `Transformer` of the paper."""
    config = model.config
    _check(config)
    logging.set_verbosity_error()
    marian = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocabulary_size,
            d_model=config.hidden_dim,
            encoder_layers=config.num_layers,
            decoder_layers=config.num_layers,
            encoder_ffn_dim=config.intermediate_dim,
            decoder_ffn_dim=config.intermediate_dim,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            dropout=config.dropout,  # on sub-layers and embeddings; in training only
            activation_function=config.activation,
            attention_dropout=0.0,
            activation_dropout=0.0,
            max_position_embeddings=_POSITIONS,
            scale_embedding=True,
            pad_token_id=PAD_ID,
            eos_token_id=END_ID,
            decoder_start_token_id=START_ID,
            forced_eos_token_id=None,
        )
    ).eval()
    for norm in (module for module in marian.modules() if isinstance(module, torch.nn.LayerNorm)):
        norm.eps = config.layer_norm_epsilon
    with torch.no_grad():
        _copy_weights(marian, model)
    return marian


def _check(config):
    needed = {
        "normalize_first": False,
        "position_encoding": "sine",
        "key_dim": (None, config.hidden_dim // config.num_heads),
        "value_dim": (None, config.hidden_dim // config.num_heads),
    }
    for name, values in needed.items():
        value = getattr(config, name)
        if value not in (values if isinstance(values, tuple) else (values,)):
            raise ValueError(
                f"Marian has no model with {name}={value!r}: leave transformers out of --peers."
            )


def _copy_weights(marian, model):
    _copy(marian.model.shared.weight, model.encoder.token_embedding.embeddings)
    marian.final_logits_bias.zero_()
    zeros = ops.zeros((1, _POSITIONS, model.config.hidden_dim))
    for theirs, ours in (
        (marian.model.encoder, model.encoder),
        (marian.model.decoder, model.decoder),
    ):
        _copy(theirs.embed_positions.weight, SinePositionEncoding(dtype="float32")(zeros)[0])
        for their_layer, our_layer in zip(theirs.layers, ours.layers):
            _copy_layer(their_layer, our_layer)


def _copy_layer(theirs, ours):
    _copy_attention(theirs.self_attn, ours.self_attention)
    _copy_norm(theirs.self_attn_layer_norm, ours.self_attention_norm)
    if hasattr(theirs, "encoder_attn"):
        _copy_attention(theirs.encoder_attn, ours.cross_attention)
        _copy_norm(theirs.encoder_attn_layer_norm, ours.cross_attention_norm)
    _copy_dense(theirs.fc1, ours.feed_forward.intermediate_dense)
    _copy_dense(theirs.fc2, ours.feed_forward.output_dense)
    _copy_norm(theirs.final_layer_norm, ours.feed_forward_norm)


def _copy_attention(theirs, ours):
    _copy_dense(theirs.q_proj, ours.query_dense)
    _copy_dense(theirs.k_proj, ours.key_dense)
    _copy_dense(theirs.v_proj, ours.value_dense)
    _copy_dense(theirs.out_proj, ours.output_dense)


def _copy_dense(theirs, ours):
    _copy(theirs.weight, ops.transpose(ours.kernel))
    theirs.bias.zero_()  # Marian's projections always have biases.
    if ours.use_bias:
        _copy(theirs.bias, ours.bias)


def _copy_norm(theirs, ours):
    _copy(theirs.weight, ours.gamma)
    _copy(theirs.bias, ours.beta)


def _copy(theirs, ours):
    theirs.copy_(torch.from_numpy(ops.convert_to_numpy(ops.cast(ours, "float32")).copy()))
