"""Scores of translations: `kt.evaluation`.

- `score_translations`: BLEU, chrF, chrF++ and TER by sacreBLEU, with signatures, as
  `TranslationScores`; `tokenizer_of`: the tokenizer that fits a language.
- `nearest_translation`: of several translations the one most like a reference.
- `compare_translations`: two systems by paired bootstrap resampling, as `Comparison`.
- `score_placeholders`: how many placeholders were copied, as `PlaceholderScores`.
- `score_text`: those of a `Translator` on a `ParallelText`; `describe_bleu`: them in one line.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
