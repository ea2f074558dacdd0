"""Lines of text: read in buffered lists, split into sentences, and kept free of line breaks."""

import itertools
import operator
import re
import select
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from keras_transformer.data.languages import LANGUAGES, Language
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

# The time that sentencex takes grows with the square of the number of quotes and ends, so texts are
# split in windows of at most this many characters and marks.
_WINDOW, _WINDOW_MARKS = 4000, 100
_MARK = re.compile(
    r"[!-/:-@\[-`{-~\xa1-\xbf\u060c\u061b\u061f\u06d4\u0964\u0965\u1361-\u1368\u2010-\u205e"
    r"\u3001-\u303f\ufe10-\ufe6b\uff01-\uff65]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
# Ends that sentencex misses: of "We waited for 5 h.", whose letter it takes for an initial, and of
# "(It rained.)".
_MISSED_END = re.compile(r"(?<=\d\s[a-z]\.)\s+(?=[A-Z])|(?<=[a-z][.!?]\))\s+(?=[A-Z])")
# The first two characters of a part's first word or number, and the last word before its period.
_WORD_START = re.compile(r"[^\W\d_]{1,2}|\d")
_LAST_WORD = re.compile(r"(?<![\w.])([^\W\d_](?:[\w.:’'·-]*\w)?)\.$")
_LONGEST_WORD = 30
# An abbreviation that needs no list, such as "t.ex".
_LETTERS = re.compile(r"[^\W\d_]{1,4}(?:\.[^\W\d_]{1,4})+")


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


def _limited(lines: Iterable[str], name: str, first_number: int) -> Iterator[str]:
    for number, line in enumerate(lines, first_number):
        if len(line) > LONGEST_LINE:
            raise UserError(
                f"{name}, line {number}: {len(line):,} characters. Expected at most "
                f"{LONGEST_LINE:,}"
            )
        yield line


def _encoded_windows(file: Any, size: int) -> Iterator[list[bytes]]:
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


def _lines_of_each_read(file: Any) -> Iterator[list[bytes]]:
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


def _has_more_now(file: Any) -> bool:
    """Return whether a read would return immediately, with data or at the end of the file."""
    try:
        readable, _, _ = select.select([file], [], [], _PATIENCE)
    except (OSError, ValueError):  # not a system file, or Windows
        return True
    return bool(readable)


def _take(items: Iterator[Item], size: int) -> tuple[list[Item], Exception | None]:
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


def without_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which have no UTF-8, by U+FFFD.

    Args:
        text: a string.
    """
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Split a paragraph into sentences by sentencex's rules, which need no trained model.

    The rules cover the abbreviations, quotes and punctuation marks of many languages, also of
    languages without spaces. A blank line ends a sentence. No sentence ends before a lowercase
    letter if most sentences of the text begin with a capital, nor after an abbreviation before a
    number.

    Args:
        text: the paragraph.
        language: the code of its language, such as "de", "zh" or "pt-BR". A language without rules
            of its own is split by the rules of a related language, or else of English.

    Returns:
        The sentences without surrounding white space; an empty list if the text contains nothing
        else. No other character is left out.
    """
    language = language_code(language)
    copy = without_surrogates(text)  # of the same length
    parts = [
        part for long in _segments(text, copy, language) for part in _split_at_missed_ends(long)
    ]
    return [sentence for part in _without_wrong_ends(parts, language) if (sentence := part.strip())]


def _segments(text: str, copy: str, language: str) -> Iterator[str]:
    """Yield sentencex's sentences, found in windows, with the white space after them."""
    from sentencex import segment

    start, begun = 0, []  # `begun`: the parts of a sentence that fills its window
    while start < len(text):
        stop = _window_end(copy, start)
        parts, is_whole = segment(language, copy[start:stop]), True
        if stop < len(text):
            # The last sentence may continue beyond this window.
            is_whole, parts = len(parts) > 1, parts[:-1]
        if not is_whole:
            # Its part up to the end of the window may be the beginning of the next sentence.
            most = stop - (stop - start) // 4
            space = copy.rfind(" ", start + 1, most)
            parts = [copy[start : most if space < 0 else space]]
        for part in parts:
            begun.append(text[start : start + len(part)])
            start += len(part)
            if is_whole:
                yield "".join(begun)
                begun = []


def _window_end(text: str, start: int) -> int:
    """Return the end of a window, in which sentencex takes a time that is bounded."""
    marks = itertools.islice(_MARK.finditer(text, start, start + _WINDOW), _WINDOW_MARKS, None)
    mark = next(marks, None)
    return mark.start() if mark else min(start + _WINDOW, len(text))


def _split_at_missed_ends(part: str) -> list[str]:
    """Split at the ends that sentencex misses, and keep the white space."""
    starts = [0, *(match.end() for match in _MISSED_END.finditer(part)), len(part)]
    return [part[start:stop] for start, stop in itertools.pairwise(starts)]


def _without_wrong_ends(parts: list[str], language: str) -> list[str]:
    """Join sentences that sentencex splits after an abbreviation."""
    words = LANGUAGES.get(language, Language())
    kinds = [_kind_of_start(part) for part in parts]
    pairs = list(zip(parts, parts[1:], kinds[1:]))
    goes_on = [_may_go_on(before, part) for before, part, _ in pairs]
    is_joined = [
        x and _is_abbreviated(before, kind, words) for x, (before, _, kind) in zip(goes_on, pairs)
    ]
    begun = Counter(itertools.compress(kinds, [True, *map(operator.not_, is_joined)]))
    # Where most sentences begin with a capital, parts that do not are not sentences.
    wrong = "small" if begun["capital"] >= begun["small"] else ""
    starts = [
        i
        for i, (joined, x, kind) in enumerate(zip(is_joined, goes_on, kinds[1:]), 1)
        if not (joined or (x and kind == wrong))
    ]
    starts = [0, *starts, len(parts)]
    return ["".join(parts[i:j]) for i, j in itertools.pairwise(starts)]


def _kind_of_start(part: str) -> str | None:
    """Return "digit", "capital" or "small" by the first letter or digit, or None."""
    match = _WORD_START.search(part)
    if match is None or match[0].isdigit():
        return match and "digit"
    first = match[0][0]
    if first.isupper() or first.istitle():
        return "capital"
    # Georgian, for example, has no capitals, and brands such as "iPhone" begin sentences.
    is_small = first.title() != first and not match[0][1:].isupper()
    return "small" if is_small else None


def _may_go_on(before: str, part: str) -> bool:
    """Return whether no blank line, and no bullet in a new line, separates two parts."""
    num_breaks = before.count("\n", len(before.rstrip()))
    return num_breaks == 0 or (num_breaks == 1 and part[:1].isalnum())


def _is_abbreviated(before: str, kind: str | None, words: Language) -> bool:
    """Return whether a part ends with an abbreviation that the next one, of a kind, continues."""
    match = _LAST_WORD.search(before.rstrip()[-_LONGEST_WORD:])
    if match is None or kind is None:
        return False
    if kind == "capital" or match[1] in words.titles:
        return match[1] in words.titles
    word = match[1]
    is_letter = len(word) == 1 and word.islower()
    return is_letter or word.lower() in words.abbreviations or bool(_LETTERS.fullmatch(word))
