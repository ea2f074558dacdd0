from keras_transformer.translation.checks import TranslationCheck as TranslationCheck
from keras_transformer.translation.train_translator import (
    TranslatorTrainingOptions as TranslatorTrainingOptions,
)
from keras_transformer.translation.train_translator import (
    TranslatorVocabularyOptions as TranslatorVocabularyOptions,
)
from keras_transformer.translation.scoring import TranslationScore as TranslationScore
