"""Models of other libraries, recognized by their files, and kept as presets in the user's cache."""

import contextlib
import dataclasses
import difflib
import hashlib
import logging
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_transformer.compilation_cache import keep_in_user_folder
from keras_transformer.convert.marian_files import CONVERTED, is_marian, repository_files, zip_in
from keras_transformer.convert.source_documents import DOCUMENTS, conversion_card
from keras_transformer.errors import UserError, brief
from keras_transformer.files import (
    leftovers,
    read_json,
    remove_leftovers,
    temporary_folder,
    user_cache,
)
from keras_transformer.presets.format import Preset
from keras_transformer.presets.location import (
    CONFIG,
    HUGGING_FACE,
    TASK,
    download_repository,
    locate,
)
from keras_transformer.presets.storage import save_preset
from keras_transformer.progress import spinner
from keras_transformer.version import __version__

logger = logging.getLogger(__name__)

_LONGEST_LABEL = 60  # bytes
_CTRANSLATE2 = "ctranslate2"
_MARIAN = "marian_files"
# The supported values of `model_type` in a `config.json` of transformers.
_MODEL_TYPES = ("marian", "m2m_100", "fsmt")
_SUPPORTED = "Marian, M2M-100, NLLB-200, FSMT and CTranslate2's Transformers"


class Conversion(NamedTuple):
    """A converted model in the user's cache.

    Attributes:
        source: the folder or repository that was converted.
        path: folder of the preset.
    """

    source: str
    path: Path


def as_preset(name: str | Path) -> Path:
    """Return the folder of a preset, converted from another library's model if necessary.

    A conversion is kept in the user's cache, and used again as long as the repository's revision,
    or the folder's files, are the same. Without a network, the last conversion of a repository is
    used.

    Args:
        name: as for `presets.location.locate`; or a folder or a Hugging Face repository of another
            library's model.

    Returns:
        The path of a folder.

    Raises:
        UserError: if there is no such folder or repository, or the model is not supported.
    """
    if str(name).startswith(HUGGING_FACE):
        return _convert_repository(str(name))
    file = Path(name)
    folder = file if file.is_file() or zip_in(file) else locate(name)
    if (converter := recognize_format(folder)) is None:
        return folder
    opened = contextlib.nullcontext(folder)
    return _convert(str(folder.resolve()), _fingerprint(folder), converter, opened)


def _convert_repository(name: str) -> Path:
    try:
        # The name of the folder is the revision.
        folder = download_repository(name, [CONFIG])
        has_config = (folder / CONFIG).is_file()
        own_files = [] if has_config else repository_files(name)
    except UserError as error:
        if known := [x for x in conversions() if x.source == name]:
            logger.warning("%s The last conversion is used.", error)
            return known[0].path
        raise
    converter = _MARIAN if own_files else recognize_format(folder, name) if has_config else None
    if converter is None:
        return locate(name)
    source = f"{name.partition('@')[0]}@{folder.name}"
    return _convert(name, folder.name, converter, _downloaded(source, converter, own_files))


@contextlib.contextmanager
def _downloaded(name: str, converter: str, own_files: Sequence[str]) -> Iterator[Path]:
    """Download a repository for the time of the block: the conversion takes its place."""
    from keras_transformer.convert.from_ctranslate2 import FILES
    from keras_transformer.convert.hf_checkpoint import PARTS, download

    parts = {_CTRANSLATE2: FILES, _MARIAN: [own_files]}.get(converter, PARTS)
    parts = [[*patterns, *DOCUMENTS] for patterns in parts]
    with temporary_folder(user_cache() / CONVERTED, "download") as folder:
        yield download(name, parts, folder)


def recognize_format(folder: Path, name: str | None = None) -> str | None:
    """Return the form of a model, by its files.

    Args:
        folder: folder with the `config.json`, and for CTranslate2 any part of the model.
        name: the model's name in an error. Defaults to the folder.

    Returns:
        A key of `_converters`, or None if the folder has no `config.json` of another library.

    Raises:
        UserError: if the model is of an architecture that is not supported.
    """
    if is_marian(folder):
        return _MARIAN
    if folder.is_file():
        raise UserError(
            f"{folder} is a file. Expected the folder of a model, or a zip file of Marian."
        )
    file, has_binary = folder / CONFIG, (folder / "model.bin").is_file()
    config = read_json(file) if file.is_file() else {}
    if not isinstance(config, Mapping) or "registered_name" in config:
        return None
    if model_type := config.get("model_type"):
        if model_type not in _MODEL_TYPES:
            raise UserError(
                f"{name or folder} is a model of type {brief(model_type)}. Supported are "
                f"{_SUPPORTED}."
            )
        return model_type
    return _CTRANSLATE2 if has_binary or "add_source_eos" in config else None


