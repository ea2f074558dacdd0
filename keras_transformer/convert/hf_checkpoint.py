"""Folders of other libraries' models: found or downloaded, and read without running their code."""

import contextlib
import math
import pickle
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.convert.embedding_tables import Tables, build_model
from keras_transformer.convert.weight_mapping import is_finite
from keras_transformer.errors import UserError, brief
from keras_transformer.files import read_json
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.location import HUGGING_FACE, download_repository

_CONFIG, _TOKENIZER = "config.json", "tokenizer_config.json"
# Names of the file of weights, the preferred first, and the name of the index of the files that the
# weights may be split into.
_WEIGHTS = {
    "model.safetensors": "model.safetensors.index.json",
    "pytorch_model.bin": "pytorch_model.bin.index.json",
}
# Suffixes of such files, in a repository or in the output of a training.
_SUFFIXES = (".safetensors", ".bin")
_TEXT_AND_VOCABULARIES = ("*.json", "*.txt", "*.md", "*.spm", "*.model")
# Two steps, because a repository often has the same weights in both forms.
PARTS = ((*_TEXT_AND_VOCABULARIES, "*.safetensors"), ("pytorch_model*.bin",))


# Locations


def find_folder(source: str | Path, parts: Iterable[Sequence[str]] = PARTS) -> Path:
    """Return the local folder of a source.

    Args:
        source: path of a folder; or `hf://user/repository`, optionally followed by `@revision`,
            which is downloaded, or taken from HuggingFace's cache.
        parts: for a repository, tuples of patterns of file names. Each tuple is downloaded only if
            the tuples before it contained no weights.

    Returns:
        A `Path`.

    Raises:
        UserError: if there is no such folder or repository, or no network.
    """
    if str(source).startswith(HUGGING_FACE):
        return download(str(source), parts)
    path = Path(source)
    if not path.is_dir():
        raise UserError(
            f"There is no folder {path}. Pass a folder, or {HUGGING_FACE}user/repository for a "
            "repository of HuggingFace."
        )
    return path


def download(source: str, parts: Iterable[Sequence[str]], folder: Path | None = None) -> Path:
    """Download a repository.

    Args:
        source: `hf://user/repository`, optionally followed by `@revision`.
        parts: as for `find_folder`.
        folder: the folder to write to. Defaults to HuggingFace's cache.

    Returns:
        The path of a folder.

    Raises:
        UserError: if there is no such repository, or no network.
    """
    path = Path()
    for patterns in parts:
        path = download_repository(source, patterns, folder)
        if any(file.suffix in _SUFFIXES for file in path.iterdir()):
            break
    return path


# Folders


def open_checkpoint(source: str | Path) -> "HFCheckpoint":
    """Open a model in HuggingFace's form: `config.json`, and safetensors or PyTorch weights.

    Args:
        source: as for `find_folder`.

    Returns:
        An `HFCheckpoint`.

    Raises:
        UserError: if there is no such folder or repository, it has another form, or it is damaged.
    """
    return HFCheckpoint(find_folder(source))


