"""What a parser is to learn of trees, as options."""

from dataclasses import dataclass
from typing import Literal

from keras_transformer.errors import UserError
from keras_transformer.options import mutable_on_resume
from keras_transformer.parsing.trees import InOrderBrackets, LabelledBrackets
from keras_transformer.validation import check_choice, check_optional, positive_number, whole_number


@dataclass(kw_only=True)
class TreeOptions:
    """What to predict of the trees, and from which."""

    tags: Literal["tree", "tagger", "none"] = "tree"
    """What predicts the words' tags: the decoder, as symbols of the tree; a tagger, from the
    encoder's output of each word; or nothing. In the last two cases one symbol of the tree stands
    for all words (Vinyals et al., 2015)."""
    tag_loss_weight: float | None = None
    """Weight of the tags' cross-entropy with `tags=tagger`: 1 by default. With `tags=tree`, the
    tagger is trained beside the decoder, and used for nothing else."""
    keep_tags: bool = True
    """False is the earlier name of `tags=none`."""
    linearization: Literal["top-down", "in-order"] = "in-order"
    """Whether the symbol that opens a constituent comes before its first child or after it."""
    extra_ratio: float = 1.0
    """How many of the extra trees there are to be for one of the treebank."""
    constituents: bool = False
    """Train on each constituent as a sentence of its own, too: for small treebanks."""
    constituent_steps: int = 0
    """Do so for the first so many updates only, and then train on whole trees alone."""
    deterministic_attention: bool = True
    """Let the decoder look at the word that comes next: see `kt.parsing.DeterministicAttention`.
    The paper's decoder finds it by its learned attention alone."""
    tag_dictionary: int = 5
    """Words that occur so often may only have their tags of training. 0: any word, any tag."""
    word_tokenizer: Literal["treebank", "craft"] | None = mutable_on_resume(None)
    """The treebank whose rules split raw text for the parser, as they split the words of its trees.
    Defaults to craft for the dataset of that name, and to treebank, the Penn Treebank's."""

    def check(self):
        """Check the options.

        Raises:
            UserError: if a number is out of its range, or options contradict each other.
        """
        positive_number("extra_ratio", self.extra_ratio)
        check_optional(whole_number, self, "constituent_steps", "tag_dictionary")
        tags_from(self)


def make_linearization(options):
    """The `Linearization` of trees as `TreeOptions` say.

    Args:
        options: `TreeOptions`.

    Raises:
        UserError: if there is no such linearization, or options of tags contradict one another.
    """
    forms = {"top-down": LabelledBrackets, "in-order": InOrderBrackets}
    check_choice("linearization", options.linearization, forms)
    return forms[options.linearization](keep_tags=tags_from(options) != "none")


def tags_from(options):
    """What predicts tags, by both names of the option.

    Args:
        options: `TreeOptions`.

    Returns:
        `"tree"`, `"tagger"` or `"none"`.

    Raises:
        UserError: if options contradict each other.
    """
    tags, weight = options.tags, options.tag_loss_weight
    if tags not in ("tree", "tagger", "none"):
        raise UserError(f"`tags` must be 'tree', 'tagger' or 'none'. Received: tags={tags!r}")
    if not options.keep_tags and tags == "tagger":
        raise UserError('`keep_tags=False` is `tags="none"`. Received both: tags="tagger"')
    tags = tags if options.keep_tags else "none"
    if tags == "tagger" and not options.deterministic_attention:
        raise UserError(
            "The tagger reads the vectors that deterministic attention makes of words. Received: "
            f"tags={tags!r}, deterministic_attention=False"
        )
    if weight is not None and (tags == "none" or not options.deterministic_attention):
        raise UserError(
            "`tag_loss_weight` is of a tagger, which needs tags and deterministic attention. "
            f"Received: tag_loss_weight={weight}, tags={tags!r}, "
            f"deterministic_attention={options.deterministic_attention}"
        )
    check_optional(positive_number, options, "tag_loss_weight")
    return tags
