"""Results of passes over texts, such as the number of pairs, which a training keeps in a file.

A result is found by its key: a digest of all that determines it, such as the state of the files and
the options of filters. So a training that resumes need not read its corpus, and it notices when the
corpus has changed.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from keras_transformer.files import atomic_write

RESULTS: dict[str, Any] = {}
"""JSON values by their keys."""

_FIRST_BYTES = 1 << 16  # of a file, which identify it together with its size and times


def cache_key(*parts: Any) -> str:
    """Return the key of a result.

    Args:
        *parts: JSON values: the name of the operation, its options, and the keys of the texts that
            it reads.
    """
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def cached(key: str, compute: Callable[[], Any]) -> Any:
    """Return the result with a key, which is computed if it is not known.

    Args:
        key: the key.
        compute: function without arguments that returns a JSON value.
    """
    if key not in RESULTS:
        RESULTS[key] = compute()
    return RESULTS[key]


def file_key(path: Path) -> str:
    """Return the key of a file: its size, its times, and a digest of its beginning.

    The second time, of the last change of its metadata, reveals an edit that restored the first.
    A file that cannot be read, or not twice, has a new key at each call.
    """
    if path.is_file():
        with contextlib.suppress(OSError), open(path, "rb") as file:
            start, status = file.read(_FIRST_BYTES).hex(), path.stat()
            return cache_key(status.st_size, status.st_mtime_ns, status.st_ctime_ns, start)
    return uuid4().hex


def read_cache(path: Path) -> None:
    """Add the results in a file to `RESULTS`, unless it is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        RESULTS.update(json.loads(path.read_text("utf-8")))


def write_cache(path: Path) -> None:
    """Write `RESULTS` to a file."""
    with atomic_write(path) as new:
        new.write_text(json.dumps(RESULTS), "utf-8")