def _fingerprint(folder: Path) -> str:
    """Return a hash that changes with the files of a folder, or with a zip file or wheel."""
    archive = None if folder.is_dir() else zip_in(folder)
    paths = [archive.path if archive else folder] if not folder.is_dir() else folder.iterdir()
    files = sorted(path for path in paths if path.is_file())
    state = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr(state).encode()).hexdigest()


def _convert(
    source: str,
    revision: str,
    converter: str,
    opened: contextlib.AbstractContextManager[Path],
) -> Path:
    """Return the preset of a model, which is converted if the cache does not have it.

    `opened` is only entered for a conversion, and yields the folder to convert.
    """
    digest = hashlib.sha256(f"{source}\n{revision}\n{__version__}".encode()).hexdigest()[:12]
    label = re.sub(r"[^\w.-]+", "_", source.removeprefix(HUGGING_FACE)).strip("_")
    label = label.encode()[-_LONGEST_LABEL:].decode("utf-8", "ignore")
    # A name that begins with "." is a temporary folder's.
    path = user_cache() / CONVERTED / f"{label.lstrip('._')}-{digest}"
    if path.is_dir():
        return path
    remove_leftovers(user_cache() / CONVERTED)
    keep_in_user_folder()  # before a model is made: that compiles too
    logger.info("Converting %s. The result is kept in %s.", source, path)
    with opened as folder, spinner("converting"):
        try:
            preset = _converters()[converter](folder)
            card = conversion_card(folder, source, preset.shortlist)
        except UserError as error:  # names the temporary folder of a download
            raise UserError(str(error).replace(str(folder), source)) from error
        metadata = {**preset.metadata, "converted_from": source}
        save_preset(path, dataclasses.replace(preset, metadata=metadata, card=card))
    for other in conversions():
        if other.source == source and other.path != path:
            shutil.rmtree(other.path, ignore_errors=True)  # an earlier revision
    return path


def _converters() -> dict[str, Callable[[Path], Preset]]:
    """Return the functions that read a folder, by the forms of `recognize_format`.

    Languages are chosen later: see `Preset.in_languages`.
    """
    from keras_transformer.convert.from_ctranslate2 import ctranslate2
    from keras_transformer.convert.from_fairseq import convert_m2m100, fsmt
    from keras_transformer.convert.from_hf_marian import convert_marian
    from keras_transformer.convert.from_marian import convert_marian_files

    return {
        "marian": convert_marian,
        _MARIAN: convert_marian_files,
        "m2m_100": convert_m2m100,
        "fsmt": fsmt,
        _CTRANSLATE2: ctranslate2,
    }


def conversions() -> list[Conversion]:
    """Return the converted models in the user's cache, the newest first."""
    folders = [
        path
        for path in (user_cache() / CONVERTED).glob("*")
        if path.name[0] != "." and (path / CONFIG).is_file()
    ]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [Conversion(_read_source(path), path) for path in folders]


def _read_source(path: Path) -> str:
    with contextlib.suppress(UserError, KeyError, TypeError):
        return read_json(path / TASK)["config"]["metadata"]["converted_from"]
    return ""


def select(sources: Collection[str]) -> list[Conversion]:
    """Return the conversions of some sources.

    Args:
        sources: the sources. None of them selects all conversions.

    Raises:
        UserError: if a source has no conversion.
    """
    known = conversions()
    names = [conversion.source for conversion in known]
    for source in sources:
        if source not in names:
            close = difflib.get_close_matches(source, names, 1, 0)
            raise UserError(
                f"The cache has no conversion of {source}. "
                + (f"The most similar name is {close[0]}." if close else "It is empty.")
            )
    return [conversion for conversion in known if not sources or conversion.source in sources]


def unfinished() -> list[Path]:
    """Return the files that killed conversions left in the user's cache."""
    return sorted(leftovers(user_cache() / CONVERTED))


def clear(sources: Collection[str] = ()) -> list[Conversion | Path]:
    """Delete converted models from the user's cache.

    Args:
        sources: the sources whose conversions are deleted. Defaults to all, and to the files that
            killed conversions left.

    Returns:
        The list of the deleted conversions and files.

    Raises:
        UserError: if a source has no conversion.
    """
    found = select(sources)
    left = [] if sources else unfinished()
    for path in (*(conversion.path for conversion in found), *left):
        shutil.rmtree(path)
    return [*found, *left]
