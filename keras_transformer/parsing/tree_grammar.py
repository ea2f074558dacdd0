"""The outputs that are trees: which symbols may come next, kept up inside the search.

A tree is predicted as a sequence of symbols (section 6.3; Vinyals et al., 2015): `(NP` opens a
constituent, `)NP` closes it, and a leaf stands for the next word.
"""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding.candidates import Constraint, gather_rows
from keras_transformer.decoding.static_fields import hashable_rows, per_example, values_of
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import END_ID


class TreeState(NamedTuple):
    """What has been built by each hypothesis, and what over."""

    words_left: object  # int32 (batch, beam): how many words have no leaf yet
    depth: object  # int32 (batch, beam): how many constituents are open
    openings: object  # int32 (batch, beam): how many have been opened since the last word
    was_opener: object  # bool (batch, beam): whether the last symbol opened a constituent
    stack: object  # int32 (batch, beam, max_depth): their labels, the outermost first
    num_words: object  # int32 (batch, 1)
    word_kinds: object  # int32 (batch, words): the leaf set of each word; () without leaf sets


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class TreeGrammar(Constraint):
    """The grammar of all trees over a sentence's words.

    A search with this constraint can only produce sequences that are one balanced tree: every
    constituent has a child and is closed under its own label, there is exactly one leaf for each
    word, nothing follows the tree, and it is whole before the output's limit. The output for a
    sentence without words is the end token alone.

    ```python
    search(model, encoder_token_ids, constraints=(grammar.over(num_words),))
    ```

    Args:
        opening_ids: ids of the symbols that open a constituent, one a label.
        closing_ids: ids of the symbols that close it, in the same order of labels. One that stands
            for several labels closes whichever is open.
        leaf_ids: ids of the symbols that stand for a word.
        max_depth: how many constituents may be open at once.
        max_openings: how many may be opened between one word and the next.
        leaf_sets: tuples of leaf ids, the sets that a word's leaf may have to be from; `over` tells
            which of them is each word's. Without any, every leaf may stand for every word.
        num_words: see `over`.
        word_kinds: see `over`.

    Raises:
        UserError: if there is no leaf, `opening_ids` and `closing_ids` do not pair up, a limit is
            not positive, or a leaf set is empty or has what is no leaf.
    """

    opening_ids: tuple
    closing_ids: tuple
    leaf_ids: tuple
    max_depth: int = 100
    max_openings: int = 100
    leaf_sets: tuple = ()
    num_words: object = per_example(None)
    word_kinds: object = per_example(None)

    def __post_init__(self):
        for name in ("opening_ids", "closing_ids", "leaf_ids"):
            # Plain integers, so that a search can be looked up by its grammar.
            object.__setattr__(self, name, _integers(getattr(self, name)))
        object.__setattr__(self, "leaf_sets", tuple(map(_integers, self.leaf_sets)))
        for name in ("num_words", "word_kinds"):
            object.__setattr__(self, name, hashable_rows(name, getattr(self, name)))
        if len(self.opening_ids) != len(self.closing_ids):
            raise UserError(
                "Each label needs one symbol that opens it and one that closes it. Received: "
                f"{len(self.opening_ids)} `opening_ids` and {len(self.closing_ids)} `closing_ids`"
            )
        symbols = [*self.opening_ids, *set(self.closing_ids), *self.leaf_ids]
        if not self.leaf_ids or len(set(symbols)) < len(symbols) or min(symbols) <= END_ID:
            raise UserError(
                "A grammar needs one leaf at least, and distinct ids above the end token's "
                f"{END_ID}. Received: {self}"
            )
        if min(self.max_depth, self.max_openings) < 1:
            raise UserError(f"`max_depth` and `max_openings` must be positive. Received: {self}")
        for leaf_set in self.leaf_sets:
            if not leaf_set or not set(leaf_set) <= set(self.leaf_ids):
                raise UserError(
                    "Each of `leaf_sets` must hold some of `leaf_ids`, one at least. "
                    f"Received: {leaf_set}, for leaf_ids={self.leaf_ids}"
                )

    def over(self, num_words, word_kinds=None):
        """The grammar of trees over the words of a batch's sentences.

        Args:
            num_words: int array `(batch,)`: the number of words of each sentence.
            word_kinds: with leaf sets, int array `(batch, words)`: which of them is each word's.
                What is beyond a sentence's words has no effect.

        Returns:
            A `TreeGrammar`.

        Raises:
            UserError: if one of them is not an array of integers.
        """
        return dataclasses.replace(self, num_words=num_words, word_kinds=word_kinds)

    def check(self, model, encoder_token_ids, limits):
        size = model.config.vocabulary_size
        if self.token_ids()[-1] >= size:
            raise UserError(
                f"The grammar's ids must be below {size}, the vocabulary size. "
                f"Received: {self.token_ids()[-1]}"
            )
        _check_num_words(self.num_words, encoder_token_ids, limits)
        if bool(self.leaf_sets) != (self.word_kinds is not None):
            raise UserError(
                "`word_kinds` and a grammar's `leaf_sets` go together. Received only one of them."
            )
        _check_kinds(self.word_kinds, self.num_words, len(self.leaf_sets))

    def token_ids(self):
        symbols = {*self.opening_ids, *self.closing_ids, *self.leaf_ids}
        return np.array(sorted({END_ID, *symbols}), "int32")

    def per_example_tensors(self):
        tensors = super().per_example_tensors()
        if "num_words" in tensors:
            tensors["num_words"] = ops.expand_dims(tensors["num_words"], 1)
        return tensors

    def first_state(self, sizes):
        words_left = ops.repeat(self.num_words, sizes.beam, axis=1)
        return TreeState(
            words_left=words_left,
            depth=ops.zeros_like(words_left),
            openings=ops.zeros_like(words_left),
            was_opener=ops.zeros_like(words_left, dtype="bool"),
            stack=ops.zeros((*ops.shape(words_left), self.max_depth), "int32"),
            num_words=self.num_words,
            word_kinds=() if self.word_kinds is None else self.word_kinds,
        )

    def allowed(self, log_probs, token_ids, state, progress):
        top = ops.maximum(state.depth - 1, 0)[..., None]
        innermost = ops.take_along_axis(state.stack, top, axis=-1)
        may_open, may_be_leaf, may_close, may_end = self._possible_steps(state, progress)
        opened, closes, is_leaf = (column[..., token_ids] for column in self._table())
        opens, ends = map(ops.convert_to_tensor, (opened >= 0, token_ids == END_ID))
        is_allowed = (
            (may_open[..., None] & opens)
            | (may_be_leaf[..., None] & self._fits_next_word(is_leaf, token_ids, state))
            | (may_close[..., None] & ops.take(closes, innermost[..., 0], axis=0))
            | (may_end[..., None] & ends)
        )
        return ops.where(is_allowed, log_probs, -np.inf)

    def _possible_steps(self, state, progress):
        """Whether the next symbol may open a constituent, be a leaf, close a constituent, or end
        the output: four tensors, bool `(batch, beam)`.
        """
        words_left, depth = state.words_left, state.depth
        is_inside = depth > 0
        # One more constituent needs its two brackets; each word its leaf, each open constituent its
        # closing bracket, and the output its end token.
        may_open = (words_left > 0) & self._has_room(state)
        may_open = may_open & (2 + words_left + depth + 1 <= progress.tokens_left)
        # Outside of all constituents, a leaf is the whole tree. (What is outside and has words left
        # has just begun: the outermost constituent is not closed before the last word.)
        may_be_leaf = (words_left > 0) & (is_inside | (words_left == 1))
        may_close = is_inside & ~state.was_opener & ((depth > 1) | (words_left == 0))
        may_end = (words_left == 0) & ~is_inside
        return may_open, may_be_leaf, may_close, may_end

    def _has_room(self, state):
        """Whether the limits leave room for one more constituent."""
        return (state.depth < self.max_depth) & (state.openings < self.max_openings)

    def next_state(self, state, parents, tokens):
        words_left, depth, openings = (
            ops.take_along_axis(x, parents, axis=1)
            for x in (state.words_left, state.depth, state.openings)
        )
        opened, closes, is_leaf = self._table()
        # A forced token may be none of the grammar's, and the last column does nothing.
        tokens = ops.minimum(tokens, len(opened) - 1)
        opened, is_closer, is_leaf = (
            ops.take(column, tokens, axis=0) for column in (opened, closes.any(axis=0), is_leaf)
        )
        is_top = ops.arange(self.max_depth, dtype="int32") == depth[..., None]
        is_pushed = is_top & (opened >= 0)[..., None]
        stack = ops.where(is_pushed, opened[..., None], gather_rows(state.stack, parents))
        is_opener = opened >= 0
        change = ops.cast(is_opener, "int32") - ops.cast(is_closer, "int32")
        return state._replace(
            words_left=words_left - ops.cast(is_leaf, "int32"),
            # Where a beam has fewer hypotheses than places, the rest hold any symbols.
            depth=ops.clip(depth + change, 0, self.max_depth),
            openings=ops.where(is_leaf, 0, openings + ops.cast(is_opener, "int32")),
            was_opener=is_opener,
            stack=stack,
        )

    def _fits_next_word(self, is_leaf, token_ids, state):
        """Which tokens may stand for the next word: bool, to broadcast with log-probabilities."""
        if not self.leaf_sets:
            return ops.convert_to_tensor(is_leaf)
        is_in_set = np.array([np.isin(token_ids, leaf_set) for leaf_set in self.leaf_sets])
        # After the last word, and where a beam has no hypothesis, any index will do.
        last = ops.shape(state.word_kinds)[1] - 1
        index = ops.clip(state.num_words - state.words_left, 0, last)
        kinds = ops.take_along_axis(state.word_kinds, index, axis=1)
        return ops.take(is_in_set, kinds, axis=0)

    def _table(self):
        """What each token does, by its id: the label it opens, or -1; whether it closes each label,
        `(labels, ids)`; and whether it stands for a word.
        """
        size = int(self.token_ids()[-1]) + 2
        opened = np.full(size, -1, "int32")
        opened[list(self.opening_ids)] = np.arange(len(self.opening_ids))
        closes = np.zeros((max(len(self.closing_ids), 1), size), bool)
        closes[np.arange(len(self.closing_ids)), list(self.closing_ids)] = True
        return opened, closes, np.isin(np.arange(size), self.leaf_ids)


