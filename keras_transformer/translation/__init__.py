"""Translation, text in and text out: `kt.translation`.

- `TranslatorTrainingOptions`, `TranslatorVocabularyOptions`: the options of a training.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
