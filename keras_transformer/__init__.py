"""The Transformer of "Attention Is All You Need" for Keras 3."""

from keras_transformer import startup
from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)

# A command imports Keras, which takes seconds, when it has read its options. Other programs find
# all classes registered with `keras.saving`.
if not startup.is_command():
    startup.import_keras()
    globals().update((name, __getattr__(name)) for name in __all__)
