"""Files that clients upload: translated, kept for a time, and deleted."""

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePath

from keras_transformer.documents.file_translation import FORMATS, read_document, translate_file
from keras_transformer.errors import UserError
from keras_transformer.server.detection import Detected
from keras_transformer.server.parameters import check_count
from keras_transformer.translation.translator import Translator

_LONGEST_NAME = 200  # bytes, so that the code of a language and an ending have room


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
    return stem.encode("utf-8", "ignore")[:_LONGEST_NAME].decode("utf-8", "ignore") + suffix


def translate_upload(
    path: Path, limit: int, direction: Callable[[str], tuple[Translator | None, Detected, str]]
) -> Path:
    """Translate a file into its folder, and return the path of the translation.

    Args:
        path: the file.
        limit: the most characters of its texts.
        direction: function of its texts that returns a translator, the source and the target. The
            file of a direction without a translator stays as it is.

    Raises:
        UserError: if it is damaged. The error names it without its folder.
        HTTPException: if it has too many characters.
    """
    try:
        document = read_document(path)
        texts = [unit.text for unit in document.units]
        check_count(sum(map(len, texts)), limit, "characters")
        translator, source, target = direction("\n".join(texts))
        if translator is None:
            return path
        new = path.with_name(f"{path.stem}_{target}{path.suffix}")
        translate_file(document, new, translator, target_lang=target, source_lang=source.language)
    except UserError as error:
        raise UserError(str(error).replace(f"{path.parent}/", "")) from None
    return new
