"""The outputs that are trees: which symbols may come next, kept up inside the search.

A tree is predicted as a sequence of symbols (section 6.3; Vinyals et al., 2015): `(NP` opens a
constituent, `)NP` closes it, and a leaf stands for the next word.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.data.tokenizer import END_ID
from keras_transformer.decoding.top_k import gather_rows


class TreeState(NamedTuple):
    """What has been built by each hypothesis."""

    words_left: object  # int32 (batch, beam): how many words have no leaf yet
    depth: object  # int32 (batch, beam): how many constituents are open
    is_empty: object  # bool (batch, beam): the innermost of them has no child yet
    stack: object  # int32 (batch, beam, max_depth): their labels, the outermost first


@dataclass(frozen=True)
class TreeGrammar:
    """The grammar of all trees over a sentence's words.

    A search that is given one can only produce sequences that are one balanced tree: every
    constituent has a child and is closed under its own label, there is exactly one leaf for each
    word, nothing follows the tree, and it is whole before the output's limit.

    Args:
        opening_ids: ids of the symbols that open a constituent, one a label.
        closing_ids: ids of the symbols that close it, in the same order of labels.
        leaf_ids: ids of the symbols that stand for a word.
        max_depth: how many constituents may be open at once.

    Raises:
        ValueError: if there is no leaf, or `opening_ids` and `closing_ids` do not pair up.
    """

    opening_ids: tuple
    closing_ids: tuple
    leaf_ids: tuple
    max_depth: int = 100

    def __post_init__(self):
        for name in ("opening_ids", "closing_ids", "leaf_ids"):
            # Plain integers, so that a search can be looked up by its grammar.
            object.__setattr__(self, name, tuple(int(i) for i in getattr(self, name)))
        if len(self.opening_ids) != len(self.closing_ids):
            raise ValueError(
                "Each label needs one symbol that opens it and one that closes it. Received: "
                f"{len(self.opening_ids)} `opening_ids` and {len(self.closing_ids)} `closing_ids`"
            )
        symbols = [*self.opening_ids, *self.closing_ids, *self.leaf_ids]
        if not self.leaf_ids or len(set(symbols)) < len(symbols) or min(symbols) <= END_ID:
            raise ValueError(
                "A grammar needs one leaf at least, and distinct ids above the end token's "
                f"{END_ID}. Received: {self}"
            )

    @property
    def largest_id(self):
        return max(self.opening_ids + self.closing_ids + self.leaf_ids)

    def first_state(self, num_words, beam_size):
        """Nothing built yet.

        Args:
            num_words: int32 tensor `(batch, 1)`.
            beam_size: how many hypotheses each sentence has.

        Returns:
            A `TreeState`.
        """
        words_left = ops.repeat(num_words, beam_size, axis=1)
        return TreeState(
            words_left=words_left,
            depth=ops.zeros_like(words_left),
            is_empty=ops.zeros_like(words_left, dtype="bool"),
            stack=ops.zeros((*ops.shape(words_left), self.max_depth), "int32"),
        )

    def forbidden(self, state, tokens_left, vocabulary_size):
        """To add to logits: 0 for the symbols that can still lead to a tree, else minus infinity.

        Args:
            state: `TreeState`.
            tokens_left: int32 tensor `(batch, 1)`: how many tokens the output may still take, the
                end token included.
            vocabulary_size: the number of logits.

        Returns:
            Float32 tensor `(batch, beam, vocabulary_size)`.
        """
        words_left, depth, is_empty, stack = state
        is_inside = depth > 0
        innermost = ops.take_along_axis(stack, ops.maximum(depth - 1, 0)[..., None], axis=-1)
        # One more constituent needs its two brackets; each word its leaf, each open constituent its
        # closing bracket, and the output its end token.
        may_open = (words_left > 0) & (depth < self.max_depth)
        may_open = may_open & (2 + words_left + depth + 1 <= tokens_left)
        # Outside of all constituents, a leaf is the whole tree. (What is outside and has words left
        # has just begun: the outermost constituent is not closed before the last word.)
        may_be_leaf = (words_left > 0) & (is_inside | (words_left == 1))
        may_close = is_inside & ~is_empty & ((depth > 1) | (words_left == 0))
        may_end = (words_left == 0) & ~is_inside
        table = self._table(vocabulary_size)
        is_allowed = (
            (may_open[..., None] & (table.opened >= 0))
            | (may_be_leaf[..., None] & table.is_leaf)
            | (may_close[..., None] & (table.closed == innermost))
            | (may_end[..., None] & (ops.arange(vocabulary_size) == END_ID))
        )
        return ops.where(is_allowed, 0.0, -np.inf)

    def next_state(self, state, parents, tokens, vocabulary_size):
        """The state after each hypothesis `parents` has been continued with its token.

        Args:
            state: `TreeState`.
            parents: int32 tensor `(batch, beam)`.
            tokens: int32 tensor `(batch, beam)`.
            vocabulary_size: the number of logits.

        Returns:
            A `TreeState`.
        """
        words_left, depth = (
            ops.take_along_axis(x, parents, axis=1) for x in (state.words_left, state.depth)
        )
        opened, closed, is_leaf = (
            ops.take(column, tokens, axis=0) for column in self._table(vocabulary_size)
        )
        is_top = ops.arange(self.max_depth, dtype="int32") == depth[..., None]
        is_pushed = is_top & (opened >= 0)[..., None]
        stack = ops.where(is_pushed, opened[..., None], gather_rows(state.stack, parents))
        change = ops.cast(opened >= 0, "int32") - ops.cast(closed >= 0, "int32")
        return TreeState(
            words_left=words_left - ops.cast(is_leaf, "int32"),
            # Where a beam has fewer hypotheses than places, the rest hold any tokens.
            depth=ops.clip(depth + change, 0, self.max_depth),
            is_empty=opened >= 0,
            stack=stack,
        )

    def _table(self, vocabulary_size):
        """What each token does."""
        opened, closed = (np.full(vocabulary_size, -1, "int32") for _ in range(2))
        opened[list(self.opening_ids)] = np.arange(len(self.opening_ids))
        closed[list(self.closing_ids)] = np.arange(len(self.closing_ids))
        is_leaf = np.zeros(vocabulary_size, bool)
        is_leaf[list(self.leaf_ids)] = True
        return _Table(*map(ops.convert_to_tensor, (opened, closed, is_leaf)))


class _Table(NamedTuple):
    """For each token of the vocabulary:"""

    opened: object  # int32: the label that it opens, or -1
    closed: object  # int32: the label that it closes, or -1
    is_leaf: object  # bool: whether it stands for a word
