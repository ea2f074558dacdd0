"""The words of a sentence that is to be parsed, and their tags if they are known."""

import re
import reprlib
from collections.abc import Iterable
from typing import NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.parsing.trees import escape
from keras_transformer.parsing.word_tokenizers import DEFAULT_WORD_TOKENIZER, tokenize_words


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
        `Words`. Brackets in tags are written as trees have them: `(`, which some taggers give, is
        -LRB-.

    Raises:
        UserError: if a word or a tag is no string, empty, has ASCII white space in it or half of a
            character (a surrogate); but a tag may be None.
    """
    if isinstance(sentence, str):
        pairs = [(word, None) for word in tokenize_words(sentence, word_tokenizer)]
    elif not isinstance(sentence, Iterable):
        raise UserError(
            f"A sentence must be a string or a list of words. Received: {reprlib.repr(sentence)}"
        )
    else:
        pairs = [item if _is_pair(item) else (item, None) for item in sentence]
    for word, tag in pairs:
        if not _can_be_in_a_tree(word):
            raise UserError(
                "A word must be a string that is not empty and has no ASCII white space in it, nor "
                f"half of a character. Received: {word!r}"
            )
        if not (tag is None or _can_be_in_a_tree(tag)):
            raise UserError(
                "A word's tag must be a string, such as a word is, or None. "
                f"Received: {(word, tag)!r}"
            )
    return Words([word for word, _ in pairs], [tag and escape(tag) for _, tag in pairs])


def _can_be_in_a_tree(text):
    return isinstance(text, str) and re.fullmatch(r"[^ \t-\r\ud800-\udfff]+", text) is not None


def _is_pair(item):
    return isinstance(item, tuple) and len(item) == 2
