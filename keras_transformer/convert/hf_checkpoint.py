"""Folders of other libraries' models: found or downloaded, and read without running their code."""

from pathlib import Path

import numpy as np

from keras_transformer.convert.weight_files import open_weights
from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.presets.location import HUGGING_FACE, download_repository

_CONFIG, _TOKENIZER = "config.json", "tokenizer_config.json"
# What the weights' file is called, the best first; beside each, the list of the files that it may
# be cut into.
_WEIGHTS = {
    "model.safetensors": "model.safetensors.index.json",
    "pytorch_model.bin": "pytorch_model.bin.index.json",
}
# How the names of such files end, here or where a training wrote them.
_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth")
_TEXT_AND_VOCABULARIES = ("*.json", "*.txt", "*.md", "*.spm", "*.model")
# Two searches, since a repository often has the same weights in both forms.
_PARTS = ((*_TEXT_AND_VOCABULARIES, "*.safetensors"), ("pytorch_model*.bin",))


def find_folder(source, parts=_PARTS):
    """The local folder that a source stands for.

    Args:
        source: path of a folder; or `hf://user/repository`, perhaps followed by `@revision`, which
            is downloaded, or taken from HuggingFace's cache if it is there.
        parts: for a repository, tuples of patterns of file names: those of the next are downloaded
            where the ones before brought no weights.

    Returns:
        A `Path`.

    Raises:
        UserError: if there is no such folder or repository, or no network.
    """
    if str(source).startswith(HUGGING_FACE):
        return _download(str(source), parts)
    path = Path(source)
    if not path.is_dir():
        raise UserError(
            f"There is no folder {path}. Pass a folder, or {HUGGING_FACE}user/repository for one "
            "of HuggingFace's."
        )
    return path


def find_weights(source):
    """The file of weights that a source stands for.

    Args:
        source: path of the file; or of a folder, or `hf://user/repository`, with one such file.

    Returns:
        A `Path`.

    Raises:
        UserError: if there is none, or a folder has several.
    """
    if not str(source).startswith(HUGGING_FACE) and not Path(source).is_dir():
        if not Path(source).is_file():
            raise UserError(f"There is no file {source}.")
        return Path(source)
    folder = find_folder(source, [[f"*{suffix}" for suffix in _SUFFIXES]])
    files = sorted(file for file in folder.iterdir() if file.suffix in _SUFFIXES)
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise UserError(
            f"Expected one file of weights ({', '.join(_SUFFIXES)}) in {source}. Received: {names}"
        )
    return files[0]


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
        if "model_type" not in self.config:
            raise UserError(
                f"{self.path} is no model in HuggingFace's form: its {_CONFIG} names no model_type."
            )
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

    def vocabulary(self, name):
        """The dict of a vocabulary's file, token -> id, in the order of the ids: 0, 1, 2, ..."""
        ids = self.json(name)
        if {*map(repr, ids.values())} != {*map(repr, range(len(ids)))}:
            raise UserError(f"{self.path / name} is damaged: its ids are not 0, 1, 2, ...")
        return dict(sorted(ids.items(), key=lambda entry: entry[1]))

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

    def number(self, name, default):
        """A number of the configuration; `default` where there is none."""
        value = self.config.get(name)
        value = default if value is None else value
        if type(value) not in (int, float):
            raise UserError(
                f"{self.path / _CONFIG} is damaged: {name} must be a number. Received: {value!r}"
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
        parts = [*parts.values()] if isinstance(parts, dict) else []
        if not parts or not all(isinstance(x, str) and x == Path(x).name for x in parts):
            raise UserError(f"{self.path / index} is damaged: it names no files of its folder.")
        return sorted({*parts})

    def _open(self, name):
        path = self.file(name)
        return open_weights(path)


def _download(source, parts):
    for patterns in parts:
        path = download_repository(source, patterns)
        if any(file.suffix in _SUFFIXES for file in path.iterdir()):
            break
    return path
