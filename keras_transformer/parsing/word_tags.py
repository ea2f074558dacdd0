"""Tags that the words of a parser's sentences may have, and tags from the parser's tagger."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.batched_search import padded_size
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.errors import UserError
from keras_transformer.parsing.parser_tokens import TreeSymbols
from keras_transformer.parsing.traversal import tagged_words
from keras_transformer.validation import positive_integer

if TYPE_CHECKING:
    from nltk import Tree

    from keras_transformer.parsing.parser_transformer import ParserTransformer


class TagDictionary:
    """A tag dictionary (Ratnaparkhi, 1996), which limits the tags of each word.

    A word that is frequent in a treebank may only have the tags that it has there. Every other word
    may have the tags that many different words have there.

    A parser's search is left with the tags that fit each word. So a search that has lost count of
    the words recovers at the next comma, and EVALB, which ignores punctuation by its tag, ignores
    the same words in both trees.

    Args:
        tag_sets: list of lists of tags. The first list is for all words that are not frequent.
        words: for each further list of tags, the frequent words that may have them, separated by
            spaces.

    Raises:
        UserError: if there is no set, a set is empty, or the numbers of lists do not match.
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
        """Create the dictionary of a treebank.

        Args:
            trees: the trees.
            min_count: the fewest occurrences of a frequent word.
            min_share: a tag with a smaller share of a word's occurrences is an annotation error,
                and is ignored. Three of CRAFT's 19,410 commas are tagged as nouns.
            min_words: the fewest words of a tag that words that are not frequent may have.

        Returns:
            A `TagDictionary`.

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
        """Create the dictionary of a treebank from counts of its tags.

        Args:
            counts: the result of `count_tags`.
            min_count: as for `from_trees`.
            min_share: as for `from_trees`.
            min_words: as for `from_trees`.

        Returns:
            A `TagDictionary`.

        Raises:
            UserError: if `min_count` is not positive.
        """
        positive_integer("min_count", min_count)
        tags_of = {
            word: [tag for tag, count in tags.items() if count >= min_share * tags.total()]
            for word, tags in counts.items()
        }
        num_words = Counter(tag for tags in tags_of.values() for tag in tags)
        # If no tag has many words, all tags are allowed.
        common = [tag for tag in num_words if num_words[tag] >= min_words] or num_words
        words: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for word, tags in tags_of.items():
            if counts[word].total() >= min_count:
                words[tuple(sorted(tags))].append(word)
        sets = sorted(words)
        return cls(
            [sorted(common), *map(list, sets)], [" ".join(sorted(words[tags])) for tags in sets]
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TagDictionary":
        """Create a dictionary from the result of `to_dict`.

        Args:
            values: a dict.

        Returns:
            A `TagDictionary`.

        Raises:
            UserError: if the dict has another form.
        """
        is_valid = (
            isinstance(values, dict)
            and values.keys() == {"tag_sets", "words"}
            and all(isinstance(part, list) for part in values.values())
            and all(map(_are_strings, [*values["tag_sets"], values["words"]]))
        )
        if not is_valid:
            raise UserError(
                'A tag dictionary must have "tag_sets", a list of lists of tags, and "words", a '
                f"list of strings. Received: {repr(values)[:60]}"
            )
        return cls(**values)

    def kinds_of(self, words: Iterable[str]) -> list[int]:
        """Return the index of the tag set of each word.

        Args:
            words: iterable of strings.

        Returns:
            A list of integers.
        """
        return [self.kinds.get(word, 0) for word in words]

    def to_dict(self) -> dict[str, Any]:
        """Return the constructor arguments of this dictionary, as JSON values."""
        return {"tag_sets": self.tag_sets, "words": self.words}


def count_tags(
    trees: Iterable["Tree"], counts: defaultdict[str, Counter[str]] | None = None
) -> defaultdict[str, Counter[str]]:
    """Count how often each word has each tag.

    Args:
        trees: the trees.
        counts: counts of other trees, which are updated. None starts from zero.

    Returns:
        A dict of word -> counts of its tags.
    """
    counts = defaultdict(Counter) if counts is None else counts
    for tree in trees:
        for word, tag in tagged_words(tree):
            counts[word][tag] += 1
    return counts


def _are_strings(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


class WordTags:
    """The leaves that words may have, by given tags and by a tag dictionary.

    The kind of a word is the index of the set of leaves that it may have.

    Args:
        symbols: `TreeSymbols`.
        tag_dictionary: a `TagDictionary`, or None.

    Attributes:
        leaves: the ids of all leaves: a dict of tag -> id.
        leaf_sets: list of lists of ids, the leaves of each kind of the dictionary; `()` without a
            dictionary.

    Raises:
        UserError: if the dictionary has tags that are not symbols.
    """

    def __init__(self, symbols: TreeSymbols, tag_dictionary: TagDictionary | None):
        self.leaves = symbols.leaves()
        self.tag_dictionary = tag_dictionary
        self.leaf_sets: Sequence[Sequence[int]] = ()
        if tag_dictionary is None:
            return
        unknown = set().union(*tag_dictionary.tag_sets) - self.leaves.keys()
        if unknown:
            raise UserError(
                "The tag dictionary does not match the parser, which has no symbols for its tags "
                f"{', '.join(sorted(unknown))}."
            )
        self.leaf_sets = [[self.leaves[tag] for tag in tags] for tags in tag_dictionary.tag_sets]

    def leaf_sets_of_given(self) -> list[Sequence[int]]:
        """Return `leaf_sets`, and one more set per leaf, for words whose tag is given."""
        leaves = [*self.leaves.values()]
        return [*(self.leaf_sets or [leaves]), *([leaf] for leaf in leaves)]

    def kinds(self, num_words: np.ndarray, sentences: Iterable[Sequence[str]]) -> np.ndarray | None:
        """Return the dictionary's kinds of words, or None without a dictionary.

        Args:
            num_words: int array `(batch,)`.
            sentences: list of lists of words, spelled as in trees; at most `batch` lists.

        Returns:
            Int array `(batch, words)`.
        """
        if self.tag_dictionary is None:
            return None
        kinds = _no_kinds(num_words)
        for row, words in enumerate(sentences):
            kinds[row, : len(words)] = self.tag_dictionary.kinds_of(words)
        return kinds

    def kinds_with_given(
        self,
        kinds: np.ndarray | None,
        num_words: np.ndarray,
        tags: Iterable[Sequence[str | None]],
    ) -> np.ndarray | None:
        """Return kinds of words for `leaf_sets_of_given`.

        Args:
            kinds: the result of `kinds`.
            num_words: int array `(batch,)`.
            tags: list of lists of tags, with None for words whose tag is not given.

        Returns:
            Int array `(batch, words)`, or None if no tag of a leaf is given. (A tag without a leaf
            does not limit the search, and is written into the tree afterwards.)
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

    def tag(
        self, model: "ParserTransformer", token_ids: Tensor, kinds: Tensor | None = None
    ) -> Tensor:
        """Return the best leaves by the model's tagger, among the leaves that words may have.

        Args:
            model: a `ParserTransformer` with a `tag_loss_weight`.
            token_ids: int tensor `(batch, source)`.
            kinds: int tensor `(batch, words)`, or None.

        Returns:
            Int32 tensor `(batch, source)`: the leaf of each word; further entries have no meaning.

        Raises:
            UserError: if the model has no tagger.
        """
        leaf_sets = self.leaf_sets or [[*self.leaves.values()]]
        if kinds is None:
            kinds = ops.zeros_like(ops.convert_to_tensor(token_ids, "int32"))
        return run_compiled(
            _tag, model, token_ids, kinds, leaf_sets=tuple(tuple(leaves) for leaves in leaf_sets)
        )

    def tags_of(self, leaves: np.ndarray) -> list[str]:
        """Return the tags of an int array of leaves."""
        tags = {leaf: tag for tag, leaf in self.leaves.items()}
        return [tags[leaf] for leaf in leaves.tolist()]


def _tag(
    model: "ParserTransformer",
    token_ids: Tensor,
    kinds: Tensor,
    leaf_sets: tuple[tuple[int, ...], ...],
) -> Tensor:
    log_probs = model.tag(token_ids)
    leaf_ids = np.array(sorted({*(model.config.leaf_ids or ())}), "int32")
    # Pad to one kind per token: a sentence has at least as many tokens as words.
    padding = ops.zeros_like(ops.cast(token_ids, "int32"))
    kinds = ops.concatenate([ops.cast(kinds, "int32"), padding], axis=1)
    kinds = kinds[:, : ops.shape(padding)[1]]
    is_allowed = np.array([np.isin(leaf_ids, leaves) for leaves in leaf_sets])
    log_probs = ops.where(ops.take(is_allowed, kinds, axis=0), log_probs, -np.inf)
    return ops.take(leaf_ids, ops.argmax(log_probs, axis=-1), axis=0)


def _no_kinds(num_words: np.ndarray) -> np.ndarray:
    """Return kinds that are all 0: `(batch, words)`, padded to one of few sizes."""
    return np.zeros((len(num_words), padded_size(num_words.max())), "int32")
