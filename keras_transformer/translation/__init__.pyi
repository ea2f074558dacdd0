from keras_transformer.translation.train_translator import (
    TranslatorTrainingOptions as TranslatorTrainingOptions,
)
from keras_transformer.translation.train_translator import (
    TranslatorVocabularyOptions as TranslatorVocabularyOptions,
)
from keras_transformer.translation.train_translator import Tokenizers as Tokenizers
from keras_transformer.translation.train_translator import make_tokenizers as make_tokenizers
from keras_transformer.translation.train_translator import (
    make_translation_batches as make_translation_batches,
)
from keras_transformer.translation.train_translator import long_pairs as long_pairs
from keras_transformer.translation.train_translator import tags_of as tags_of
from keras_transformer.translation.train_translator import parts_of as parts_of
