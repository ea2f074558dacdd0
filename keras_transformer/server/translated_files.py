"""Files that clients upload: translated, kept for a time, and deleted."""

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePath

from keras_transformer.documents.document import Document
from keras_transformer.documents.file_translation import FORMATS, read_document, translate_file
from keras_transformer.errors import UserError
from keras_transformer.translation.translator import Translator

_LONGEST_NAME = 100  # characters


class TranslatedFiles:
    """A folder of translated files. Each has a name that cannot be guessed.

    Args:
        seconds: how long a file is kept.
    """

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._folder = tempfile.TemporaryDirectory(prefix="keras-transformer-")
        self._paths: dict[str, Path] = {}

    def close(self) -> None:
        """Delete all files."""
        self._paths.clear()
        self._folder.cleanup()

    def new_folder(self) -> Path:
        """Return a new folder for an upload and its translation."""
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def keep(self, path: Path) -> str:
        """Offer a file for some time, and return its name. Its folder is deleted afterwards."""
        name = f"{secrets.token_urlsafe(24)}{path.suffix}"
        self._paths[name] = path
        asyncio.get_running_loop().call_later(self._seconds, self._forget, name)
        return name

    def find(self, name: str) -> Path | None:
        """Return the path of a file, or None if there is none with this name any more."""
        return self._paths.get(name)

    def _forget(self, name: str) -> None:
        if path := self._paths.pop(name, None):
            discard(path.parent)


def discard(folder: Path) -> None:
    """Delete the folder of an upload."""
    shutil.rmtree(folder, ignore_errors=True)


def safe_name(name: str) -> str:
    """Return the name of an uploaded file without folders, and check its format.

    Raises:
        UserError: if there is no such format.
    """
    path = PurePath(name.replace("\\", "/").replace("\0", "")).name
    stem, suffix = PurePath(path).stem, PurePath(path).suffix.lower()
    if suffix not in FORMATS:
        raise UserError(
            f"`file` must have one of the endings {', '.join(FORMATS)}. Received: "
            f"{path[-_LONGEST_NAME:]!r}"
        )
    return f"{stem[:_LONGEST_NAME]}{suffix}"


def read_upload(path: Path) -> Document:
    """Read an uploaded file, whose errors name it without its folder.

    Raises:
        UserError: if it is damaged.
    """
    try:
        return read_document(path)
    except UserError as error:
        raise UserError(str(error).replace(str(path), path.name)) from None


def translate_upload(
    document: Document,
    translator: Translator,
    source: str,
    target: str,
    turns: Callable,
) -> Path:
    """Translate a file into its folder, and return the path of the translation."""
    path = document.path.with_name(f"{document.path.stem}_{target}{document.path.suffix}")
    try:
        with turns():
            translate_file(document, path, translator, target_lang=target, source_lang=source)
    except UserError as error:
        raise UserError(str(error).replace(f"{path.parent}/", "")) from None
    return path
