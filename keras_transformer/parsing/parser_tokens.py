"""Words and tree symbols as tokens of a parser's vocabulary, and parses from such tokens."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.search import Search
from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import escape
from keras_transformer.parsing.linearization import LABELLED_BRACKETS, Linearization
from keras_transformer.parsing.traversal import LEAF, walk
from keras_transformer.parsing.tree_consensus import consensus
from keras_transformer.parsing.words import Words
from keras_transformer.reserved_ids import END_ID, UNKNOWN_ID

if TYPE_CHECKING:
    from nltk import Tree

# Replaces a word that does not have exactly one token that begins a word. Unicode assigns no
# meaning to this character, so vocabularies do not contain it.
PLACEHOLDER = "\ue000"


class WordTokenizer:
    """Encodes sentences word by word; takes the place of a `Tokenizer` of the source side.

    Each word has exactly one token that begins a word: its first. So the tokens of a sentence show
    how many words it has and which tokens belong to which word, which deterministic attention
    requires (`kt.parsing.DeterministicAttention`). The tokens are those that the `Tokenizer`
    returns for the whole sentence, except for words that it would split or drop, such as zero-width
    spaces: these become unknown.

    Args:
        tokenizer: a `Tokenizer`.

    Attributes:
        word_start_ids: list of the ids of tokens that begin a word.
        starts_word: the same as a bool array `(vocabulary_size,)`.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.proto = tokenizer.proto
        self.vocabulary_size = tokenizer.vocabulary_size
        self.word_start_ids = tokenizer.word_start_ids
        self.starts_word = np.isin(np.arange(self.vocabulary_size), self.word_start_ids)

    def fingerprint(self) -> str:
        """Return the fingerprint of the `Tokenizer`."""
        return self.tokenizer.fingerprint()

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Encode sentences, without start and end tokens.

        Args:
            sentences: list of strings, with spaces between the words.

        Returns:
            A list of lists of ids.
        """
        # Other white space belongs to words, as in trees.
        split = [sentence.split(" ") for sentence in sentences]
        return self.encode_words([[word for word in words if word] for words in split])

    def ids_to_tokens(self, token_ids: Iterable[int]) -> list[str]:
        """Return the tokens of ids.

        Args:
            token_ids: iterable of ids.
        """
        return self.tokenizer.ids_to_tokens(token_ids)

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """Encode sentences that are split into words, without start and end tokens.

        Args:
            sentences: list of lists of words.

        Returns:
            A list of lists of ids.
        """
        tokens = self.tokenizer.encode(itertools.chain.from_iterable(sentences))
        (placeholder,) = self.tokenizer.encode([PLACEHOLDER])
        tokens = iter(ids if self.starts_word[ids].sum() == 1 else placeholder for ids in tokens)
        return [
            list(itertools.chain.from_iterable(itertools.islice(tokens, len(words))))
            for words in sentences
        ]


class TreeSymbols:
    """Encodes and decodes lines of symbols; takes the place of a `Tokenizer` of the target side.

    A line holds symbols separated by spaces. The linearization defines their meaning.

    Args:
        symbols: list of the symbols that occur in the training trees.
        tokenizer: a `Tokenizer` in which each symbol is one token.
        linearization: the `Linearization` of the symbols.

    Attributes:
        ids: the ids of the symbols, in the same order.
        vocabulary_size: size of the target's vocabulary: the ids up to the last symbol's. Symbols
            are the first tokens, so that a decoder needs no logits for the tokens of words.

    Raises:
        UserError: if a symbol is not a token, or does not belong to the linearization.
    """

    def __init__(
        self,
        symbols: Iterable[str],
        tokenizer: Tokenizer,
        linearization: Linearization = LABELLED_BRACKETS,
    ):
        self.symbols = list(symbols)
        self.linearization = linearization
        for symbol in self.symbols:
            if linearization.read_symbol(symbol)[0] is None:
                raise UserError(f"{symbol!r} is not a symbol of the linearization {linearization}.")
        self._by_label = linearization.by_label(self.symbols)
        self.ids = tokenizer.tokens_to_ids(self.symbols)
        self.vocabulary_size = max(self.ids, default=UNKNOWN_ID) + 1
        self._ids = dict(zip(self.symbols, self.ids))
        self._symbols = {token_id: symbol for symbol, token_id in self._ids.items()}

    def __repr__(self) -> str:
        return f"<TreeSymbols: {len(self.symbols)} symbols of {self.linearization}>"

    def encode(self, lines: Iterable[str]) -> list[list[int]]:
        """Encode lines of symbols. A symbol that the training trees lack becomes unknown.

        Args:
            lines: list of strings.

        Returns:
            A list of lists of ids.
        """
        return [[self._ids.get(symbol, UNKNOWN_ID) for symbol in line.split()] for line in lines]

    def decode(self, token_ids: Iterable[int]) -> list[str]:
        """Decode ids to symbols, up to the end token. An id without a symbol becomes `?`.

        Args:
            token_ids: the ids of one output.

        Returns:
            A list of symbols.
        """
        symbols = []
        for token_id in map(int, token_ids):
            if token_id <= END_ID:
                break
            symbols.append(self._symbols.get(token_id, "?"))
        return symbols

    def brackets(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids of the symbols that open a constituent, and of the symbols that close it.

        Both tuples have the same order of labels. A symbol that closes several labels is repeated.
        """
        opening, closing = map(self._ids_by_label, (self._by_label.opening, self._by_label.closing))
        return tuple(opening.values()), tuple(closing.values())

    def leaves(self) -> dict[str, int]:
        """Return the ids of the leaves by their tags."""
        return self._ids_by_label(self._by_label.leaves)

    def texts_around(self) -> list[tuple[str, str]]:
        """Return the texts that each token adds to a bracketed tree, before and after its word.

        The list has one pair of strings per id; the strings are empty if it is not a symbol.
        """
        texts = [("", "")] * self.vocabulary_size
        for symbol, token_id in self._ids.items():
            texts[token_id] = self.linearization.text_around(symbol)
        return texts

    def _ids_by_label(self, symbols: dict[str, str]) -> dict[str, int]:
        return {label: self._ids[symbol] for label, symbol in symbols.items()}


