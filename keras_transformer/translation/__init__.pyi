from keras_transformer.translation.options import (
    TranslatorTrainingOptions as TranslatorTrainingOptions,
)
from keras_transformer.translation.options import (
    TranslatorVocabularyOptions as TranslatorVocabularyOptions,
)
