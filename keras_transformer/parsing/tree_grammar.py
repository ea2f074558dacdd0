"""Grammars that constrain a search to trees.

A tree is predicted as a sequence of symbols (section 6.3; Vinyals et al., 2015): `(NP` opens a
constituent, `)NP` closes it, and a leaf stands for the next word.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.candidates import Constraint, Progress, Sizes, gather_rows
from keras_transformer.decoding.static_fields import hashable_rows, known_values, per_example
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import END_ID

if TYPE_CHECKING:
    from keras_transformer.models.transformer import Transformer


class TreeState(NamedTuple):
    """The partial tree of each hypothesis."""

    words_left: Tensor  # int32 (batch, beam): the number of words without a leaf
    depth: Tensor  # int32 (batch, beam): the number of open constituents
    openings: Tensor  # int32 (batch, beam): the number of constituents opened since the last word
    was_opener: Tensor  # bool (batch, beam): whether the last symbol opened a constituent
    stack: Tensor  # int32 (batch, beam, max_depth): labels of open constituents, outermost first
    num_words: Tensor  # int32 (batch, 1)
    word_kinds: Tensor  # int32 (batch, words): the leaf set of each word; () without leaf sets


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class TreeGrammar(Constraint):
    """The grammar of all trees over a sentence's words.

    A search with this constraint can only produce sequences that are one balanced tree. Every
    constituent has a child and is closed under its own label, there is exactly one leaf per word,
    nothing follows the tree, and the tree is complete before the output's limit. The output for a
    sentence without words is the end token alone.

    ```python
    search(model, encoder_token_ids, constraints=(grammar.over(num_words),))
    ```

    Args:
        opening_ids: ids of the symbols that open a constituent, one per label.
        closing_ids: ids of the symbols that close it, in the same order of labels. An id that is
            repeated closes a constituent of any of its labels.
        leaf_ids: ids of the symbols that stand for a word.
        max_depth: the largest number of open constituents.
        max_openings: the largest number of constituents opened between two words.
        leaf_sets: tuples of leaf ids, to which the leaves of words may be limited. `over` selects
            the set of each word. Without sets, every leaf may stand for every word.
        num_words: see `over`.
        word_kinds: see `over`.

    Raises:
        UserError: if there is no leaf, the lengths of `opening_ids` and `closing_ids` differ, a
            limit is not positive, or a leaf set is empty or contains an id that is not a leaf.
    """

    opening_ids: tuple[int, ...]
    closing_ids: tuple[int, ...]
    leaf_ids: tuple[int, ...]
    max_depth: int = 100
    max_openings: int = 100
    leaf_sets: tuple[tuple[int, ...], ...] = ()
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
                "`opening_ids` and `closing_ids` must have one id per label. Received: "
                f"{len(self.opening_ids)} `opening_ids` and {len(self.closing_ids)} `closing_ids`"
            )
        symbols = [*self.opening_ids, *set(self.closing_ids), *self.leaf_ids]
        if not self.leaf_ids or len(set(symbols)) < len(symbols) or min(symbols) <= END_ID:
            raise UserError(
                "A grammar needs at least one leaf, and distinct ids above the end token's "
                f"{END_ID}. Received: {self}"
            )
        if min(self.max_depth, self.max_openings) < 1:
            raise UserError(f"`max_depth` and `max_openings` must be positive. Received: {self}")
        for leaf_set in self.leaf_sets:
            if not leaf_set or not set(leaf_set) <= set(self.leaf_ids):
                raise UserError(
                    "Each of `leaf_sets` must hold one or more of `leaf_ids`. "
                    f"Received: {leaf_set}, for leaf_ids={self.leaf_ids}"
                )

    def over(self, num_words: Tensor, word_kinds: Tensor | None = None) -> Self:
        """Return the grammar of trees over the words of a batch of sentences.

        Args:
            num_words: int array `(batch,)`: the number of words of each sentence.
            word_kinds: with leaf sets, int array `(batch, words)`: the index of each word's set.
                Entries after a sentence's words have no effect.

        Returns:
            A `TreeGrammar`.

        Raises:
            UserError: if one of them is not an array of integers.
        """
        return dataclasses.replace(self, num_words=num_words, word_kinds=word_kinds)

    def validate_inputs(
        self, model: "Transformer", encoder_token_ids: Tensor, limits: np.ndarray | None
    ) -> None:
        size = model.config.vocabulary_size
        if self.token_ids()[-1] >= size:
            raise UserError(
                f"The grammar's ids must be below {size}, the vocabulary size. "
                f"Received: {self.token_ids()[-1]}"
            )
        _validate_num_words(self.num_words, encoder_token_ids, limits)
        if bool(self.leaf_sets) != (self.word_kinds is not None):
            raise UserError(
                "`leaf_sets` and `word_kinds` must be given together. Received only one of them."
            )
        _validate_kinds(self.word_kinds, self.num_words, len(self.leaf_sets))

    def token_ids(self) -> np.ndarray:
        symbols = {*self.opening_ids, *self.closing_ids, *self.leaf_ids}
        return np.array(sorted({END_ID, *symbols}), "int32")

    def per_example_tensors(self) -> dict[str, Tensor]:
        tensors = super().per_example_tensors()
        if "num_words" in tensors:
            tensors["num_words"] = ops.expand_dims(tensors["num_words"], 1)
        return tensors

    def first_state(self, sizes: Sizes) -> TreeState:
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

    def allowed(
        self, log_probs: Tensor, token_ids: Tensor, state: TreeState, progress: Progress
    ) -> Tensor:
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
        """Return four bool tensors `(batch, beam)`: whether the next symbol may open a constituent,
        be a leaf, close a constituent, or end the output.
        """
        words_left, depth = state.words_left, state.depth
        is_inside = depth > 0
        # One more constituent needs two brackets, each word a leaf, each open constituent a closing
        # bracket, and the output an end token.
        may_open = (words_left > 0) & self._has_room(state)
        may_open = may_open & (2 + words_left + depth + 1 <= progress.tokens_left)
        # Outside all constituents, a leaf is the whole tree. (With words left, this is the start of
        # the output: the outermost constituent is not closed before the last word.)
        may_be_leaf = (words_left > 0) & (is_inside | (words_left == 1))
        may_close = is_inside & ~state.was_opener & ((depth > 1) | (words_left == 0))
        may_end = (words_left == 0) & ~is_inside
        return may_open, may_be_leaf, may_close, may_end

    def _has_room(self, state):
        """Return whether the limits allow one more constituent."""
        return (state.depth < self.max_depth) & (state.openings < self.max_openings)

    def next_state(self, state: TreeState, parents: Tensor, tokens: Tensor) -> TreeState:
        words_left, depth, openings = (
            ops.take_along_axis(x, parents, axis=1)
            for x in (state.words_left, state.depth, state.openings)
        )
        opened, closes, is_leaf = self._table()
        # A forced token may not belong to the grammar. The last column has no effect.
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
            # Places of the beam without a hypothesis may hold any symbols.
            depth=ops.clip(depth + change, 0, self.max_depth),
            openings=ops.where(is_leaf, 0, openings + ops.cast(is_opener, "int32")),
            was_opener=is_opener,
            stack=stack,
        )

    def _fits_next_word(self, is_leaf, token_ids, state):
        """Return which tokens may stand for the next word: bool, broadcast to `log_probs`."""
        if not self.leaf_sets:
            return ops.convert_to_tensor(is_leaf)
        is_in_set = np.array([np.isin(token_ids, leaf_set) for leaf_set in self.leaf_sets])
        # After the last word, and in places without a hypothesis, any index is valid.
        last = ops.shape(state.word_kinds)[1] - 1
        index = ops.clip(state.num_words - state.words_left, 0, last)
        kinds = ops.take_along_axis(state.word_kinds, index, axis=1)
        return ops.take(is_in_set, kinds, axis=0)

    def _table(self):
        """Return three arrays by token id: the label that the token opens, or -1; whether it closes
        each label, `(labels, ids)`; and whether it stands for a word.
        """
        size = int(self.token_ids()[-1]) + 2
        opened = np.full(size, -1, "int32")
        opened[list(self.opening_ids)] = np.arange(len(self.opening_ids))
        closes = np.zeros((max(len(self.closing_ids), 1), size), bool)
        closes[np.arange(len(self.closing_ids)), list(self.closing_ids)] = True
        return opened, closes, np.isin(np.arange(size), self.leaf_ids)


def _validate_num_words(
    num_words: Any, encoder_token_ids: Tensor, limits: np.ndarray | None
) -> None:
    if num_words is None:
        raise UserError(
            "A grammar needs the numbers of words of the sentences. Expected "
            "`grammar.over(num_words)`. Received: the grammar alone"
        )
    shape = np.shape(num_words) if isinstance(num_words, tuple) else tuple(num_words.shape)
    if shape != (encoder_token_ids.shape[0],):
        raise UserError(
            "`num_words` must have the shape (batch,), one number per source. "
            f"Received: shape={shape} for {encoder_token_ids.shape[0]} sources"
        )
    words = known_values(num_words)
    if words is None or limits is None:
        return
    # An output needs a leaf per word, a constituent around several words, and the end token. A
    # source without tokens has no output.
    wrong = (limits > 0) & ((words < 0) | (words + 1 + 2 * (words > 1) > limits))
    if wrong.any():
        row = wrong.argmax()
        raise UserError(
            "An output must be long enough for a tree over all words and the end token. Received: "
            f"row {row} with {words[row]} words, for an output of at most {limits[row]} tokens. "
            "Pass a larger `extra_length`."
        )


def _validate_kinds(word_kinds: Any, num_words: Any, num_sets: int) -> None:
    kinds, words = known_values(word_kinds), known_values(num_words)
    if kinds is None or words is None or not len(words):
        return
    most = max(words)
    if kinds.ndim != 2 or len(kinds) != len(words) or kinds.shape[1] < most:
        raise UserError(
            "`word_kinds` must have the shape (batch, words), one number per word. Received: "
            f"shape={kinds.shape} for {len(words)} sources of up to {most} words"
        )
    if kinds.size and not (0 <= kinds.min() and kinds.max() < num_sets):
        raise UserError(
            f"`word_kinds` must be from 0 to {num_sets - 1}: the grammar has {num_sets} leaf sets. "
            f"Received: {kinds.min()} to {kinds.max()}"
        )


def _integers(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class InOrderTreeGrammar(TreeGrammar):
    """The grammar of all trees over a sentence's words, written in-order (Liu and Zhang, 2017).

    A symbol that opens a constituent takes the leaf or closed constituent before it as its first
    child. So an output begins with a leaf. A constituent may be opened after a complete child, but
    not directly after another opening, and may be closed at once. Outside all constituents, one
    must be opened as long as words are left, and may be opened after the last word.
    `InOrderBrackets` are such symbols.

    It has the arguments of `TreeGrammar`. `max_openings` limits chains of constituents with one
    child, which could otherwise be endless.
    """

    def _possible_steps(self, state, progress):
        words_left, depth = state.words_left, state.depth
        is_inside = depth > 0
        has_begun = words_left < state.num_words
        # The tokens still needed if a constituent is opened now: see `TreeGrammar`. Inside
        # constituents, other steps do not need more tokens than before.
        fits = 2 + words_left + depth + 1 <= progress.tokens_left
        may_open = has_begun & ~state.was_opener & self._has_room(state) & fits
        # The first leaf is the whole tree, or the output needs room for the constituent around it.
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
