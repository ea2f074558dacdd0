"""Options of the training of a translator."""

from dataclasses import dataclass, field
from typing import Literal

from keras_transformer.data.filters import FilterOptions
from keras_transformer.data.tokenizer import VocabularyOptions
from keras_transformer.tasks.training_options import TrainingOptions
from keras_transformer.validation import check_optional, positive_integer


@dataclass(kw_only=True)
class TranslatorVocabularyOptions(VocabularyOptions):
    """Options of the vocabulary (section 5.1)."""

    source_vocabulary_size: int | None = None
    """Size of a vocabulary of the source's own: the other is then the target's. Without it both
    share one, as in the paper."""

    def validate(self) -> None:
        """Raise a `UserError` as `VocabularyOptions` do."""
        super().validate()
        check_optional(positive_integer, self, "source_vocabulary_size")


@dataclass(kw_only=True)
class TranslatorTrainingOptions(TrainingOptions):
    """Options of the training of a translator.

    Attributes:
        filters: `kt.data.FilterOptions`: the pairs to leave out.
    """

    vocabulary: TranslatorVocabularyOptions = field(default_factory=TranslatorVocabularyOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    split: Literal["sentences", "lines", "none"] = "sentences"
    """How the model's users' texts are split: sentences, if the sources of the corpus are
    sentences; lines or none, if they are texts of other kinds, such as messages."""

    protect: bool = False
    """Train the model to copy reserved symbols, which stand for placeholders and addresses when it
    translates. They stand for those of the corpus, and in a quarter of the pairs for a word or two
    and their translations. With `init` they are added to the preset's vocabulary."""

    scores = ("val_bleu",)
