"""Exported folders, each with a mark by which the next export may replace it."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_transformer.errors import UserError
from keras_transformer.files import FolderKind, atomic_write_folder, read_json
from keras_transformer.presets.format import write_json
from keras_transformer.presets.location import EXPORT_MARK


@contextlib.contextmanager
def exported_folder(path: str | Path, format: str, names: Sequence[str]) -> Iterator[Path]:
    """Write an exported folder, completely or not at all, and mark it as one.

    Args:
        path: the folder.
        format: name of the format, as in `formats.export_as`.
        names: patterns of the files that the format has, as in `FolderKind`.

    Raises:
        UserError: immediately, if `path` contains anything but an earlier export to this format.
    """
    is_marked = functools.partial(_is_marked, format=format)
    kind = FolderKind(f"an export to {format}", (*names, EXPORT_MARK), is_marked)
    with atomic_write_folder(path, kind) as folder:
        yield folder
        write_json(folder / EXPORT_MARK, {"library": "keras_transformer", "format": format})


def _is_marked(folder, format):
    try:
        mark = read_json(folder / EXPORT_MARK)
    except (UserError, OSError):
        return False
    return isinstance(mark, dict) and mark.get("format") == format
