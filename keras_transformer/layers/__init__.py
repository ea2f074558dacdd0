"""The layers of the model, one a file."""

from keras_transformer.layers.decoder_layer import TransformerDecoderLayer
from keras_transformer.layers.deterministic_attention import DeterministicAttention
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.encoder_layer import TransformerEncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.position_encoding import (
    LearnedPositionEncoding,
    SinePositionEncoding,
)
from keras_transformer.layers.word_tagger import WordTagger

__all__ = [
    "DeterministicAttention",
    "Dropout",
    "FeedForward",
    "LearnedPositionEncoding",
    "MultiHeadAttention",
    "SinePositionEncoding",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "WordTagger",
]
