"""The outputs that are trees in-order: each constituent is opened after its first child."""

from dataclasses import dataclass

import keras

from keras_transformer.parsing.tree_grammar import TreeGrammar


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
