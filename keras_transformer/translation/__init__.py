"""Translation, text in and text out: `kt.translation`.

- `TranslatorTrainingOptions`, `TranslatorVocabularyOptions`: the options of a training.
- `Tokenizers`: the vocabularies of both sides; `make_tokenizers` trains or reads them.
- `make_translation_batches`, `long_pairs`, `tags_of`, `parts_of`: further stages of a training.
"""

from keras_transformer.namespace import load_on_demand

_HOMES = {
    "TranslatorTrainingOptions": "translation.train_translator",
    "TranslatorVocabularyOptions": "translation.train_translator",
    "Tokenizers": "translation.train_translator",
    "make_tokenizers": "translation.train_translator",
    "make_translation_batches": "translation.train_translator",
    "long_pairs": "translation.train_translator",
    "tags_of": "translation.train_translator",
    "parts_of": "translation.train_translator",
}

__all__ = [*_HOMES]
__getattr__, __dir__ = load_on_demand(__name__, _HOMES)
