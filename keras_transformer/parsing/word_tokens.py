"""The tokens of words that are given one by one, so that words can be counted by their tokens."""

import itertools

import numpy as np

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