def _check_num_words(num_words, encoder_token_ids, limits):
    if num_words is None:
        raise UserError(
            "A grammar and the numbers of words of the sentences go together: pass "
            "`grammar.over(num_words)`. Received the grammar alone."
        )
    shape = np.shape(num_words) if isinstance(num_words, tuple) else tuple(num_words.shape)
    if shape != (encoder_token_ids.shape[0],):
        raise UserError(
            "`num_words` must have the shape (batch,), a number for each source. "
            f"Received: shape={shape} for {encoder_token_ids.shape[0]} sources"
        )
    words = values_of(num_words)
    if words is None or limits is None:
        return
    # A leaf for each word, a constituent around several, and the end token. A source without tokens
    # has no output.
    wrong = (limits > 0) & ((words < 0) | (words + 1 + 2 * (words > 1) > limits))
    if wrong.any():
        row = wrong.argmax()
        raise UserError(
            "An output must be long enough for a tree over all words and the end token. Received: "
            f"row {row} of {words[row]} words, for an output of {limits[row]} at most. Pass a "
            "larger `extra_length`."
        )


def _check_kinds(word_kinds, num_words, num_sets):
    kinds, words = values_of(word_kinds), values_of(num_words)
    if kinds is None or words is None or not len(words):
        return
    most = max(words)
    if kinds.ndim != 2 or len(kinds) != len(words) or kinds.shape[1] < most:
        raise UserError(
            "`word_kinds` must have the shape (batch, words), a number for each word. Received: "
            f"shape={kinds.shape} for {len(words)} sources of up to {most} words"
        )
    if kinds.size and not (0 <= kinds.min() and kinds.max() < num_sets):
        raise UserError(
            f"`word_kinds` must be from 0 to {num_sets - 1}: the grammar has {num_sets} leaf sets. "
            f"Received: {kinds.min()} to {kinds.max()}"
        )


