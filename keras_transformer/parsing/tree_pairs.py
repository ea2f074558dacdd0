"""Trees as training pairs: the words that a parser reads, and the symbols that it predicts."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.parsing.treebanks import Treebank
from keras_transformer.parsing.trees import (
    LABELLED_BRACKETS,
    Linearization,
    most_openings,
    tagged_words,
)
from keras_transformer.parsing.trees.traversal import OPEN, is_leaf, walk
from keras_transformer.parsing.word_tags import count_tags
from keras_transformer.validation import positive_number

if TYPE_CHECKING:
    from nltk import Tree


class TreeSurvey(NamedTuple):
    """The facts about training trees that a parser stores."""

    symbols: list[str]  # of all trees, sorted
    max_openings: int  # of all trees, see `most_openings`
    tag_counts: dict[str, Counter[str]]  # of the treebank alone, see `count_tags`


def survey_trees(
    treebank: Iterable["Tree"], linearization: Linearization, extra: Iterable["Tree"] = ()
) -> TreeSurvey:
    """Read trees once and collect their symbols, openings and tags.

    Args:
        treebank: the trees of a treebank.
        linearization: the `Linearization` that writes the trees as symbols.
        extra: further trees, such as the output of another parser. Their tags are not counted,
            because a tag dictionary must come from human annotation.

    Returns:
        A `TreeSurvey`.

    Raises:
        UserError: if a label cannot be written as a symbol.
    """
    symbols: set[str] = set()
    openings = 0
    tag_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for trees, are_tags_counted in ((treebank, True), (extra, False)):
        for tree in trees:
            symbols.update(linearization.linearize(tree)[1])
            openings = max(openings, most_openings(tree, linearization))
            if are_tags_counted:
                count_tags([tree], tag_counts)
    return TreeSurvey(sorted(symbols), openings, tag_counts)


class TreePairs:
    """The pairs (words, symbols) of linearized trees, as strings separated by spaces.

    Every `iter()` starts a new pass over the treebank.

    Args:
        treebank: a `Treebank`.
        extra: a second `Treebank`, such as the output of another parser (section 6.3).
        extra_ratio: the number of trees of `extra` per tree of `treebank`. The smaller of the two
            is repeated a whole number of times, to come as close to this ratio as possible.
        constituents: whether each constituent of more than one word is a further pair, in addition
            to the whole tree. A model learns on short pairs to move from word to word, which it may
            never learn from the long sentences of a small treebank.
        linearization: a `Linearization`. Defaults to `LabelledBrackets()`.

    Attributes:
        name: name of the treebank.
        survey: the `TreeSurvey` of all trees, including the trees of `extra`.

    Raises:
        UserError: if `extra_ratio` is not positive.
    """

    def __init__(
        self,
        treebank: Treebank,
        extra: Treebank | None = None,
        extra_ratio: float = 1.0,
        constituents: bool = False,
        linearization: Linearization = LABELLED_BRACKETS,
    ):
        positive_number("extra_ratio", extra_ratio)
        self.name = treebank.name
        self.split = treebank.split
        self.linearization = linearization
        self.constituents = constituents
        self._parts = [(treebank, 1)]
        if extra is not None:
            copies = len(extra) / (extra_ratio * len(treebank))
            self._parts = [
                (treebank, max(1, round(copies))),
                (extra, max(1, round(1 / copies))),
            ]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for treebank in self._copies():
            for tree in self._trees(treebank):
                words, symbols = self.linearization.linearize(tree)
                yield " ".join(words), " ".join(symbols)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        treebanks = ", ".join(f"{count} x {part!r}" for part, count in self._parts)
        constituents = ", and their constituents" if self.constituents else ""
        return f"<TreePairs {self.linearization}: {treebanks}{constituents}>"

    def sentences(self) -> Iterator[str]:
        """Return the words of each whole tree, separated by spaces, to train a vocabulary."""
        return (
            " ".join(word for word, _ in tagged_words(tree))
            for treebank in self._copies()
            for tree in treebank
        )

    @cached_property
    def survey(self) -> TreeSurvey:
        treebank, *extra = (part for part, _ in self._parts)
        return survey_trees(treebank, self.linearization, *extra)

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of all that determines the pairs."""
        parts = [(treebank.fingerprint(), copies) for treebank, copies in self._parts]
        options = self.linearization.serialize(), self.constituents
        return hashlib.sha256(repr((parts, *options)).encode()).hexdigest()

    @cached_property
    def _length(self) -> int:
        return sum(
            copies * (sum(1 for _ in self._trees(part)) if self.constituents else len(part))
            for part, copies in self._parts
        )

    def _copies(self) -> Iterator[Treebank]:
        return (part for part, copies in self._parts for _ in range(copies))

    def _trees(self, treebank: Treebank) -> Iterator["Tree"]:
        for tree in treebank:
            yield tree
            if self.constituents:
                for step, node in walk(tree):
                    if step == OPEN and node is not tree and _has_several_words(node):
                        yield node


def _has_several_words(tree: "Tree") -> bool:
    while len(tree) == 1 and not is_leaf(tree):
        (tree,) = tree
    return not is_leaf(tree)