# Token ids, padded with 0, and the score of an output.
Output = tuple[Sequence[int] | np.ndarray, float]


class Parse(NamedTuple):
    """The parse of a sentence."""

    tree: "Tree | None"  # None for a sentence that has no words or is too long
    score: float  # of the search, or the agreement of a consensus; 0 without a tree
    repairs: Counter[str]  # of the model's best output, by kind
    is_too_long: bool = False
    others: tuple["Parse", ...] = ()  # the next best, if more than one result was requested


def no_parse(sentence: Words) -> Parse:
    """Return the `Parse` of a sentence that was not searched."""
    return Parse(None, 0.0, Counter(), is_too_long=bool(sentence.words))


def parses_from_outputs(
    sentence: Words, outputs: Sequence[Output], symbols: TreeSymbols
) -> list[Parse]:
    """Return one `Parse` per output, in their order; without outputs, one repaired `Parse`.

    Args:
        sentence: `Words`.
        outputs: list of pairs (ids, score): int array, padded with 0, and float.
        symbols: the `TreeSymbols`.

    Returns:
        A list, not empty.
    """
    # An unconstrained search may find no output.
    outputs = outputs or [([], -np.inf)]
    return [
        Parse(tree, score, repairs)
        for token_ids, score in outputs
        for tree, repairs in [output_tree(sentence, token_ids, symbols)]
    ]


def output_tree(
    sentence: Words, token_ids: Sequence[int] | np.ndarray, symbols: TreeSymbols
) -> tuple["Tree", Counter[str]]:
    """Return the tree of an output, with the given tags, and the repairs by kind.

    Args:
        sentence: `Words`.
        token_ids: int array, padded with 0.
        symbols: the `TreeSymbols`.
    """
    words = [escape(word) for word in sentence.words]
    tree, repairs = symbols.linearization.repair(words, symbols.decode(token_ids))
    leaves = (node for step, node in walk(tree) if step == LEAF)
    for leaf, tag in zip(leaves, sentence.tags):
        if tag is not None:
            leaf.set_label(tag)
    return tree, repairs


def consensus_parse(parses: Sequence[Parse], log_probabilities: np.ndarray) -> Parse:
    """Return the consensus of parses, whose score is their agreement.

    Args:
        parses: list of `Parse`, not empty.
        log_probabilities: float array, one per parse.

    Returns:
        A `Parse`.
    """
    weights = np.exp(log_probabilities - log_probabilities.max())
    trees = [parse.tree for parse in parses if parse.tree is not None]
    tree, agreement = consensus(trees, weights.tolist())
    return parses[0]._replace(tree=tree, score=agreement)


def log_probabilities(outputs: Sequence[Output], search: Search) -> np.ndarray:
    """Return the log-probabilities of outputs: their scores without the length penalty.

    Args:
        outputs: list of pairs (ids, score), not empty.
        search: the `Search` that found them.

    Returns:
        Float array.
    """
    token_ids, scores = zip(*outputs)
    # A coverage penalty is not removed, because it is unknown here.
    lengths = ops.convert_to_tensor([np.count_nonzero(ids) for ids in token_ids], "int32")
    factors = search.penalized(ops.ones(len(token_ids)), lengths)
    return np.array(scores) / ops.convert_to_numpy(factors)
