"""The layers of the model, one per file."""

from keras_transformer.layers.decoder_layer import TransformerDecoderLayer
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.encoder_layer import TransformerEncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.position_encoding import (
    LearnedPositionEncoding,
    SinePositionEncoding,
)
from keras_transformer.layers.restricted_attention import RestrictedSelfAttention

__all__ = [
    "Dropout",
    "FeedForward",
    "LearnedPositionEncoding",
    "MultiHeadAttention",
    "RestrictedSelfAttention",
    "SinePositionEncoding",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
]
