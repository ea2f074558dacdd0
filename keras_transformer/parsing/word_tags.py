"""Which tags a word may have, by what it had in a treebank."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from keras import ops

from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.errors import UserError
from keras_transformer.parsing.trees import UNKNOWN_TAG, tagged_words
from keras_transformer.tasks.length_batches import padded_size
from keras_transformer.validation import positive_integer

if TYPE_CHECKING:
    from nltk import Tree


class TagDictionary:
    """A tag dictionary (Ratnaparkhi, 1996): a word that is frequent in a treebank may only have the
    tags it has there; every other word may have those that many different words have there.

    It leaves a parser's search the tags that fit each word. So a search that has lost count of the
    words finds its way again at the next comma, and EVALB, which leaves out punctuation by its tag,
    leaves out the same words of both trees.

    Args:
        tag_sets: list of lists of tags. The first is that of all words that are not frequent.
        words: the frequent words that may have the tags of the other sets: a list of words for
            each, with spaces between them.

    Raises:
        UserError: if there is no set, one is empty, or the words are not for all sets but the
            first.
    """

    def __init__(self, tag_sets: list[list[str]], words: list[str]):
        if not tag_sets or not all(tag_sets) or len(words) != len(tag_sets) - 1:
            raise UserError(
                "A tag dictionary needs a set of tags for unknown words, and words for each "
                f"further set. Received: {len(tag_sets)} sets, the smallest of "
                f"{min(map(len, tag_sets), default=0)} tags, and {len(words)} lists of words"
            )
        self.tag_sets = tag_sets
        self.words = words
        self.kinds = {
            word: kind for kind, line in enumerate(words, start=1) for word in line.split(" ")
        }

    def __repr__(self) -> str:
        return f"<TagDictionary: {len(self.kinds):,} words, {len(self.tag_sets)} sets of tags>"

    @classmethod
    def from_trees(
        cls,
        trees: Iterable["Tree"],
        min_count: int = 5,
        min_share: float = 0.003,
        min_words: int = 10,
    ) -> "TagDictionary":
        """Make the dictionary of a treebank.

        Args:
            trees: the trees.
            min_count: a word that occurs so often is frequent.
            min_share: a tag that a word has in less than this part of its occurrences is a slip of
                the annotators. They tagged three of CRAFT's 19,410 commas as nouns.
            min_words: so many different words with a tag are many.

        Raises:
            UserError: if `min_count` is not positive.
        """
        return cls.from_counts(count_tags(trees), min_count, min_share, min_words)

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, Counter[str]],
        min_count: int = 5,
        min_share: float = 0.003,
        min_words: int = 10,
    ) -> "TagDictionary":
        """Make the dictionary of a treebank whose tags have been counted.

        Args:
            counts: what `count_tags` returns.
            min_count: as for `from_trees`.
            min_share: likewise.
            min_words: likewise.

        Raises:
            UserError: if `min_count` is not positive.
        """
        positive_integer("min_count", min_count)
        tags_of = {
            word: [tag for tag, count in tags.items() if count >= min_share * tags.total()]
            for word, tags in counts.items()
        }
        num_words = Counter(tag for tags in tags_of.values() for tag in tags)
        # Where no tag has many words, all have few.
        common = [tag for tag in num_words if num_words[tag] >= min_words] or num_words
        words = defaultdict(list)
        for word, tags in tags_of.items():
            if counts[word].total() >= min_count:
                words[tuple(sorted(tags))].append(word)
        sets = sorted(words)
        return cls(
            [sorted(common), *map(list, sets)], [" ".join(sorted(words[tags])) for tags in sets]
        )

    @classmethod
    def from_dict(cls, values: dict) -> "TagDictionary":
        """Make what `to_dict` is of.

        Args:
            values: a dict, as `to_dict` returns.

        Returns:
            A `TagDictionary`.

        Raises:
            UserError: if the values are of another kind.
        """
        is_whole = (
            isinstance(values, dict)
            and values.keys() == {"tag_sets", "words"}
            and all(isinstance(part, list) for part in values.values())
            and all(map(_are_strings, [*values["tag_sets"], values["words"]]))
        )
        if not is_whole:
            raise UserError(
                'A tag dictionary is made of "tag_sets", a list of lists of tags, and of "words", '
                f"a list of strings. Received: {repr(values)[:60]}"
            )
        return cls(**values)

    def kinds_of(self, words: Iterable[str]) -> list[int]:
        """For each word the index of its tag set.

        Args:
            words: iterable of strings.

        Returns:
            A list of integers.
        """
        return [self.kinds.get(word, 0) for word in words]

    def to_dict(self) -> dict:
        """The arguments that make the same dictionary, as JSON values."""
        return {"tag_sets": self.tag_sets, "words": self.words}


def count_tags(
    trees: Iterable["Tree"], counts: defaultdict[str, Counter[str]] | None = None
) -> defaultdict[str, Counter[str]]:
    """How often each word of some trees has each tag.

    Args:
        trees: the trees.
        counts: those of other trees, to which these are added. None: there are no others.

    Returns:
        A dict of word -> counts of its tags: `counts`, if they are given.
    """
    counts = defaultdict(Counter) if counts is None else counts
    for tree in trees:
        for word, tag in tagged_words(tree):
            counts[word][tag] += 1
    return counts


def _are_strings(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


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
