"""Tags that the words of a parser's sentences may have, and tags from the parser's tagger."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.batched_search import padded_size
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import escape
from keras_transformer.parsing.parser_tokens import TreeSymbols
from keras_transformer.parsing.traversal import tagged_words
from keras_transformer.parsing.tree_grammar import InOrderTreeGrammar, TreeGrammar
from keras_transformer.parsing.words import Words
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
    def from_trees(cls, trees: Iterable["Tree"], **options: Any) -> "TagDictionary":
        """Create the dictionary of a treebank.

        Args:
            trees: the trees.
            **options: options of `from_counts`.

        Returns:
            A `TagDictionary`.

        Raises:
            UserError: if `min_count` is not positive.
        """
        return cls.from_counts(count_tags(trees), **options)

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
            min_count: the fewest occurrences of a frequent word.
            min_share: a tag with a smaller share of a word's occurrences is an annotation error,
                and is ignored. Three of CRAFT's 19,410 commas are tagged as nouns.
            min_words: the fewest words of a tag that words that are not frequent may have.

        Returns:
            A `TagDictionary`.

        Raises:
            UserError: if `min_count` is not positive.
        """
        positive_integer("min_count", min_count)
        kept = {
            word: [tag for tag, count in tags.items() if count >= min_share * tags.total()]
            for word, tags in counts.items()
        }
        num_words = Counter(tag for tags in kept.values() for tag in tags)
        # If no tag has many words, all tags are allowed.
        common = [tag for tag in num_words if num_words[tag] >= min_words] or num_words
        words: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for word, tags in kept.items():
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

    def word_kinds(self, words: Iterable[str]) -> list[int]:
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
    """The leaves that words may have in a parser's trees, by given tags and by a tag dictionary.

    The kind of a word is the index of the set of leaves that it may have.

    Args:
        symbols: `TreeSymbols`.
        tag_dictionary: a `TagDictionary`, or None.
        max_openings: as for `TreeGrammar`.

    Attributes:
        leaves: the ids of all leaves: a dict of tag -> id.
        leaf_sets: tuples of ids, the leaves of each kind of the dictionary; `()` without a
            dictionary.

    Raises:
        UserError: if the dictionary has tags that are not symbols.
    """

    def __init__(
        self,
        symbols: TreeSymbols,
        tag_dictionary: TagDictionary | None,
        max_openings: int = TreeGrammar.max_openings,
    ):
        self.symbols = symbols
        self.leaves = symbols.leaves()
        self.tag_dictionary = tag_dictionary
        self.max_openings = max_openings
        tag_sets = [] if tag_dictionary is None else tag_dictionary.tag_sets
        unknown = set().union(*tag_sets) - self.leaves.keys()
        if unknown:
            raise UserError(
                "The tag dictionary does not match the parser, which has no symbols for its tags "
                f"{', '.join(sorted(unknown))}."
            )
        self.leaf_sets = tuple(tuple(self.leaves[tag] for tag in tags) for tags in tag_sets)

    @cached_property
    def grammar(self) -> TreeGrammar:
        """The grammar of trees in which words have the dictionary's leaves."""
        return self._make_grammar(self.leaf_sets)

    @cached_property
    def _grammar_of_given(self) -> TreeGrammar:
        """The grammar with one more leaf set per leaf, for words whose tag is given."""
        leaves = tuple(self.leaves.values())
        return self._make_grammar((*(self.leaf_sets or (leaves,)), *((leaf,) for leaf in leaves)))

    def _make_grammar(self, leaf_sets: tuple[tuple[int, ...], ...]) -> TreeGrammar:
        return _GRAMMARS[self.symbols.linearization.order](
            *self.symbols.brackets(),
            tuple(self.leaves.values()),
            max_openings=self.max_openings,
            leaf_sets=leaf_sets,
        )

    def grammar_over(self, sentences: Sequence[Words], num_rows: int) -> TreeGrammar:
        """Return the grammar of trees over sentences, whose words have their given tags.

        Args:
            sentences: list of `Words`.
            num_rows: the number of rows of the batch, which may have padding after the sentences.

        Returns:
            A `TreeGrammar`. A given tag without a leaf does not limit it.
        """
        num_words, kinds = self.word_kinds(sentences, num_rows)
        numbers = {tag: number for number, tag in enumerate(self.leaves)}
        given = [
            (row, column, numbers[tag])
            for row, (_, tags) in enumerate(sentences)
            for column, tag in enumerate(tags)
            if tag in numbers
        ]
        if not given:
            return self.grammar.over(num_words, kinds)
        kinds = _no_kinds(num_words) if kinds is None else kinds
        first = len(self.leaf_sets or [()])
        for row, column, number in given:
            kinds[row, column] = first + number
        return self._grammar_of_given.over(num_words, kinds)

    def word_kinds(
        self, sentences: Sequence[Words], num_rows: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the numbers of words, and the dictionary's kinds of the words.

        Args:
            sentences: list of `Words`.
            num_rows: as for `grammar_over`.

        Returns:
            Int arrays `(num_rows,)` and `(num_rows, words)`; without a dictionary, None in place of
            the second.
        """
        num_words = np.zeros(num_rows, "int32")
        num_words[: len(sentences)] = [len(words) for words, _ in sentences]
        if self.tag_dictionary is None:
            return num_words, None
        kinds = _no_kinds(num_words)
        for row, (words, _) in enumerate(sentences):
            kinds[row, : len(words)] = self.tag_dictionary.word_kinds(map(escape, words))
        return num_words, kinds

    def best_leaves(
        self, model: "ParserTransformer", token_ids: np.ndarray, sentences: Sequence[Words]
    ) -> np.ndarray:
        """Return the best leaves by the model's tagger, among the leaves that words may have.

        Args:
            model: a `ParserTransformer` with a `tag_loss_weight`.
            token_ids: int array `(batch, source)`.
            sentences: list of `Words`.

        Returns:
            Int32 array `(batch, source)`: the leaf of each word, then 0.

        Raises:
            UserError: if the model has no tagger.
        """
        log_probs = ops.convert_to_numpy(run_compiled(_tag, model, token_ids))
        leaf_ids = np.array(sorted({*(model.config.leaf_ids or ())}), "int32")
        leaf_sets = self.leaf_sets or [[*self.leaves.values()]]
        is_allowed = np.array([np.isin(leaf_ids, leaves) for leaves in leaf_sets])
        num_words, kinds = self.word_kinds(sentences, len(token_ids))
        kinds = _no_kinds(num_words) if kinds is None else kinds
        best = np.zeros(token_ids.shape, "int32")
        for row, (words, _) in enumerate(sentences):
            allowed = is_allowed[kinds[row, : len(words)]]
            scores = np.where(allowed, log_probs[row, : len(words)], -np.inf)
            best[row, : len(words)] = leaf_ids[scores.argmax(axis=-1)]
        return best

    def with_found_tags(self, sentence: Words, leaves: np.ndarray) -> list[str]:
        """Return the tags of a sentence: the given ones, and otherwise the tags of leaves."""
        tags = {leaf: tag for tag, leaf in self.leaves.items()}
        return [given or tags[leaf] for given, leaf in zip(sentence.tags, leaves.tolist())]


# By the order of a linearization.
_GRAMMARS: dict[str, type[TreeGrammar]] = {"top-down": TreeGrammar, "in-order": InOrderTreeGrammar}


def _tag(model: "ParserTransformer", token_ids: Tensor) -> Tensor:
    return model.tag(token_ids)


def _no_kinds(num_words: np.ndarray) -> np.ndarray:
    """Return kinds that are all 0: `(batch, words)`, padded to one of few sizes."""
    return np.zeros((len(num_words), padded_size(num_words.max())), "int32")