class HFCheckpoint:
    """A folder with a model in HuggingFace's form.

    Weights are read one at a time, so the model and its copy are never in memory at once.

    Args:
        path: the folder.

    Attributes:
        path: the folder, a `Path`.
        config: dict, the content of `config.json`.
        names: frozenset of the names of the weights.

    Raises:
        UserError: if a file is missing or damaged.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if not (self.path / _CONFIG).is_file():
            raise UserError(f"{self.path} is not a model in HuggingFace's form: no {_CONFIG}.")
        self.config = self.json(_CONFIG)
        if "model_type" not in self.config:
            raise UserError(
                f"{self.path} is not a model in HuggingFace's form: no model_type in {_CONFIG}."
            )
        self._files = {name: file for file in self._weight_files() for name in file.names}
        self.names = frozenset(self._files)
        self._read: set[str] = set()

    def tensor(self, name: str) -> np.ndarray:
        """Return a weight as a float32 array.

        Raises:
            UserError: if there is no such weight.
        """
        self._require_name(name)
        self._read.add(name)
        return np.asarray(self._files[name].tensor(name), "float32")

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a weight, without reading it.

        Raises:
            UserError: if there is no such weight.
        """
        self._require_name(name)
        return self._files[name].shape(name)

    def validate_table(self, name: str, rows: int) -> None:
        """Raise a `UserError` unless a weight is `(rows, d_model)`, as the configuration claims."""
        expected = (rows, self.size("d_model"))
        if self.shape(name) != expected:
            raise UserError(
                f"{self.path}: {name!r} and {_CONFIG} do not match. Expected the shape {expected}, "
                f"with d_model={brief(expected[1])}. Received: {brief(self.shape(name))}"
            )

    @property
    def num_weights(self) -> int:
        """The number of weights in the folder's files."""
        return sum(math.prod(self.shape(name)) for name in self.names)

    def validate_all_read(self, needless: Iterable[str] = ()) -> None:
        """Raise a `UserError` if weights were never read, except for some names."""
        left = sorted(self.names - self._read - {*needless})
        if left:
            raise UserError(
                f"{self.path} has weights that are not supported: {brief(left[0])}"
                + (f" and {len(left) - 1} more." if len(left) > 1 else ".")
            )

    def _require_name(self, name):
        if name not in self._files:
            raise UserError(
                f"{self.path} has no weights {brief(name)}. It is damaged, or another kind of "
                "model."
            )

    def has(self, name: str) -> bool:
        """Return whether the folder has a file of this name."""
        return (self.path / name).is_file()

    def file(self, name: str) -> Path:
        """Return the path of a file.

        Raises:
            UserError: if it is missing.
        """
        if not self.has(name):
            raise UserError(f"{self.path} is incomplete: {name} is missing.")
        return self.path / name

    def json(self, name: str) -> dict[str, Any]:
        """Return the object of a JSON file."""
        path = self.file(name)
        values = read_json(path)
        if not isinstance(values, dict):
            raise UserError(f"{path} is damaged. Expected a JSON object.")
        return values

    def vocabulary(self, name: str, sizes: Sequence[int] | None = None) -> dict[str, int]:
        """Return the vocabulary of a file, token -> id, in the order of the ids: 0, 1, 2, ...

        Args:
            name: name of the file.
            sizes: the numbers of tokens that the configuration allows. Defaults to any.
        """
        ids = self.json(name)
        if {*map(repr, ids.values())} != {*map(repr, range(len(ids)))}:
            raise UserError(f"{self.path / name} is damaged. Expected the ids 0, 1, 2, ...")
        if sizes is not None and len(ids) not in sizes:
            raise UserError(
                f"{self.path}: {name} and config.json do not match. {name} has {len(ids):,} "
                f"tokens; config.json expects {sizes[-1]:,}."
            )
        return dict(sorted(ids.items(), key=lambda entry: entry[1]))

    @property
    def tokenizer_config(self) -> dict[str, Any]:
        """The content of `tokenizer_config.json`; an empty dict if it is missing."""
        return self.json(_TOKENIZER) if self.has(_TOKENIZER) else {}

    def validate_type(self, *model_types: str) -> None:
        """Raise a `UserError` unless the configuration names one of these architectures."""
        found = self.config.get("model_type")
        if found not in model_types:
            raise UserError(
                f"{self.path} holds a model of type {brief(found)}. "
                f"Expected {' or '.join(model_types)}."
            )

    def option(self, name: str, default: Any, *others: Any) -> Any:
        """Return an option of the configuration, which must be `default` or one of the others."""
        if name not in self.config:
            return default
        return self.choice(name, {value: value for value in (default, *others)})

    def choice(self, name: str, choices: Mapping[Any, Any]) -> Any:
        """Return the entry of `choices` for the value of an option of the configuration."""
        value = self.config.get(name)
        if value not in [*choices]:
            raise UserError(
                f"Unsupported {name}={brief(value)} in {self.path / _CONFIG}. "
                f"Expected {' or '.join(map(brief, choices))}."
            )
        return choices[value]

    def size(self, name: str) -> int:
        """Return a positive integer of the configuration."""
        value = self.config.get(name)
        if type(value) is not int or value < 1:
            raise UserError(
                f"{self.path / _CONFIG} is damaged: {name} must be a positive integer. "
                f"Received: {brief(value)}"
            )
        return value

    def number(self, name: str, default: float) -> float:
        """Return a number of the configuration, or `default` if it is not set."""
        value = self.config.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not is_finite(value):
            raise UserError(
                f"{self.path / _CONFIG} is damaged: {name} must be a number. "
                f"Received: {brief(value)}"
            )
        return value

    def _weight_files(self) -> "list[_Safetensors | _TorchFile]":
        for name, index in _WEIGHTS.items():
            reader = _Safetensors if name.endswith(".safetensors") else _TorchFile
            if self.has(index):
                return [reader(self.file(part)) for part in self._parts(index)]
            if self.has(name):
                return [reader(self.file(name))]
        raise UserError(f"{self.path} is incomplete. Expected one of {', '.join(_WEIGHTS)}.")

    def _parts(self, index: str) -> list[str]:
        """Return the names of the files that the weights are split into."""
        parts = self.json(index).get("weight_map")
        parts = [*parts.values()] if isinstance(parts, dict) else []
        if not parts or not all(isinstance(x, str) and x == Path(x).name for x in parts):
            raise UserError(f"{self.path / index} is damaged. Expected names of files next to it.")
        return sorted({*parts})


