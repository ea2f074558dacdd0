"""Which tags the words of a parser's sentences may have, and which its tagger gives them."""

import numpy as np
from keras import ops

from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.errors import UserError
from keras_transformer.parsing.trees import UNKNOWN_TAG
from keras_transformer.tasks.length_batches import padded_size


class WordTags:
    """Knows the leaves that words may have: those of their tags, if these are given, and those of
    the tag dictionary, if there is one.

    A word's kind is the number of the set of leaves that it may have.

    Args:
        symbols: `TreeSymbols`.
        tag_dictionary: a `TagDictionary`, or None.

    Attributes:
        leaves: the ids of all leaves: a dict of tag -> id.
        leaf_sets: a list of lists of ids, those of each kind of the dictionary; `()` without one.

    Raises:
        UserError: if the dictionary has tags that are no symbols.
    """

    def __init__(self, symbols, tag_dictionary):
        self.leaves = symbols.leaves()
        self.tag_dictionary = tag_dictionary
        self.leaf_sets = ()
        if tag_dictionary is None:
            return
        unknown = set().union(*tag_dictionary.tag_sets) - self.leaves.keys()
        if unknown:
            raise UserError(
                "The tag dictionary is of other trees than the parser: there are no symbols of its "
                f"tags {', '.join(sorted(unknown))}."
            )
        self.leaf_sets = [[self.leaves[tag] for tag in tags] for tags in tag_dictionary.tag_sets]

    def leaf_sets_of_given(self):
        """As `leaf_sets`, and one more set for each leaf alone, for words whose tag is given."""
        leaves = self.leaves.values()
        return [*(self.leaf_sets or [leaves]), *([leaf] for leaf in leaves)]

    def kinds(self, num_words, sentences):
        """The dictionary's kinds of words, or None without one.

        Args:
            num_words: int array `(batch,)`.
            sentences: list of lists of words, as trees have them; no more than the batch.

        Returns:
            Int array `(batch, words)`.
        """
        if self.tag_dictionary is None:
            return None
        kinds = _no_kinds(num_words)
        for row, words in enumerate(sentences):
            kinds[row, : len(words)] = self.tag_dictionary.kinds_of(words)
        return kinds

    def kinds_with_given(self, kinds, num_words, tags):
        """Kinds of words by `leaf_sets_of_given`.

        Args:
            kinds: what `kinds` returned.
            num_words: int array `(batch,)`.
            tags: list of lists of tags, with None for words whose tag is not given.

        Returns:
            Int array `(batch, words)`, or None if no tag of a leaf is given. (A search is free
            where there is no leaf of a tag: it is written into the tree all the same.)
        """
        numbers = {tag: number for number, tag in enumerate(self.leaves)}
        places = [
            (row, column, numbers[tag])
            for row, of_words in enumerate(tags)
            for column, tag in enumerate(of_words)
            if tag in numbers
        ]
        if not places:
            return None
        kinds = _no_kinds(num_words) if kinds is None else kinds
        first = len(self.leaf_sets or [()])
        for row, column, number in places:
            kinds[row, column] = first + number
        return kinds

    def tag(self, model, token_ids, kinds=None):
        """The leaves that the model's tagger finds best among those that words may have.

        Args:
            model: a `Transformer` with an `untagged_leaf_id` or a `tag_loss_weight`.
            token_ids: int tensor `(batch, source)`.
            kinds: int tensor `(batch, words)`, or None.

        Returns:
            Int32 tensor `(batch, source)`, of each word; then of no word.

        Raises:
            UserError: if the model has no tagger.
        """
        # What stands for all tags says nothing, unless the treebank has it for a tag.
        tags = [leaf for tag, leaf in self.leaves.items() if tag != UNKNOWN_TAG]
        leaf_sets = self.leaf_sets or [tags or self.leaves.values()]
        if kinds is None:
            kinds = ops.zeros_like(ops.convert_to_tensor(token_ids, "int32"))
        return run_compiled(
            _tag, model, token_ids, kinds, leaf_sets=tuple(tuple(leaves) for leaves in leaf_sets)
        )

    def tags_of(self, leaves):
        """The tags of an int array of leaves, as a list."""
        tags = {leaf: tag for tag, leaf in self.leaves.items()}
        return [tags[leaf] for leaf in leaves.tolist()]


def _tag(model, token_ids, kinds, leaf_sets):
    log_probs = model.tag(token_ids)
    leaf_ids = np.array(model.decoder.tagger.leaf_ids, "int32")
    # As many kinds as tokens, which are more than the words.
    none = ops.zeros_like(ops.cast(token_ids, "int32"))
    kinds = ops.concatenate([ops.cast(kinds, "int32"), none], axis=1)[:, : ops.shape(none)[1]]
    may_be = np.array([np.isin(leaf_ids, leaves) for leaves in leaf_sets])
    log_probs = ops.where(ops.take(may_be, kinds, axis=0), log_probs, -np.inf)
    return ops.take(leaf_ids, ops.argmax(log_probs, axis=-1), axis=0)


def _no_kinds(num_words):
    """Kinds of words that are all 0: `(batch, words)`, padded to one of few sizes."""
    return np.zeros((len(num_words), padded_size(num_words.max())), "int32")
