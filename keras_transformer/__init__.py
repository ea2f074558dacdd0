"""The Transformer of "Attention Is All You Need" for Keras 3."""

# First: the imports that follow take seconds, and Keras imports TensorFlow.
from keras_transformer import startup  # noqa: F401

# isort: split
from keras_transformer import (
    convert,
    data,
    evaluation,
    layers,
    parsing,
    training,
    translation,
    visualization,
)
from keras_transformer.decoding import constraints
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.sampling import Sampling
from keras_transformer.errors import UserError
from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import get_variant, variants
from keras_transformer.parsing.constituency_parser import ConstituencyParser
from keras_transformer.training.losses import LabelSmoothedCrossentropy
from keras_transformer.training.metrics import Perplexity, TokenAccuracy
from keras_transformer.training.schedules import NoamSchedule
from keras_transformer.training.whole_batch_optimizer import WholeBatchOptimizer
from keras_transformer.translation.translator import Translator
from keras_transformer.version import __version__

__all__ = [
    "BeamSearch",
    "ConstituencyParser",
    "LabelSmoothedCrossentropy",
    "NoamSchedule",
    "Perplexity",
    "Sampling",
    "TokenAccuracy",
    "Transformer",
    "Translator",
    "UserError",
    "WholeBatchOptimizer",
    "__version__",
    "constraints",
    "convert",
    "data",
    "evaluation",
    "get_variant",
    "layers",
    "parsing",
    "training",
    "translation",
    "variants",
    "visualization",
]
