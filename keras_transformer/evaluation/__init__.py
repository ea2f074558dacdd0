"""Scores of translations: `kt.evaluation`.

- `score_translations`: computes BLEU, chrF, chrF++ and TER with sacreBLEU and its signatures, as
  `TranslationScores`. `tokenizer_of`: returns the tokenizer that fits a language.
- `compare_translations`: compares two systems by paired bootstrap resampling, as `Comparison`.
- `score_placeholders`: counts copied placeholders, as `PlaceholderScores`.
- `score_text`: scores a `Translator` on a `ParallelText`. `describe_bleu`: formats the scores in
  one line.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
