from keras_transformer.translation.train_translator import (
    TranslatorTrainingOptions as TranslatorTrainingOptions,
)
from keras_transformer.translation.train_translator import (
    TranslatorVocabularyOptions as TranslatorVocabularyOptions,
)
