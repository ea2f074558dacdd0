"""Scores of translations and of trees: `kt.evaluation`.

Translations

- `score_translations`: BLEU, chrF, chrF++ and TER by sacreBLEU, with signatures, as
  `TranslationScores`; `tokenizer_of`: the tokenizer that fits a language.
- `nearest_translation`: of several translations the one most like a reference.
- `compare_translations`: two systems by paired bootstrap resampling, as `Comparison`.
- `score_placeholders`: how many placeholders were copied, as `PlaceholderScores`.
- `score_text`: those of a `Translator` on a `ParallelText`; `describe_bleu`: them in one line.
"""

from keras_transformer.namespace import load_on_demand

_HOMES = {
    # Translations
    "score_translations": "evaluation.bleu",
    "TranslationScores": "evaluation.bleu",
    "tokenizer_of": "evaluation.languages",
    "nearest_translation": "evaluation.bleu",
    "compare_translations": "evaluation.comparison",
    "Comparison": "evaluation.comparison",
    "score_placeholders": "evaluation.placeholders",
    "PlaceholderScores": "evaluation.placeholders",
    "score_text": "translation.train_translator",
    "describe_bleu": "translation.train_translator",
}

__all__ = [*_HOMES]
__getattr__, __dir__ = load_on_demand(__name__, _HOMES)
