"""Lines of text: read in buffered lists, split into sentences, and kept free of line breaks."""

import itertools
import re
import select
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from keras_transformer.data.text_files import decode_lines
from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code

Item = TypeVar("Item")

WINDOW_SIZE = 4096
LONGEST_LINE = 100_000  # characters

_READ_BYTES = 1 << 16
# The seconds to wait for further lines of a program that is still writing. A program that waits for
# an answer receives it this much later.
_PATIENCE = 0.01

# All characters at which `str.splitlines` splits, and the tab.
BREAKS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_BREAK = re.compile(f"[{BREAKS}]")

# The time that sentencex takes grows with the square of a text's length in Chinese and Japanese, so
# longer texts are split in windows of this size.
_SPLIT_CHARACTERS = 4000
_SURROGATE = re.compile("[\ud800-\udfff]")
# Ends that sentencex misses: of "We waited for 5 h.", whose letter it takes for an initial, and of
# "(It rained.)".
_MISSED_ENDS = re.compile(r"(?<=\d\s[a-z]\.)\s+(?=[A-Z])|(?<=[a-z][.!?]\))\s+(?=[A-Z])")


def in_windows(items: Iterable[Item], size: int = WINDOW_SIZE) -> Iterator[list[Item]]:
    """Divide a stream into lists.

    Args:
        items: iterable.
        size: the number of items per list. The last list may have fewer.

    Yields:
        Lists. If the iterable raises an error, the items before it are yielded first.
    """
    items = iter(items)
    while True:
        window, error = _take(items, size)
        if window:
            yield window
        if error:
            raise error
        if not window:
            return


def line_windows(file: Any, name: str, size: int | None = None) -> Iterator[list[str]]:
    """Divide lines of UTF-8 text into lists, without waiting for a list to fill.

    A list contains all lines that can be read without waiting, up to `size`. If the system cannot
    report whether more can be read, as for pipes on Windows, lists are filled.

    Args:
        file: binary file, such as `sys.stdin.buffer`.
        name: name of the file for error messages.
        size: the largest number of lines per list. Defaults to 1 for a terminal, and to 4,096
            otherwise.

    Yields:
        Lists of lines as `decode_lines` yields them. If a line is not valid UTF-8 or too long, the
        lines before it are yielded first.

    Raises:
        UserError: if `size` is not positive, or a line is not valid UTF-8 or has more than 100,000
            characters.
    """
    if size is None:
        size = 1 if file.isatty() else WINDOW_SIZE
    if size < 1:
        raise UserError(f"`buffer_size` must be a positive integer. Received: buffer_size={size}")
    number = 1
    for encoded in _encoded_windows(file, size):
        yield from in_windows(_limited(decode_lines(encoded, name, number), name, number), size)
        number += len(encoded)


def _limited(lines, name, first_number):
    for number, line in enumerate(lines, first_number):
        if len(line) > LONGEST_LINE:
            raise UserError(
                f"{name}, line {number}: {len(line):,} characters. Expected at most "
                f"{LONGEST_LINE:,}"
            )
        yield line


def _encoded_windows(file, size):
    lines = []
    for new in _lines_of_each_read(file):
        lines += new
        full = len(lines) - len(lines) % size
        yield from (lines[start : start + size] for start in range(0, full, size))
        lines = lines[full:]
        if lines and not _has_more_now(file):
            yield lines
            lines = []
    if lines:
        yield lines


def _lines_of_each_read(file):
    """Yield the lines that each read completes, and finally the text after the last end."""
    parts = []  # parts of a line whose end has not been read
    while chunk := file.read1(_READ_BYTES):
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join([*parts, ended[0]])
            parts = []
        parts.append(rest)
        yield [line + b"\n" for line in ended]
    if last := b"".join(parts):
        yield [last]


def _has_more_now(file):
    """Return whether a read would return immediately, with data or at the end of the file."""
    try:
        readable, _, _ = select.select([file], [], [], _PATIENCE)
    except (OSError, ValueError):  # not a system file, or Windows
        return True
    return bool(readable)


def _take(items, size):
    """Return up to `size` items, and the error raised in place of the next item, or None."""
    taken = []
    try:
        for item in itertools.islice(items, size):
            taken.append(item)
    except Exception as error:
        return taken, error
    return taken, None


def without_breaks(text: str, source: str = "") -> str:
    """Replace line breaks and tabs in a text by spaces, except those that its source contains.

    The translation of one line is then one line. A model whose vocabulary falls back to bytes can
    predict, and more often sample, line feeds that do not occur in the source.

    Args:
        text: a string.
        source: the string that the text was made from.

    Returns:
        A string of the same length.
    """
    return _BREAK.sub(lambda match: match[0] if match[0] in source else " ", text)


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Split a paragraph into sentences by sentencex's rules, which need no trained model.

    The rules cover the abbreviations, quotes and punctuation marks of many languages, also of
    languages without spaces. A blank line ends a sentence.

    Args:
        text: the paragraph.
        language: the code of its language, such as "de", "zh" or "pt-BR". A language without rules
            of its own is split by those of a related language, or else of English.

    Returns:
        The sentences without surrounding white space; an empty list if the text contains nothing
        else. No other character is left out.
    """
    from sentencex import segment

    language = language_code(language)
    # Surrogates have no UTF-8, which sentencex reads. The copy has the same length.
    copy = text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    sentences, start, size = [], 0, _SPLIT_CHARACTERS
    while start < len(text):
        parts = segment(language, copy[start : start + size])
        if start + size < len(text):
            # The last sentence may continue beyond this window.
            parts = parts[:-1]
        for part in parts:
            sentences += _MISSED_ENDS.split(text[start : start + len(part)])
            start += len(part)
        # A sentence that fills a window needs a larger one.
        size = _SPLIT_CHARACTERS if parts else 2 * size
    return [sentence for part in sentences if (sentence := part.strip())]
