"""The files of a preset, and its location: a folder, a name, or a repository of a hub."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.errors import UserError
from keras_transformer.files import FolderKind, read_json
from keras_transformer.weights.shards import SHARDS, WEIGHTS

CONFIG, METADATA = "config.json", "metadata.json"
TASK, PREPROCESSOR = "task.json", "preprocessor.json"
TAG_DICTIONARY, CARD = "tag_dictionary.json", "README.md"
SHORTLIST = "shortlist.npz"
TOKENIZER, SOURCE_TOKENIZER = "tokenizer", "source_tokenizer"
EXPORT_MARK = "keras_transformer.json"
"""The file by which an exported folder is recognized as one that this package wrote."""
SAVED_MODEL = ("saved_model.pb", "fingerprint.pb", "variables/variables.*", "assets", EXPORT_MARK)
"""The files of a SavedModel."""
_CLASS_PREFIX = "keras_transformer>"  # of the registered names in a `config.json`

HUGGING_FACE = "hf://"
# Only the files of a preset are downloaded; a repository may contain more.
_FILES = (
    *(CARD, CONFIG, METADATA, PREPROCESSOR, SHORTLIST, TAG_DICTIONARY, TASK, WEIGHTS),
    *(f"{name}.json" for name in (TOKENIZER, SOURCE_TOKENIZER)),
    *(f"assets/{name}/vocabulary.spm" for name in (TOKENIZER, SOURCE_TOKENIZER)),
    *(f"assets/{name}/vocabulary.json" for name in (TOKENIZER, SOURCE_TOKENIZER)),
    *(SHARDS, "model_*.weights.h5"),
)


def _is_preset(folder: Path) -> bool:
    """Return whether a folder has the `config.json` of a model of this package."""
    try:
        config = read_json(folder / CONFIG)
    except (UserError, OSError):
        return False
    name = config.get("registered_name") if isinstance(config, dict) else None
    return str(name).startswith(_CLASS_PREFIX)


# The SavedModel may have been exported into the folder.
PRESET = FolderKind(
    "a preset", (*_FILES, "task.weights.h5", *(f"saved_model/{x}" for x in SAVED_MODEL)), _is_preset
)
"""The kind of a preset's folder."""

# A repository, with an optional revision.
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


def saved_models() -> Path:
    """Return the folder of presets of a checkout.

    A wheel does not contain it. For an installed package it is the one in the working directory.
    """
    own = Path(__file__).parents[2] / "saved_models"
    return own if own.is_dir() else Path("saved_models")


def locate(preset: str | os.PathLike) -> Path:
    """Return the folder of a preset, and download it if it is in a hub and not in the hub's cache.

    Args:
        preset: a folder, a name in the folder `saved_models` of a checkout,
            `hf://user/repository` or `hf://user/repository@revision`.

    Returns:
        The path of a folder.

    Raises:
        UserError: if there is no such folder, the package of the hub is not installed, or the
            repository cannot be read.
    """
    name = str(preset)
    if name.startswith(HUGGING_FACE):
        return download_repository(name, _FILES)
    if Path(preset).is_dir():
        return Path(preset)
    if name == Path(name).name and (saved_models() / name).is_dir():
        return saved_models() / name
    raise UserError(f"There is no model folder {preset}.{_known_names(name)}")


def read_task_name(preset: str | os.PathLike) -> str | None:
    """Return the name of the class that uses a preset, such as `"Translator"`.

    Args:
        preset: as for `locate`.

    Returns:
        The name, or None if there is no such preset or it does not name one.
    """
    name = str(preset)
    is_remote = name.startswith(HUGGING_FACE)  # one file is enough
    try:
        folder = download_repository(name, [TASK]) if is_remote else locate(preset)
        return read_json(folder / TASK)["config"]["task"]
    except (UserError, OSError, KeyError, TypeError):
        return None


def _known_names(name: str) -> str:
    """Return the end of an error: the names of the presets of a checkout."""
    if name != Path(name).name:
        return ""
    if not saved_models().is_dir():
        return (
            " Without a checkout of keras_transformer, pass the folder of a preset or "
            "hf://user/repository."
        )
    names = sorted(path.parent.name for path in saved_models().glob(f"*/{CONFIG}"))
    return f" Available names: {', '.join(names)}."


def download_repository(name: str, patterns: Sequence[str], folder: Path | None = None) -> Path:
    """Return the folder of a repository of Hugging Face, downloaded or from the hub's cache.

    Args:
        name: `hf://user/repository`, optionally followed by `@revision`.
        patterns: patterns of the names of the files to download.
        folder: the folder to write to. Defaults to the hub's cache.

    Returns:
        The path of a folder.

    Raises:
        UserError: if there is no such repository, no network, or the hub's package is missing.
    """
    options: dict[str, Any] = {"allow_patterns": list(patterns)}
    if folder is not None:
        options["local_dir"] = folder
    return Path(_ask_hugging_face(name, lambda hub: hub.snapshot_download, **options))


def list_repository(name: str) -> list[str]:
    """Return the names of all files of a repository of Hugging Face.

    Args:
        name: as for `download_repository`.

    Raises:
        UserError: if there is no such repository, no network, or the hub's package is missing.
    """
    return _ask_hugging_face(name, lambda hub: hub.HfApi().list_repo_files)


def _ask_hugging_face(name: str, function_of: Callable[[Any], Any], **options: Any) -> Any:
    """Call a function of `huggingface_hub`, which `function_of` takes from it, for a repository."""
    repository = name.removeprefix(HUGGING_FACE)
    if not _REPOSITORY.fullmatch(repository):
        raise UserError(
            f"A repository of Hugging Face must be named hf://user/repository. Received: {name}"
        )
    repository, _, revision = repository.partition("@")
    try:
        import huggingface_hub
    except ImportError as error:
        raise UserError(
            f"Reading {name} needs the package `huggingface_hub`, which cannot be imported "
            f"({error}). Install it: pip install huggingface_hub"
        ) from error
    try:
        return function_of(huggingface_hub)(repository, revision=revision or None, **options)
    # It raises many kinds of errors, including those of its network library.
    except Exception as error:
        (reason, *_) = [*str(error).strip().splitlines(), ""]
        raise UserError(
            f"Cannot download {name}, which is not in the cache. Check the name and the network, "
            f"or pass a local folder. ({type(error).__name__}: {reason})"
        ) from error
