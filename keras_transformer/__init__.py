"""The Transformer of "Attention Is All You Need" for Keras 3."""

# Keras opens a saved model only if its classes are registered: these modules register them.
from keras_transformer.convert import foreign_transformer as _foreign_transformer  # noqa: F401
from keras_transformer.decoding import beam_search as _beam_search  # noqa: F401
from keras_transformer.decoding import constraints as _constraints  # noqa: F401
from keras_transformer.decoding import sampling as _sampling  # noqa: F401
from keras_transformer.models import metrics as _metrics  # noqa: F401
from keras_transformer.namespace import load_on_demand
from keras_transformer.parsing import linearization as _linearization  # noqa: F401
from keras_transformer.parsing import parser_transformer as _parser_transformer  # noqa: F401
from keras_transformer.parsing import tree_grammar as _tree_grammar  # noqa: F401
from keras_transformer.training import optimizer as _optimizer  # noqa: F401
from keras_transformer.training import whole_batch_optimizer as _whole_batch_optimizer  # noqa: F401

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
