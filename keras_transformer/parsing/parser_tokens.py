"""The tokens of words that are given one by one, so that words can be counted by their tokens."""

import itertools

import numpy as np

from keras_transformer.errors import UserError
from keras_transformer.parsing.trees import LABELLED_BRACKETS
from keras_transformer.reserved_ids import END_ID, UNKNOWN_ID

# In place of a word of which no token, or more than one, begins a word. Unicode gives this
# character no meaning, so that vocabularies do not know it.
PLACEHOLDER = "\ue000"


class WordTokenizer:
    """Encodes sentences word by word; stands in for a `Tokenizer` of the source side.

    Each word has exactly one token that begins a word: its first. So the tokens of a sentence tell
    how many words it has, and which token is of which, as deterministic attention must know
    (`kt.parsing.DeterministicAttention`). The tokens are those that the `Tokenizer` gives for the
    whole sentence, but for words that it would take apart or leave out, as of spaces without
    width: these become unknown.

    Args:
        tokenizer: a `Tokenizer`.

    Attributes:
        word_start_ids: the ids of tokens that begin a word, as a list.
        starts_word: the same as a bool array `(vocabulary_size,)`.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.proto = tokenizer.proto
        self.vocabulary_size = tokenizer.vocabulary_size
        self.word_start_ids = tokenizer.word_start_ids
        self.starts_word = np.isin(np.arange(self.vocabulary_size), self.word_start_ids)

    def fingerprint(self):
        """Return the fingerprint of the `Tokenizer`."""
        return self.tokenizer.fingerprint()

    def sampler(self, strength):
        """As the `Tokenizer` has it: each word keeps the one token that begins it.

        Args:
            strength: more than 0 and at most 1, as of `SubwordSampler`.
        """
        return self.tokenizer.sampler(strength)

    def encode(self, sentences):
        """Turn sentences into lists of ids, without start and end tokens.

        Args:
            sentences: list of strings, with spaces between the words.

        Returns:
            A list of lists of ids.
        """
        # Other white space belongs to words, as in trees.
        split = [sentence.split(" ") for sentence in sentences]
        return self.encode_words([[word for word in words if word] for words in split])

    def tokens_of(self, token_ids):
        """The tokens that ids stand for: a list of strings.

        Args:
            token_ids: iterable of ids.
        """
        return self.tokenizer.tokens_of(token_ids)

    def encode_words(self, sentences):
        """Turn sentences into lists of ids, without start and end tokens.

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
    """Turns lines of symbols into ids and back; stands in for a `Tokenizer` of the target side.

    A line holds symbols with spaces between them; what each of them does, the linearisation says.

    Args:
        symbols: list of the symbols that occur in the training trees.
        tokenizer: a `Tokenizer` of which each of them is one token.
        linearization: the `Linearization` that they are of.

    Attributes:
        ids: the ids of the symbols, in their order.
        vocabulary_size: that of the target's vocabulary: the ids up to the last symbol's. Symbols
            are the first of the tokens, so that a decoder needs no logits of those that make words.

    Raises:
        UserError: if one of them is no token, or no symbol of the linearisation.
    """

    def __init__(self, symbols, tokenizer, linearization=LABELLED_BRACKETS):
        self.symbols = list(symbols)
        self.linearization = linearization
        for symbol in self.symbols:
            if linearization.step_of(symbol)[0] is None:
                raise UserError(f"{symbol!r} is no symbol of the linearization {linearization}.")
        self._by_label = linearization.by_label(self.symbols)
        self.ids = tokenizer.ids_of(self.symbols)
        self.vocabulary_size = max(self.ids, default=UNKNOWN_ID) + 1
        self._ids = dict(zip(self.symbols, self.ids))
        self._symbols = {token_id: symbol for symbol, token_id in self._ids.items()}

    def __repr__(self):
        return f"<TreeSymbols: {len(self.symbols)} symbols of {self.linearization}>"

    def encode(self, lines):
        """Lines of symbols to lists of ids; a symbol that training did not see is unknown.

        Args:
            lines: list of strings.
        """
        return [[self._ids.get(symbol, UNKNOWN_ID) for symbol in line.split()] for line in lines]

    def sampler(self, strength):
        """None, whatever the strength: symbols are never split.

        Args:
            strength: a number.
        """

    def decode(self, token_ids):
        """Ids to a list of symbols, up to the end token; an id of no symbol gives a `?`.

        Args:
            token_ids: the ids of one output.
        """
        symbols = []
        for token_id in map(int, token_ids):
            if token_id <= END_ID:
                break
            symbols.append(self._symbols.get(token_id, "?"))
        return symbols

    def brackets(self):
        """The ids of the symbols that open a constituent, and of those that close it: two tuples in
        the same order of labels. One that closes several labels is there for each of them.
        """
        opening, closing = map(self._ids_by_label, (self._by_label.opening, self._by_label.closing))
        return tuple(opening.values()), tuple(closing.values())

    def leaves(self):
        """The ids of the leaves: a dict of tag -> id."""
        return self._ids_by_label(self._by_label.leaves)

    def texts_around(self):
        """What each token writes into a bracketed tree, before its word and after it: a list of
        pairs of strings by id, empty ones for tokens that are no symbols.
        """
        texts = [("", "")] * self.vocabulary_size
        for symbol, token_id in self._ids.items():
            texts[token_id] = self.linearization.text_around(symbol)
        return texts

    def _ids_by_label(self, symbols):
        return {label: self._ids[symbol] for label, symbol in symbols.items()}
