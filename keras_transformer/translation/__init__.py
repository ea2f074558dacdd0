"""Translation, text in and text out: `kt.translation`.

- `TranslationScore`, `TranslationCheck`: the results of `Translator.score` and
  `Translator.check_translations`.
- `TranslatorTrainingOptions`, `TranslatorVocabularyOptions`: the options of a training.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