def _integers(values):
    return tuple(int(value) for value in values)


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class InOrderTreeGrammar(TreeGrammar):
    """The grammar of all trees over a sentence's words, written in-order (Liu and Zhang, 2017).

    A symbol that opens a constituent takes what stands before it, a leaf or a closed constituent,
    for its first child. So an output begins with a leaf; a constituent may be opened where a child
    is complete, and not where one has just been opened; it may be closed at once. Outside of all
    constituents one must be opened as long as words are left, and may be opened after the last.
    `InOrderBrackets` are such symbols.

    Its arguments are those of `TreeGrammar`; `max_openings` bounds chains of constituents of one
    child, which could go on without end.
    """

    def _possible_steps(self, state, progress):
        words_left, depth = state.words_left, state.depth
        is_inside = depth > 0
        has_begun = words_left < state.num_words
        # What is left to write if a constituent is opened now: see `TreeGrammar`. Inside of
        # constituents, what is not opened has its room: the way to the end is as long as it was.
        fits = 2 + words_left + depth + 1 <= progress.tokens_left
        may_open = has_begun & ~state.was_opener & self._has_room(state) & fits
        # The first leaf is the whole tree, or there must be room for the constituent around it.
        may_be_leaf = (words_left > 0) & (is_inside | ~has_begun)
        may_be_leaf = may_be_leaf & (
            is_inside | (words_left == 1) | (2 + words_left + 1 <= progress.tokens_left)
        )
        # With words left, another constituent must be opened around the outermost one.
        may_be_first_child = (state.openings < self.max_openings) & (
            1 + 2 + words_left + 1 <= progress.tokens_left
        )
        may_close = is_inside & ((depth > 1) | (words_left == 0) | may_be_first_child)
        may_end = (words_left == 0) & ~is_inside
        return may_open, may_be_leaf, may_close, may_end
