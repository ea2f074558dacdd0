"""Tokens that precede every sentence: tags in texts, and a tokenizer that adds a prefix."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from keras_transformer.data.moses_tokenizer import MosesTokenizer
    from keras_transformer.data.tokenizer import Tokenizer

_SPACE = "▁"  # SentencePiece's mark before a word


def tag_tokens(tokenizer: "Tokenizer | MosesTokenizer", tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tokens that represent tags before a text.

    If a tag in a text is tokenized as itself, the result contains the marks of spaces too, such as
    `("▁", "<2fr>")`. A converted tokenizer reads a special token such as `>>fra<<` in a text as
    ordinary text. The result then consists of the tags themselves.

    Args:
        tokenizer: a `Tokenizer`, or another with its methods.
        tags: list of strings, each a token of the vocabulary.

    Returns:
        A tuple of strings.

    Raises:
        UserError: if a tag is not a token of the vocabulary.
    """
    tokenizer.ids_of(list(tags))
    in_text = _tokens_in_text(tokenizer, tags)
    return in_text if _finds(tags, in_text) else tuple(tags)


def check_tags_in_text(tokenizer: "Tokenizer | MosesTokenizer", tags: Sequence[str]) -> None:
    """Raise a `UserError` if a tag in a text would not be tokenized as itself.

    Args:
        tokenizer: a `Tokenizer`, or another with its methods.
        tags: list of strings.

    Raises:
        UserError: if a tag is not a token of the vocabulary, or the tokenizer splits it in a text.
    """
    tokenizer.ids_of(list(tags))
    for tag in tags:
        tokens = _tokens_in_text(tokenizer, [tag])
        if not _finds([tag], tokens):
            raise UserError(
                f"The tag {tag!r} is a token of the vocabulary, but its tokenizer reads it as "
                f"ordinary text: {' '.join(tokens)}. Expected a text without tags, and a preset "
                f"whose `source_prefix` is the tag: save `translator.tagged({tag!r})` as one."
            )


def _tokens_in_text(tokenizer, tags):
    (token_ids,) = tokenizer.encode([" ".join(tags)])
    return tuple(tokenizer.tokens_of(token_ids))


def _finds(tags, tokens):
    return [token for token in tokens if token.strip(_SPACE)] == list(tags)


class PrefixedTokenizer:
    """A tokenizer that puts the same tokens before each sentence, such as a language tag.

    It has the methods of a `Tokenizer` that a `TokenStore` and a training need.

    Args:
        tokenizer: a `Tokenizer`, or another with its methods.
        prefix: the tokens, as strings.

    Raises:
        UserError: if one of them is not a token of the vocabulary.
    """

    def __init__(self, tokenizer: "Tokenizer | MosesTokenizer", prefix: Iterable[str]):
        self.tokenizer = tokenizer
        self.prefix = tuple(prefix)
        self._ids = tokenizer.ids_of(list(prefix))

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizer.vocabulary_size

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of the tokenizer's fingerprint and the prefix."""
        parts = " ".join([self.tokenizer.fingerprint(), *map(str, self._ids)])
        return hashlib.sha256(parts.encode()).hexdigest()

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Convert strings to lists of ids, each with the ids of the prefix before it.

        Args:
            sentences: list of strings.

        Returns:
            A list of lists of ids.
        """
        return [self._ids + ids for ids in self.tokenizer.encode(sentences)]

    def sampler(self, strength: float) -> "_AfterPrefix":
        """Return a sampler of other segmentations that keeps the prefix.

        Args:
            strength: as for `Tokenizer.sampler`.

        Returns:
            A function of lists of ids and a seed, as `SubwordSampler`.
        """
        return _AfterPrefix(self.tokenizer.sampler(strength), len(self._ids))


class _AfterPrefix:
    """A `SubwordSampler` of the tokens after the prefix."""

    def __init__(self, sampler, length):
        self._sampler = sampler
        self._length = length
        self.mean_lengths = sampler.mean_lengths
        self.length_variances = sampler.length_variances

    def __call__(self, sequences, seed):
        first = self._length
        drawn = self._sampler([ids[first:] for ids in sequences], seed)
        return [ids[:first] + rest for ids, rest in zip(sequences, drawn)]
