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


class Words(NamedTuple):
    """What the trees are over; stays the same in a search."""

    count: object  # int32 (batch, 1)
    kinds: object  # int32 (batch, words): the leaf set of each word, if the grammar has leaf sets


class TreeState(NamedTuple):
    """What has been built by each hypothesis."""

    words_left: object  # int32 (batch, beam): how many words have no leaf yet
    depth: object  # int32 (batch, beam): how many constituents are open
    openings: object  # int32 (batch, beam): how many of them have been opened since the last word
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
        max_openings: how many may be opened before one word.
        leaf_sets: tuples of leaf ids, the sets that a word's leaf may have to be from; the search
            is told which of them is each word's. Without any, every leaf may stand for every word.

    Raises:
        ValueError: if there is no leaf, `opening_ids` and `closing_ids` do not pair up, a limit is
            not positive, or a leaf set is empty or has what is no leaf.
    """

    opening_ids: tuple
    closing_ids: tuple
    leaf_ids: tuple
    max_depth: int = 100
    max_openings: int = 100
    leaf_sets: tuple = ()

    def __post_init__(self):
        for name in ("opening_ids", "closing_ids", "leaf_ids"):
            # Plain integers, so that a search can be looked up by its grammar.
            object.__setattr__(self, name, _integers(getattr(self, name)))
        object.__setattr__(self, "leaf_sets", tuple(map(_integers, self.leaf_sets)))
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
        if min(self.max_depth, self.max_openings) < 1:
            raise ValueError(f"`max_depth` and `max_openings` must be positive. Received: {self}")
        for leaf_set in self.leaf_sets:
            if not leaf_set or not set(leaf_set) <= set(self.leaf_ids):
                raise ValueError(
                    "Each of `leaf_sets` must hold some of `leaf_ids`, one at least. "
                    f"Received: {leaf_set}, for leaf_ids={self.leaf_ids}"
                )

    @property
    def largest_id(self):
        return max(self.opening_ids + self.closing_ids + self.leaf_ids)

    def first_state(self, words, beam_size):
        """Nothing built yet.

        Args:
            words: `Words`.
            beam_size: how many hypotheses each sentence has.

        Returns:
            A `TreeState`.
        """
        words_left = ops.repeat(words.count, beam_size, axis=1)
        return TreeState(
            words_left=words_left,
            depth=ops.zeros_like(words_left),
            openings=ops.zeros_like(words_left),
            stack=ops.zeros((*ops.shape(words_left), self.max_depth), "int32"),
        )

    def ids_of(self, tokens):
        """The token ids of the tokens that `allowed` numbers: int32, of the same shape."""
        return ops.take(self._token_ids(), tokens, axis=0)

    def allowed(self, logits, state, words, tokens_left):
        """Logits of the symbols and the end token, minus infinity where none can lead to a tree.

        Args:
            logits: float32 tensor `(batch, beam, vocabulary_size)`.
            state: `TreeState`.
            words: `Words`.
            tokens_left: int32 tensor `(batch, 1)`: how many tokens the output may still take, the
                end token included.

        Returns:
            Float32 tensor `(batch, beam, tokens)`, in the order of their ids: see `ids_of`.
        """
        words_left, depth, openings, stack = state
        is_inside, is_empty = depth > 0, openings > 0
        innermost = ops.take_along_axis(stack, ops.maximum(depth - 1, 0)[..., None], axis=-1)
        # One more constituent needs its two brackets; each word its leaf, each open constituent its
        # closing bracket, and the output its end token.
        may_open = (words_left > 0) & (depth < self.max_depth) & (openings < self.max_openings)
        may_open = may_open & (2 + words_left + depth + 1 <= tokens_left)
        # Outside of all constituents, a leaf is the whole tree. (What is outside and has words left
        # has just begun: the outermost constituent is not closed before the last word.)
        may_be_leaf = (words_left > 0) & (is_inside | (words_left == 1))
        may_close = is_inside & ~is_empty & ((depth > 1) | (words_left == 0))
        may_end = (words_left == 0) & ~is_inside
        token_ids = self._token_ids()
        columns = [column[token_ids] for column in self._table()] + [token_ids == END_ID]
        opened, closed, is_leaf, is_end = map(ops.convert_to_tensor, columns)
        is_allowed = (
            (may_open[..., None] & (opened >= 0))
            | (may_be_leaf[..., None] & self._fits_next_word(is_leaf, token_ids, words, words_left))
            | (may_close[..., None] & (closed == innermost))
            | (may_end[..., None] & is_end)
        )
        return ops.where(is_allowed, ops.take(logits, token_ids, axis=-1), -np.inf)

    def next_state(self, state, parents, tokens):
        """The state after each hypothesis `parents` has been continued with its token.

        Args:
            state: `TreeState`.
            parents: int32 tensor `(batch, beam)`.
            tokens: int32 tensor `(batch, beam)`, ids.

        Returns:
            A `TreeState`.
        """
        words_left, depth, openings = (
            ops.take_along_axis(x, parents, axis=1)
            for x in (state.words_left, state.depth, state.openings)
        )
        opened, closed, is_leaf = (ops.take(column, tokens, axis=0) for column in self._table())
        is_top = ops.arange(self.max_depth, dtype="int32") == depth[..., None]
        is_pushed = is_top & (opened >= 0)[..., None]
        stack = ops.where(is_pushed, opened[..., None], gather_rows(state.stack, parents))
        change = ops.cast(opened >= 0, "int32") - ops.cast(closed >= 0, "int32")
        return TreeState(
            words_left=words_left - ops.cast(is_leaf, "int32"),
            # Where a beam has fewer hypotheses than places, the rest hold any symbols.
            depth=ops.clip(depth + change, 0, self.max_depth),
            openings=ops.where(opened >= 0, openings + 1, 0),
            stack=stack,
        )

    def _fits_next_word(self, is_leaf, token_ids, words, words_left):
        """Which tokens may stand for the next word: bool, to broadcast with the logits."""
        if not self.leaf_sets:
            return is_leaf
        is_in_set = np.array([np.isin(token_ids, leaf_set) for leaf_set in self.leaf_sets])
        # After the last word, and where a beam has no hypothesis, any index will do.
        last = ops.shape(words.kinds)[1] - 1
        index = ops.clip(words.count - words_left, 0, last)
        return ops.take(is_in_set, ops.take_along_axis(words.kinds, index, axis=1), axis=0)

    def _token_ids(self):
        """The ids of all symbols and the end token, in order: an array."""
        return np.array(
            sorted([END_ID, *self.opening_ids, *self.closing_ids, *self.leaf_ids]), "int32"
        )

    def _table(self):
        """What each token does, by its id: the label it opens, or -1; the label it closes, or -1;
        and whether it stands for a word.
        """
        size = self.largest_id + 1
        opened, closed = (np.full(size, -1, "int32") for _ in range(2))
        opened[list(self.opening_ids)] = np.arange(len(self.opening_ids))
        closed[list(self.closing_ids)] = np.arange(len(self.closing_ids))
        return opened, closed, np.isin(np.arange(size), self.leaf_ids)


def _integers(values):
    return tuple(int(value) for value in values)
