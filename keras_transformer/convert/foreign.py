"""Folders of other libraries' models: found or downloaded, and read without running their code."""

import contextlib
import zipfile
from pathlib import Path

import numpy as np

from keras_transformer.errors import UserError
from keras_transformer.files import read_json

HUB = "hf://"
"""What the name of a repository of HuggingFace begins with."""

_CONFIG, _TOKENIZER = "config.json", "tokenizer_config.json"
# What the weights' file is called, the best first; beside each, the list of the files that it may
# be cut into.
_WEIGHTS = {
    "model.safetensors": "model.safetensors.index.json",
    "pytorch_model.bin": "pytorch_model.bin.index.json",
}
_TEXT_AND_VOCABULARIES = ("*.json", "*.txt", "*.md", "*.spm", "*.model")
# Two searches, since a repository often has the same weights in both forms.
_PARTS = ((*_TEXT_AND_VOCABULARIES, "*.safetensors"), ("pytorch_model*.bin",))


def find_folder(source, parts=_PARTS):
    """The local folder that a source stands for.

    Args:
        source: path of a folder; or `hf://user/repository`, perhaps followed by `@revision`, which
            is downloaded, or taken from HuggingFace's cache if it is there.
        parts: for a repository, tuples of patterns of file names: those of the next are downloaded
            where the ones before brought no weights (`*.safetensors` or `*.bin`).

    Returns:
        A `Path`.

    Raises:
        UserError: if there is no such folder or repository, or no network.
    """
    if str(source).startswith(HUB):
        return _download(str(source), parts)
    path = Path(source)
    if not path.is_dir():
        raise UserError(
            f"There is no folder {path}. Pass a folder, or {HUB}user/repository for one of "
            "HuggingFace's."
        )
    return path


def open_foreign(source):
    """Open a model in HuggingFace's form: `config.json`, and safetensors or PyTorch's weights.

    Args:
        source: as for `find_folder`.

    Returns:
        A `ForeignFolder`.

    Raises:
        UserError: if there is no such folder or repository, it is of another form, or damaged.
    """
    return ForeignFolder(find_folder(source))


class ForeignFolder:
    """A model in HuggingFace's form.

    Weights are read one at a time: the model and its copy are never in memory whole.

    Args:
        path: the folder.

    Attributes:
        path: the folder, a `Path`.
        config: dict, what `config.json` says.
        names: frozenset of the weights' names.

    Raises:
        UserError: if a file is missing or damaged.
    """

    def __init__(self, path):
        self.path = Path(path)
        if not (self.path / _CONFIG).is_file():
            raise UserError(f"{self.path} is no model in HuggingFace's form: it has no {_CONFIG}.")
        self.config = self.json(_CONFIG)
        self._file_of = {name: file for file in self._weight_files() for name in file.names}
        self.names = frozenset(self._file_of)
        self._read = set()

    def tensor(self, name):
        """A weight: float32 array."""
        if name not in self._file_of:
            raise UserError(
                f"{self.path} has no weights {name!r}: it is damaged, or no such model."
            )
        self._read.add(name)
        return np.asarray(self._file_of[name].tensor(name), "float32")

    def check_all_read(self, needless=()):
        """Raise a `UserError` if there are weights that nobody asked for, but for some names."""
        left = sorted(self.names - self._read - {*needless})
        if left:
            raise UserError(
                f"{self.path} has weights that this architecture does not: {left[0]!r}"
                + (f" and {len(left) - 1} more." if len(left) > 1 else ".")
            )

    def has(self, name):
        """Whether there is such a file."""
        return (self.path / name).is_file()

    def file(self, name):
        """The path of a file.

        Raises:
            UserError: if it is not there.
        """
        if not self.has(name):
            raise UserError(f"{self.path} is not whole: {name} is missing.")
        return self.path / name

    def json(self, name):
        """The object of a JSON file: a dict."""
        path = self.file(name)
        values = read_json(path)
        if not isinstance(values, dict):
            raise UserError(f"{path} is damaged: it holds no object of JSON.")
        return values

    @property
    def tokenizer_config(self):
        """What `tokenizer_config.json` says; an empty dict if it is not there."""
        return self.json(_TOKENIZER) if self.has(_TOKENIZER) else {}

    def check_type(self, *model_types):
        """Raise a `UserError` unless the configuration names one of these architectures."""
        found = self.config.get("model_type")
        if found not in model_types:
            raise UserError(
                f"{self.path} holds a model of type {found!r}. Expected {' or '.join(model_types)}."
            )

    def option(self, name, default, *others):
        """An option of the configuration, which must be `default` or one of the others."""
        if name not in self.config:
            return default
        return self.choice(name, {value: value for value in (default, *others)})

    def choice(self, name, choices):
        """What `choices`, a dict, has for an option of the configuration."""
        value = self.config.get(name)
        if value not in [*choices]:
            raise UserError(
                f"{self.path / _CONFIG} has {name}={value!r}, which is not there in this package. "
                f"Expected {' or '.join(map(repr, choices))}."
            )
        return choices[value]

    def size(self, name):
        """A positive integer of the configuration."""
        value = self.config.get(name)
        if type(value) is not int or value < 1:
            raise UserError(
                f"{self.path / _CONFIG} is damaged: {name} must be a positive integer. "
                f"Received: {value!r}"
            )
        return value

    def _weight_files(self):
        for name, index in _WEIGHTS.items():
            if self.has(index):
                return [self._open(part) for part in self._parts(index)]
            if self.has(name):
                return [self._open(name)]
        raise UserError(f"{self.path} is not whole: it has none of {', '.join(_WEIGHTS)}.")

    def _parts(self, index):
        """The names of the files that the weights are cut into."""
        parts = self.json(index).get("weight_map")
        parts = sorted({*parts.values()}) if isinstance(parts, dict) else []
        if not parts or any(part != Path(part).name for part in parts):
            raise UserError(f"{self.path / index} is damaged: it names no files of its folder.")
        return parts

    def _open(self, name):
        path = self.file(name)
        return open_weights(path)


