"""Options of the training of a parser."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from keras_transformer.data.tokenizer import VocabularyOptions
from keras_transformer.errors import UserError
from keras_transformer.option_fields import mutable_on_resume
from keras_transformer.tasks.pipeline import TrainingOptions
from keras_transformer.validation import (
    check_choice,
    check_optional,
    positive_integer,
    positive_number,
    whole_number,
)

if TYPE_CHECKING:
    from keras_transformer.decoding.beam_search import BeamSearch


@dataclass(kw_only=True)
class TreeVocabularyOptions(VocabularyOptions):
    """The vocabulary of a parser (section 6.3)."""

    vocabulary_size: int = 4000
    """Size of the vocabulary: symbols of trees, and BPE of the words. The paper uses 16000, and
    32000 with extra trees."""


@dataclass(kw_only=True)
class TreeOptions:
    """Options of the symbols and tags that a parser predicts, and of its training trees."""

    tags: Literal["tree", "none"] = "tree"
    """Whether the decoder predicts the tags of words, as symbols of the tree; without tags, one
    symbol of the tree stands for all words (Vinyals et al., 2015)."""
    tag_loss_weight: float | None = None
    """Also train a tagger next to the decoder, whose cross-entropy has this weight in the loss."""
    linearization: Literal["top-down", "in-order"] = "in-order"
    """Whether the symbol that opens a constituent comes before its first child or after it."""
    extra_ratio: float = 1.0
    """Number of extra trees per tree of the treebank."""
    deterministic_attention: bool = True
    """Add the vector of the next word to the decoder's input: see
    `kt.parsing.DeterministicAttention`. The paper's decoder only has learned attention."""
    tag_dictionary: int = 5
    """Words with at least this number of occurrences may only have their tags of training. 0 allows
    every tag for every word."""
    word_tokenizer: Literal["treebank", "craft", "ewt"] | None = mutable_on_resume(None)
    """Rules that split raw text into words, which must match the words of the trees. Defaults to
    craft or ewt for the dataset of that name, else to treebank, the Penn Treebank's rules."""

    def validate(self) -> None:
        """Check the options.

        Raises:
            UserError: if an option is out of its range, or options contradict each other.
        """
        positive_number("extra_ratio", self.extra_ratio)
        check_optional(whole_number, self, "tag_dictionary")
        check_choice("tags", self.tags, ("tree", "none"))
        weight = self.tag_loss_weight
        if weight is not None and (self.tags == "none" or not self.deterministic_attention):
            raise UserError(
                "`tag_loss_weight` requires tags and `deterministic_attention`. "
                f"Received: tag_loss_weight={weight}, tags={self.tags!r}, "
                f"deterministic_attention={self.deterministic_attention}"
            )
        check_optional(positive_number, self, "tag_loss_weight")


@dataclass(kw_only=True)
class ParsingOptions:
    """Options of the search that scores trees during a training."""

    extra_length: int = 300
    """Number of tokens by which a tree may exceed its sentence (section 6.3)."""
    beam_size: int = 4
    """Beam size of the search. `evaluate parsing` uses the paper's 21."""
    alpha: float = 0.3
    """Strength of the length penalty (section 6.3)."""
    val_sentences: int = 500
    """Number of validation sentences to parse at each interval."""

    def validate(self) -> None:
        """Check the options.

        Raises:
            UserError: if a number is out of its range.
        """
        positive_integer("val_sentences", self.val_sentences)
        self.search()

    def search(self) -> "BeamSearch":
        """Return the `BeamSearch` of these options."""
        from keras_transformer.decoding.beam_search import BeamSearch  # imports Keras

        return BeamSearch(self.beam_size, self.alpha, extra_length=self.extra_length)


@dataclass(kw_only=True)
class ParserTrainingOptions(TrainingOptions):
    """Options of a parser's training.

    Attributes:
        trees: `TreeOptions`: what to predict.
        parsing: `ParsingOptions`: the search that scores trees.
    """

    vocabulary: TreeVocabularyOptions = field(default_factory=TreeVocabularyOptions)
    trees: TreeOptions = field(default_factory=TreeOptions)
    parsing: ParsingOptions = field(default_factory=ParsingOptions)

    scores = ("val_f1",)
