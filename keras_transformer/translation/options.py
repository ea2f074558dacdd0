"""Options of the training of a translator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from keras_transformer.data.filters import FilterOptions
from keras_transformer.data.tokenizer import VocabularyOptions
from keras_transformer.models.variants import ModelOptions
from keras_transformer.tasks.pipeline import TrainingOptions
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
class TranslatorModelOptions(ModelOptions):
    """The model (section 3) and its regularization (section 5.4)."""

    decoder: Literal["attention", "ssru"] = "attention"
    """Self-attention in the decoder, or in its place a recurrent unit that makes searches faster:
    see `kt.convert.SSRU`."""
    zero_start: bool = False
    """Whether the decoder begins with a vector of zeros in place of a start token, and sinusoids
    have Marian's wavelengths. The export `marian_npz` requires it."""

    def hyperparameters(self) -> dict[str, Any]:
        hyperparameters = super().hyperparameters()
        if self.decoder != "attention":
            hyperparameters["decoder_type"] = self.decoder
        return self._with_start(hyperparameters)

    def fine_tuned(self, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
        return self._with_start(super().fine_tuned(hyperparameters))

    def _with_start(self, hyperparameters: dict[str, Any]) -> dict[str, Any]:
        if not self.zero_start:
            return hyperparameters
        from keras_transformer.convert.foreign_transformer import with_zero_start  # imports Keras

        return with_zero_start(hyperparameters)


@dataclass(kw_only=True)
class TranslatorTrainingOptions(TrainingOptions):
    """Options of the training of a translator.

    Attributes:
        filters: `kt.data.FilterOptions`: the pairs to leave out.
    """

    vocabulary: TranslatorVocabularyOptions = field(default_factory=TranslatorVocabularyOptions)
    model: TranslatorModelOptions = field(default_factory=TranslatorModelOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    split: Literal["sentences", "lines", "none"] = "sentences"
    """How the model's users' texts are split: sentences, if the sources of the corpus are
    sentences; lines or none, if they are texts of other kinds, such as messages."""

    protect: bool = False
    """Train the model to copy reserved symbols, which stand for placeholders and addresses when it
    translates. They stand for those of the corpus, and in a quarter of the pairs for a word or two
    and their translations. With `init` they are added to the preset's vocabulary."""

    scores = ("val_bleu",)
