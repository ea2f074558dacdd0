"""Reader of the files of a CTranslate2 model: `model.bin`, `config.json` and the vocabularies."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.errors import UserError, brief
from keras_transformer.files import read_json

_BINARY, _CONFIG = "model.bin", "config.json"
_VERSIONS = range(2, 7)  # of the binary format
# The dtypes by their number in the file. bfloat16 is the upper half of a float32.
_DTYPES = ("<f4", "<i1", "<i2", "<i4", "<f2", "<u2")
_BFLOAT16 = "<u2"
_FLOATS = ("<f4", "<f2")
# Before version 4, a dtype was stored as the size of an item.
_DTYPES_BY_SIZE = {4: "<f4", 2: "<i2", 1: "<i1"}
# The factor of int16 weights in files that do not store a scale.
_INT16_SCALE = 1000.0
# The number of heads of models whose files do not store it, by specification.
_NUM_HEADS = {"TransformerBase": 8, "TransformerBig": 16}
_SPECIFICATION = "TransformerSpec"
_DEFAULTS = {
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "decoder_start_token": "<s>",
    "add_source_bos": False,
    "add_source_eos": False,
}
# Before revision 5, options of both encoder and decoder were stored once.
_COMMON = ("num_heads", "pre_norm", "activation", "embeddings_merge")


class CTranslate2Files(NamedTuple):
    """The content of a CTranslate2 model folder."""

    variables: "Variables"
    config: dict[str, Any]
    source_vocabulary: list[str]
    target_vocabulary: list[str]


class Variables:
    """The arrays of a `model.bin` by name. Quantized weights are returned in float32.

    Args:
        arrays: dict of stored arrays, views of the file.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def scalar(self, name: str, default: Any = None) -> Any:
        """Return the number in an array of one item, or `default` if the array is missing."""
        if name not in self:
            return default
        if (stored := self._stored(name)).size != 1:
            raise UserError(
                f"The CTranslate2 model is damaged: {brief(name)} must be a number. "
                f"Received: shape {brief(stored.shape)}"
            )
        return stored.item()

    def text(self, name: str, default: str) -> str:
        """Return the string in an array of bytes, or `default` if the array is missing."""
        return bytes(self._stored(name)).decode("utf-8", "replace") if name in self else default

    def shape(self, name: str) -> tuple[int, ...]:
        return self._stored(name).shape

    def is_float(self, name: str) -> bool:
        return self._stored(name).dtype in (*_FLOATS, _BFLOAT16)

    def are_equal(self, name: str, other: str) -> bool:
        """Return whether two arrays are the same array or have the same values."""
        if self._stored(name) is self._stored(other):
            return True
        return self.shape(name) == self.shape(other) and np.array_equal(
            self.array(name), self.array(other)
        )

    def array(self, name: str, rows: slice = slice(None)) -> np.ndarray:
        """Return an array in float32. Rows of quantized weights are divided by their scales.

        Args:
            name: name of the array.
            rows: slice of the first axis.

        Raises:
            UserError: if there is no such array.
        """
        stored = self._stored(name)[rows]
        if stored.dtype == _BFLOAT16:
            return (stored.astype("uint32") << 16).view("float32")
        values = np.array(stored, "float32")
        return values if stored.dtype in _FLOATS else values / self._scale(name, rows)

    def _scale(self, name: str, rows: slice) -> np.ndarray | np.float32:
        """Return the divisor of integers: one number per row, or one number."""
        if f"{name}_scale" not in self and self._stored(name).dtype == "<i2":
            return np.float32(_INT16_SCALE)
        scale = np.asarray(self._stored(f"{name}_scale"), "float32")
        if scale.shape not in ((), (len(self._stored(name)),)):
            raise UserError(
                f"The CTranslate2 model is damaged: {brief(name)} must have a scale for each row. "
                f"Received: shape {brief(scale.shape)}"
            )
        return scale[rows, None] if scale.ndim else scale

    def _stored(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise UserError(f"The CTranslate2 model has no `{name}`.")
        return self._arrays[name]


def read_files(path: str | Path) -> CTranslate2Files:
    """Read a CTranslate2 model folder.

    Args:
        path: the folder.

    Returns:
        `CTranslate2Files`, with the variable names of the newest revision.

    Raises:
        UserError: if a file is missing, damaged or of an unknown version, or the model is not a
            Transformer with encoder and decoder.
    """
    path = Path(path)
    if not (path / _BINARY).is_file():
        raise UserError(f"{path} is not a CTranslate2 model: {_BINARY} is missing.")
    version, arrays = _read_binary(path / _BINARY)
    variables = Variables(arrays)
    config = _config(path / _CONFIG) if version >= 6 else _old_config(variables)
    unknown = config["unk_token"]
    names = ("source_vocabulary", "target_vocabulary")
    if shared := _read_vocabulary(path, "shared_vocabulary", unknown):
        return CTranslate2Files(variables, config, shared, shared)
    vocabularies = []
    for name in names:
        if (vocabulary := _read_vocabulary(path, name, unknown)) is None:
            raise UserError(f"{path} has no {name}.json, {name}.txt or shared_vocabulary.")
        vocabularies.append(vocabulary)
    source, target = vocabularies
    return CTranslate2Files(variables, config, source, target)


class _Reader:
    """A sequential reader of the bytes of a file."""

    def __init__(self, path: Path):
        self.path = path
        self._bytes = np.memmap(path, "u1", "r") if path.stat().st_size else np.empty(0, "u1")
        self._place = 0

    def take(self, count: int) -> np.ndarray:
        end = self._place + count
        if end > len(self._bytes):
            raise UserError(
                f"{self.path} is cut short: it has {len(self._bytes):,} bytes, of {end:,} or more. "
                "Copy or download it again."
            )
        taken, self._place = self._bytes[self._place : end], end
        return taken

    def number(self, dtype: str) -> int:
        return int(self.take(np.dtype(dtype).itemsize).view(dtype)[0])

    def string(self) -> str:
        text = bytes(self.take(self.number("<u2")))
        try:
            return text.removesuffix(b"\0").decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{self.path} is damaged, or not a CTranslate2 model.") from error


def _read_binary(path: Path) -> tuple[int, dict[str, np.ndarray]]:
    """Return the version of a `model.bin`, and its arrays by name."""
    reader = _Reader(path)
    version = reader.number("<u4")
    if version not in _VERSIONS:
        raise UserError(
            f"{path} is damaged, not a CTranslate2 model, or of an unknown version. "
            f"Expected version {_VERSIONS[0]} to {_VERSIONS[-1]}. Received: {version}"
        )
    specification, revision = reader.string(), reader.number("<u4")
    if specification not in (_SPECIFICATION, *_NUM_HEADS):
        raise UserError(
            f"{path} is a {specification[:100]} of CTranslate2. Expected a {_SPECIFICATION}, "
            "with an encoder and a decoder."
        )
    arrays = dict(_read_array(reader, version) for _ in range(reader.number("<u4")))
    if version >= 3:
        for _ in range(reader.number("<u4")):
            _add_alias(arrays, reader.string(), reader.string())
    if revision < 3:
        arrays["num_heads"] = np.array(_NUM_HEADS.get(specification, 8))
    if revision < 5:
        for stack in ("encoder", "decoder"):
            for name in _COMMON:
                _add_alias(arrays, f"{stack}/{name}", name)
    # Newer names have a number, because a source can have several factors.
    for name in ("weight", "weight_scale"):
        _add_alias(arrays, f"encoder/embeddings_0/{name}", f"encoder/embeddings/{name}")
    return version, arrays


def _read_array(reader: _Reader, version: int) -> tuple[str, np.ndarray]:
    name = reader.string()
    shape = [reader.number("<u4") for _ in range(reader.number("<u1"))]
    type_number = reader.number("<u1")
    types = dict(enumerate(_DTYPES)) if version >= 4 else _DTYPES_BY_SIZE
    if type_number not in types:
        raise UserError(
            f"{reader.path} is damaged: {brief(name)} has no known type ({type_number})."
        )
    dtype = np.dtype(types[type_number])
    size = reader.number("<u4") * (1 if version >= 4 else dtype.itemsize)
    if size != math.prod(shape) * dtype.itemsize:
        raise UserError(
            f"{reader.path} is damaged: {brief(name)} has {size} bytes for shape {brief(shape)}."
        )
    return name, reader.take(size).view(dtype).reshape(shape)


def _add_alias(arrays: dict[str, np.ndarray], alias: str, name: str) -> None:
    for end in ("", "_scale"):
        if name + end in arrays:
            arrays.setdefault(alias + end, arrays[name + end])


def _config(path: Path) -> dict[str, Any]:
    """Return the options of `config.json`, with CTranslate2's defaults."""
    config = {**_DEFAULTS, **_read_json(path, dict)}
    for name, default in _DEFAULTS.items():
        is_free = name == "decoder_start_token" and config[name] is None
        if not isinstance(config[name], type(default)) and not is_free:
            raise UserError(f"{path} is damaged: its {name} is {brief(config[name])}.")
    if type(epsilon := config.get("layer_norm_epsilon")) not in (int, float, type(None)):
        raise UserError(f"{path} is damaged: its layer_norm_epsilon is {brief(epsilon)}.")
    return config


def _old_config(variables: Variables) -> dict[str, Any]:
    """Return the options of models of versions without a `config.json`."""
    config = {
        "unk_token": variables.text("unk_token", "<unk>"),
        "bos_token": variables.text("bos_token", "<s>"),
        "eos_token": variables.text("eos_token", "</s>"),
        "add_source_bos": bool(variables.scalar("with_source_bos", 0)),
        "add_source_eos": bool(variables.scalar("with_source_eos", 0)),
    }
    start = "bos_token" if variables.scalar("with_target_bos", 1) else "eos_token"
    config["decoder_start_token"] = config[start]
    if variables.scalar("user_decoder_start_tokens", 0):
        config["decoder_start_token"] = None
    return config


def _read_vocabulary(path: Path, name: str, unknown: str) -> list[str] | None:
    """Return the tokens in the order of their ids, or None if there is no such file."""
    if (path / f"{name}.json").is_file():
        tokens = _read_json(path / f"{name}.json", list)
    elif (path / f"{name}.txt").is_file():
        tokens = _lines(path / f"{name}.txt")
    else:
        return None
    if not all(isinstance(token, str) for token in tokens):
        raise UserError(f"{path / name}.json is damaged. Expected a list of strings.")
    return tokens if unknown in tokens else [*tokens, unknown]


def _lines(path: Path) -> list[str]:
    """Return the tokens of a file, one per line. Lines end only at line feeds, because other line
    breaks, such as U+2028, can be tokens.
    """
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error
    lines = text.removesuffix("\n").split("\n")
    # A token may end with a carriage return. If all do, it belongs to the line break.
    if all(line.endswith("\r") for line in lines):
        return [line.removesuffix("\r") for line in lines]
    return lines


def _read_json(path: Path, kind: type) -> Any:
    if not path.is_file():
        raise UserError(f"{path} is missing.")
    values = read_json(path)
    if not isinstance(values, kind):
        raise UserError(f"{path} is damaged. Expected a JSON {kind.__name__}.")
    return values
