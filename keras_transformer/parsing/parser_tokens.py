"""Words and tree symbols as tokens of a parser's vocabulary."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.parsing.trees import LABELLED_BRACKETS, Linearization
from keras_transformer.reserved_ids import END_ID, UNKNOWN_ID

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

    def sampler(self, strength: float) -> Any:
        """Return the sampler of the `Tokenizer`: each word keeps the one token that begins it.

        Args:
            strength: from 0 (excluded) to 1, as for `SubwordSampler`.
        """
        return self.tokenizer.sampler(strength)

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
            if linearization.step_of(symbol)[0] is None:
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

    def sampler(self, strength: float) -> None:
        """Return None, because symbols are never split.

        Args:
            strength: ignored.
        """

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
