"""The Transformer of "Attention Is All You Need" for Keras 3."""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)

# Keras opens a saved model only if its classes are registered. So all public names are imported
# now, and the modules of further classes.
globals().update((name, __getattr__(name)) for name in __all__)

from keras_transformer.parsing import parser_transformer as _parser_transformer  # noqa: E402, F401
