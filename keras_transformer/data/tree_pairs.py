"""Trees as pairs of strings: what a sequence model reads, and what it predicts."""

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from keras_transformer.data.treebanks import Treebank
from keras_transformer.data.trees import LabelledBrackets, Linearization
from keras_transformer.data.trees.walk import OPEN, walk
from keras_transformer.errors import UserError

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
        if not extra_ratio > 0:
            raise UserError(f"`extra_ratio` must be positive. Received: {extra_ratio}")
        if linearization is not None and not keep_tags:
            raise UserError(
                "`keep_tags` configures the default linearization. Received both: "
                f"keep_tags=False and linearization={linearization}"
            )
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
        self._length = sum(
            copies * (sum(1 for _ in self._trees(part)) if constituents else len(part))
            for part, copies in self._parts
        )

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for treebank, copies in self._parts:
            for _ in range(copies):
                for tree in self._trees(treebank):
                    words, symbols = self.linearization.linearize(tree)
                    yield " ".join(words), " ".join(symbols)

    def __len__(self) -> int:
        return self._length

    def fingerprint(self) -> str:
        """SHA-256 (hex) of what the pairs are made from."""
        parts = [(treebank.fingerprint(), copies) for treebank, copies in self._parts]
        options = self.linearization.serialize(), self.constituents
        return hashlib.sha256(repr((parts, *options)).encode()).hexdigest()

    def _trees(self, treebank: Treebank) -> Iterator["Tree"]:
        for tree in treebank:
            yield tree
            if self.constituents:
                for step, node in walk(tree):
                    if step == OPEN and node is not tree and len(node.leaves()) > 1:
                        yield node
