"""Windows of a stream: what is read ahead, and worked on together before anything more is read."""

import itertools
import select

from keras_transformer.data.text_files import decode_lines
from keras_transformer.errors import UserError

WINDOW_SIZE = 4096

_READ_BYTES = 1 << 16
# Within so many seconds a program that has more lines writes them. One that waits for an answer
# gets it that much later.
_PATIENCE = 0.01


def in_windows(items, size=WINDOW_SIZE):
    """Divide a stream into lists.

    Args:
        items: iterable.
        size: how many items a list holds; the last one may hold fewer.

    Yields:
        Lists. If the iterable raises an error, the items before it are given first.
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


def line_windows(file, name, size=None):
    """Divide lines of UTF-8 text into lists, without waiting for a list to fill.

    A line waits for no other: when one has been read, those that can be read at once join it, and
    no more. Where the system cannot tell whether there are any, as for pipes on Windows, lists are
    filled.

    Args:
        file: binary file, such as `sys.stdin.buffer`.
        name: what to call it in error messages.
        size: the most lines of a list. Defaults to 1 for a terminal, and else to 4,096.

    Yields:
        Lists of lines as `decode_lines` gives them. If a line is no UTF-8, the lines before it are
        given first.

    Raises:
        UserError: if `size` is not positive, or a line is no UTF-8.
    """
    if size is None:
        size = 1 if file.isatty() else WINDOW_SIZE
    if size < 1:
        raise UserError(f"`buffer_size` must be a positive integer. Received: buffer_size={size}")
    number = 1
    for encoded in _encoded_windows(file, size):
        yield from in_windows(decode_lines(encoded, name, number), size)
        number += len(encoded)


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
    """The lines that each read completes, with their ends; at last what has no end."""
    parts = []  # of a line whose end has not been read
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
    """Whether a read would not wait, or would only find the end."""
    try:
        readable, _, _ = select.select([file], [], [], _PATIENCE)
    except (OSError, ValueError):  # no file of the system's, or Windows
        return True
    return bool(readable)


def _take(items, size):
    """Up to `size` items, and the error that came in place of another, or None."""
    taken = []
    try:
        for item in itertools.islice(items, size):
            taken.append(item)
    except Exception as error:
        return taken, error
    return taken, None