def build_hf_model(folder: HFCheckpoint, tables: Tables, options: Mapping[str, Any]) -> Transformer:
    """Build a model with the weights of a folder: see `build_model`."""
    try:
        return build_model(
            tables, options, lambda name: folder.tensor(f"model.{name}"), folder.num_weights
        )
    except UserError as error:
        if str(folder.path) in str(error):
            raise
        raise UserError(f"{folder.path}: {error}") from error


# Files of weights


class _Safetensors:
    """A file of safetensors, whose tensors are read one at a time."""

    def __init__(self, path: Path):
        self.path = path
        with self._opened() as file:
            self.names: list[str] = list(file.keys())
            self._shapes = {name: tuple(file.get_slice(name).get_shape()) for name in self.names}

    def tensor(self, name: str) -> np.ndarray:
        # Open the file for each tensor: pages of a mapped file stay in memory until it is closed.
        with self._opened() as file:
            return file.get_tensor(name)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        import ml_dtypes  # noqa: F401  It registers bfloat16 with NumPy.

        try:
            from safetensors import SafetensorError, safe_open
        except ImportError as error:
            raise UserError(_install("safetensors", self.path, error)) from error
        try:
            with safe_open(self.path, framework="numpy") as file:
                yield file
        except SafetensorError as error:
            raise UserError(f"{self.path} is cut short or damaged: {error}") from error
        except (AttributeError, TypeError) as error:  # raised for an unknown dtype
            raise UserError(f"{self.path} has weights of a dtype that NumPy lacks.") from error


class _TorchFile:
    """A file of PyTorch, mapped into memory if the file allows it."""

    def __init__(self, path: Path):
        self.tensors = _load_tensors(path)
        self.names = list(self.tensors)

    def tensor(self, name: str) -> np.ndarray:
        # A copy: JAX would otherwise keep a view, and with it the whole file in memory.
        return np.array(self.tensors[name].detach().float())

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.tensors[name].shape)


def _load_tensors(path: Path) -> dict[str, Any]:
    """Return the tensors of a PyTorch file by name. Other pickled objects are refused, not run."""
    try:
        import torch
    except ImportError as error:
        raise UserError(_install("torch", path, error)) from error
    try:
        # Files written before PyTorch 1.6 are not archives and cannot be mapped.
        mapped = zipfile.is_zipfile(path)
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} is damaged, or holds more than tensors. Other objects are not read, because "
            "they could run code."
        ) from error
    except Exception as error:  # bytes that are not a pickle can raise anything
        raise UserError(f"{path} is cut short or damaged: {_first_line(error)}") from error
    if not isinstance(tensors, dict) or not all(
        isinstance(tensor, torch.Tensor) for tensor in tensors.values()
    ):
        raise UserError(f"{path} does not hold a dict of tensors (a PyTorch `state_dict`).")
    return tensors


def _install(package: str, path: Path, error: ImportError) -> str:
    return (
        f"{path} is read with the package `{package}`, which cannot be imported here ({error}). "
        f"Install it: pip install {package}"
    )


def _first_line(error: Exception) -> str:
    line = str(error).strip().partition("\n")[0]
    return line if line.endswith((".", "!")) else f"{line}."
