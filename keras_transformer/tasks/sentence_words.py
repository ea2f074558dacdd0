"""The words of a sentence that is to be parsed, and their tags if they are known."""

import re
from typing import NamedTuple

from keras_transformer.data.word_tokenizers import DEFAULT_WORD_TOKENIZER, tokenize_words
from keras_transformer.errors import UserError


class Words(NamedTuple):
    """A sentence as a parser takes it."""

    words: list  # of strings
    tags: list  # of strings, as many; None for a word whose tag is to be found


def words_of(sentence, word_tokenizer=DEFAULT_WORD_TOKENIZER):
    """Read a sentence in any of its forms.

    Args:
        sentence: a string, or a list of which each item is a word or a pair (word, tag).
        word_tokenizer: the rules that split a string.

    Returns:
        `Words`.

    Raises:
        UserError: if a word is no string, empty, or has ASCII white space in it, or a tag is
            neither a string nor None.
    """
    if isinstance(sentence, str):
        words = tokenize_words(sentence, word_tokenizer)
        return Words(words, [None] * len(words))
    pairs = [item if _is_pair(item) else (item, None) for item in sentence]
    for word, tag in pairs:
        if not isinstance(word, str) or not word or re.search(r"\s", word, re.ASCII):
            raise UserError(
                "A word must be a string that is not empty and has no ASCII white space in it. "
                f"Received: {word!r}"
            )
        if not (tag is None or isinstance(tag, str)):
            raise UserError(f"A word's tag must be a string, or None. Received: {(word, tag)!r}")
    return Words([word for word, _ in pairs], [tag for _, tag in pairs])


def _is_pair(item):
    return isinstance(item, tuple) and len(item) == 2