def open_weights(path):
    """Open a file of weights: `.safetensors`, or what PyTorch wrote.

    Args:
        path: the file.

    Returns:
        An object with `names`, a list, and `tensor`, a function from a name to an array.

    Raises:
        UserError: if the file is damaged, or holds more than tensors.
    """
    return (_Safetensors if path.suffix == ".safetensors" else _TorchFile)(path)


class _Safetensors:
    def __init__(self, path):
        self.path = path
        with self._opened() as file:
            self.names = list(file.keys())

    def tensor(self, name):
        # Opened anew each time: what was read of a mapped file stays in memory until it is closed.
        with self._opened() as file:
            return file.get_tensor(name)

    @contextlib.contextmanager
    def _opened(self):
        import ml_dtypes  # noqa: F401  It tells NumPy of bfloat16.

        try:
            from safetensors import SafetensorError, safe_open
        except ImportError as error:
            raise UserError(_install("safetensors", self.path, error)) from error
        try:
            with safe_open(self.path, framework="numpy") as file:
                yield file
        except SafetensorError as error:
            raise UserError(f"{self.path} is cut short or damaged: {error}") from error
        except (AttributeError, TypeError) as error:  # it has no such type
            raise UserError(f"{self.path} has weights of a type that NumPy lacks.") from error


class _TorchFile:
    def __init__(self, path):
        self.tensors = load_torch_file(path)
        self.names = list(self.tensors)

    def tensor(self, name):
        # A copy: JAX would keep what it is given, and with it the whole file in memory.
        return np.array(self.tensors[name].detach().float())


def load_torch_file(path):
    """The tensors of a file that PyTorch wrote, mapped into memory where the file allows it.

    Only tensors are read: what else is pickled in the file is refused, and never run.

    Args:
        path: the file.

    Returns:
        A dict of name -> tensor of PyTorch, on the CPU.

    Raises:
        UserError: if PyTorch is not installed, or the file is damaged or holds more than tensors.
    """
    try:
        import torch
    except ImportError as error:
        raise UserError(_install("torch", path, error)) from error
    import pickle

    try:
        # Files of before PyTorch 1.6 are no archives, and cannot be mapped.
        mapped = zipfile.is_zipfile(path)
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} is damaged, or holds more than tensors, which is not read because it could "
            "run code."
        ) from error
    except Exception as error:  # of bytes that are no pickle, whatever they led to
        raise UserError(f"{path} is cut short or damaged: {_first_line(error)}") from error
    if not isinstance(tensors, dict) or not all(
        isinstance(tensor, torch.Tensor) for tensor in tensors.values()
    ):
        raise UserError(f"{path} holds no dict of tensors (a PyTorch `state_dict`).")
    return tensors


def _download(source, parts):
    try:
        import huggingface_hub
    except ImportError as error:
        raise UserError(_install("huggingface_hub", source, error)) from error
    repository, _, revision = source.removeprefix(HUB).partition("@")
    try:
        for patterns in parts:
            path = Path(
                huggingface_hub.snapshot_download(
                    repository, revision=revision or None, allow_patterns=list(patterns)
                )
            )
            if any(path.glob("*.safetensors")) or any(path.glob("*.bin")):
                break
    # Its errors of the network, of repositories and of their names are all one or the other.
    except (OSError, ValueError) as error:
        raise UserError(
            f"{source} cannot be downloaded, and is not in the cache: {_first_line(error)} Look at "
            "the name and the network, or pass a local folder."
        ) from error
    return path


def _install(package, path, error):
    return (
        f"{path} is read with the package `{package}`, which cannot be imported here ({error}). "
        f"Install it: pip install {package}"
    )


def _first_line(error):
    line = str(error).strip().partition("\n")[0]
    return line if line.endswith((".", "!")) else f"{line}."
