"""Trees that are read once: later passes read a temporary file."""

import contextlib
import hashlib
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from keras_transformer.errors import UserError
from keras_transformer.parsing.trees import parse_trees, to_bracketed
from keras_transformer.progress import bar

if TYPE_CHECKING:
    from nltk import Tree

_CHUNK = 1 << 16  # bytes of lines that are read together


class TreeCache:
    """The trees of an iterable, one a line in a temporary file.

    The file has no name where the system allows it, and is in the folder that `TMPDIR` names, or
    the system's own. So it belongs to one process, is gone when the object or its process is,
    however that ends, and does not change with what the trees were read from.

    Args:
        trees: iterable of trees; read once.

    Attributes:
        fingerprint: SHA-256 (hex) of all trees in order.

    Raises:
        UserError: if the file cannot be written, or a tree cannot be written in brackets.
    """

    def __init__(self, trees: Iterable["Tree"]):
        with _temporary_folder():
            self._file = tempfile.TemporaryFile()
        weakref.finalize(self, _close, self._file)
        self._lock = threading.Lock()  # Passes share the place in the file.
        self._length, digest = 0, hashlib.sha256()
        for tree in bar("reading", "trees", iterable=trees):
            line = f"{to_bracketed(tree)}\n".encode()
            digest.update(line)
            with _temporary_folder():
                self._file.write(line)
            self._length += 1
        with _temporary_folder():
            self._file.flush()
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator["Tree"]:
        return parse_trees(self._lines()) if self._length else iter(())

    def _lines(self) -> Iterator[str]:
        start = 0
        while True:
            with self._lock:
                self._file.seek(start)
                lines = self._file.readlines(_CHUNK)
            if not lines:
                return
            start += sum(map(len, lines))
            yield from map(bytes.decode, lines)


def _close(file: BinaryIO) -> None:
    with contextlib.suppress(OSError):  # of what could not be written
        file.close()


@contextlib.contextmanager
def _temporary_folder() -> Iterator[None]:
    """Says what a system's error in the block is about."""
    try:
        yield
    except OSError as error:
        raise UserError(
            "The trees that were read could not be kept in the folder for temporary files: "
            f"{error.strerror}. Set TMPDIR to a folder that has room for them."
        ) from None
