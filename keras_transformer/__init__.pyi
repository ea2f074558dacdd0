from keras_transformer import convert as convert
from keras_transformer import data as data
from keras_transformer import documents as documents
from keras_transformer import evaluation as evaluation
from keras_transformer import layers as layers
from keras_transformer import parsing as parsing
from keras_transformer import training as training
from keras_transformer import translation as translation
from keras_transformer import visualization as visualization
from keras_transformer.decoding import constraints as constraints
from keras_transformer.decoding.beam_search import BeamSearch as BeamSearch
from keras_transformer.decoding.sampling import Sampling as Sampling
from keras_transformer.errors import UserError as UserError
from keras_transformer.models.transformer import Transformer as Transformer
from keras_transformer.models.variants import get_variant as get_variant
from keras_transformer.models.variants import variants as variants
from keras_transformer.parsing.constituency_parser import ConstituencyParser as ConstituencyParser
from keras_transformer.models.losses import LabelSmoothedCrossentropy as LabelSmoothedCrossentropy
from keras_transformer.models.metrics import Perplexity as Perplexity
from keras_transformer.models.metrics import TokenAccuracy as TokenAccuracy
from keras_transformer.training.optimizer import NoamSchedule as NoamSchedule
from keras_transformer.training.whole_batch_optimizer import (
    WholeBatchOptimizer as WholeBatchOptimizer,
)
from keras_transformer.translation.translator import Translator as Translator
from keras_transformer.version import __version__ as __version__
