from keras_transformer.translation.checks import TranslationCheck as TranslationCheck
from keras_transformer.translation.options import (
    TranslatorTrainingOptions as TranslatorTrainingOptions,
)
from keras_transformer.translation.options import (
    TranslatorVocabularyOptions as TranslatorVocabularyOptions,
)
from keras_transformer.translation.scoring import TranslationScore as TranslationScore
