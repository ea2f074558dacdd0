"""Trees as pairs of strings: what a sequence model reads, and what it predicts."""

import copy
import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from keras_transformer.errors import UserError
from keras_transformer.parsing.tree_survey import TreeSurvey, survey_trees
from keras_transformer.parsing.treebanks import Treebank
from keras_transformer.parsing.trees import LabelledBrackets, Linearization, tagged_words
from keras_transformer.parsing.trees.traversal import OPEN, is_leaf, walk
from keras_transformer.validation import positive_number

if TYPE_CHECKING:
    from nltk import Tree


class TreePairs:
    """The pairs (words, symbols) of linearised trees, with spaces between words and symbols.

    Every `iter()` starts a new pass over the treebank.

    Args:
        treebank: a `Treebank`.
        keep_tags: whether a leaf is its tag. Otherwise each leaf is `(XX)`. It configures the
            default of `linearization`; another has its own configuration.
        extra: a second `Treebank`, such as the output of another parser (section 6.3).
        extra_ratio: how many trees of `extra` there are to be for one of `treebank`. Whichever is
            too small for it is repeated, as a whole: the ratio is met as near as that allows.
        constituents: whether each constituent of more than one word makes a pair of its own, beside
            the whole tree. On short ones a model soon learns to go from word to word, which it
            may never find out from the long sentences of a small treebank.
        linearization: a `Linearization`. Defaults to `LabelledBrackets(keep_tags)`.

    Attributes:
        name: name of the treebank.
        survey: the `TreeSurvey` of all trees, those of `extra` too.

    Raises:
        UserError: if `extra_ratio` is not positive, or `keep_tags` is False beside another
            `linearization`.
    """

    def __init__(
        self,
        treebank: Treebank,
        keep_tags: bool = True,
        extra: Treebank | None = None,
        extra_ratio: float = 1.0,
        constituents: bool = False,
        linearization: Linearization | None = None,
    ):
        positive_number("extra_ratio", extra_ratio)
        if linearization is not None and not keep_tags:
            raise UserError(
                "`keep_tags` configures the default linearization. Received both: "
                f"keep_tags=False and linearization={linearization}"
            )
        self.name = treebank.name
        self.split = treebank.split
        self.linearization = linearization or LabelledBrackets(keep_tags)
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
        """The words of each whole tree, with spaces between them: what a vocabulary is made of."""
        return (
            " ".join(word for word, _ in tagged_words(tree))
            for treebank in self._copies()
            for tree in treebank
        )

    def with_constituents(self) -> "TreePairs":
        """The pairs of the same trees and of their constituents."""
        pairs = copy.copy(self)
        pairs.constituents = True
        vars(pairs).pop("_length", None)
        return pairs

    @cached_property
    def survey(self) -> TreeSurvey:
        treebank, *extra = (part for part, _ in self._parts)
        return survey_trees(treebank, self.linearization, *extra)

    def fingerprint(self) -> str:
        """SHA-256 (hex) of what the pairs are made from."""
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
