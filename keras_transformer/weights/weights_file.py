"""Files of weights: written, read, and checked.

Files written here end with a SHA-256 of all bytes before it, after the end that HDF5 reads: damage
is detected before HDF5 reads the file, which could crash the process. Files without a checksum,
such as those of KerasHub, are also supported.
"""

import contextlib
import hashlib
import math
import os
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write

# The group of all content other than the model's weights: see `training.training_state`.
STATE_GROUP = "training_state"

# The mark before the checksum.
_SEAL = b"\nsha256:"
_SEAL_BYTES = len(_SEAL) + hashlib.sha256().digest_size

# The exceptions of h5py, NumPy and Keras for damaged files.
DAMAGE = (
    *(OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, RuntimeError),
    *(ArithmeticError, MemoryError),
)

# The supported dtypes of weights: HDF5 has no bfloat16.
_FLOATS = ("float16", "float32")

_CHUNK = 2**24

# The bytes that HDF5 needs per tensor in addition to its values, for the tensor and its groups: 3
# kB is usual.
_OVERHEAD = 16 * 1024


def save_weights(model: keras.Model, path: str | PathLike) -> None:
    """Write the weights of a functional model, without the optimizer's state, to a new file.

    Args:
        model: the model.
        path: the file.

    Raises:
        OSError: if the disk does not have room for the file.
        UserError: if a weight is infinite or not a number.
    """
    write_weights(model, path)
    with h5py.File(path) as file:
        for name, item in _weights(file).items():
            validate_finite(name, item[()])
    write_checksum(path)


def write_weights(model: keras.Model, path: str | PathLike, room_for: Iterable[Any] = ()) -> None:
    """Write weights like `save_weights`, without checks and checksum, to add content later.

    Args:
        model: the model.
        path: the file.
        room_for: arrays or variables that will be added.
    """
    parts = [*model.weights, *room_for]
    # Dtypes with fewer than 4 bytes may be stored as float32.
    size = sum(math.prod(x.shape) * (8 if "64" in str(x.dtype) else 4) for x in parts)
    validate_room(path, size + (1 + len(parts)) * _OVERHEAD)
    _without_optimizer(model).save_weights(path)


def validate_room(path: str | PathLike, size: int) -> None:
    """Raise an `OSError` if there is no room for a new file of this size in bytes.

    It is for files that HDF5 writes: after a failed write, HDF5 crashes the process when a later
    file is closed.
    """
    if not hasattr(os, "posix_fallocate"):
        return  # Windows, macOS
    with open(path, "xb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        finally:
            os.unlink(path)


def load_weights(model: keras.Model, path: str | PathLike) -> None:
    """Load a file that `save_weights` or a training wrote. The optimizer keeps its state.

    In a model with LoRA, they become the weights W, and the matrices B are set to zeros.

    Args:
        model: a functional model.
        path: the file.

    Raises:
        UserError: if the file is damaged, or belongs to another model.
    """
    # LoRA weights are saved merged.
    expected = sum(not weight.name.startswith("lora_") for weight in model.weights)
    # Keras ignores tensors for which the model has no layer.
    found = sum(1 for _ in read_tensors(path))
    if found != expected:
        raise UserError(
            f"{path} does not fit the model. Expected {expected} tensors. Received: {found} tensors"
        )
    try:
        _without_optimizer(model).load_weights(path)
    except DAMAGE as error:
        raise UserError(
            f"{path} is damaged, or belongs to another model. ({first_line(error)})"
        ) from error


def _without_optimizer(model: keras.Model) -> keras.Model:
    # This has the same layers and variables. Saved with the model, Adam's state would triple the
    # size of the file.
    return keras.Model(model.inputs, model.outputs)


def copy_weights(path: str | PathLike, new_path: str | PathLike) -> None:
    """Copy the weights in a file to a new file, without other content."""
    validate_room(new_path, Path(path).stat().st_size)
    with h5py.File(path) as file, h5py.File(new_path, "w") as new:
        new.attrs.update(file.attrs)
        for name in file:
            if name != STATE_GROUP:
                file.copy(name, new)


def narrow_weights(path: str | PathLike, dtype: str) -> None:
    """Convert the tensors of a weights file to a smaller dtype, such as `"float16"`.

    The dtypes of models that load the file do not change.

    Args:
        path: the file, which is replaced completely or not at all.
        dtype: the dtype of all float tensors.

    Raises:
        UserError: if HDF5 does not support the dtype, or a weight is too large for it.
    """
    if dtype not in _FLOATS:
        raise UserError(f"`weights_dtype` must be one of {', '.join(_FLOATS)}. Received: {dtype!r}")
    with atomic_write(path) as new:
        validate_room(new, Path(path).stat().st_size)
        with h5py.File(path) as file, h5py.File(new, "w") as narrow:
            file.visititems(lambda name, item: _copy_item(narrow, name, item, dtype))
            narrow.attrs.update(file.attrs)
        write_checksum(new)


def _copy_item(narrow: h5py.File, name: str, item: h5py.Group | h5py.Dataset, dtype: str) -> None:
    if isinstance(item, h5py.Dataset):
        values = np.asarray(item)
        if values.dtype.kind == "f":
            with np.errstate(over="ignore"):
                values = values.astype(dtype)
            if not np.isfinite(values).all():
                raise UserError(f"The weight {name} is too large for {dtype}, or not a number.")
        copy = narrow.create_dataset(name, data=values)
    else:
        copy = narrow.require_group(name)
    copy.attrs.update(item.attrs)


def datasets(file: h5py.Group) -> dict[str, h5py.Dataset]:
    """Return all datasets of an open HDF5 file: name -> dataset, sorted by name."""
    found = {}
    file.visititems(
        lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None
    )
    return dict(sorted(found.items()))


def read_tensors(path: str | PathLike) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the array of each tensor in a weights file.

    Args:
        path: the file.

    Raises:
        UserError: if the file is damaged, or a weight is infinite or not a number; at the latest
            after the last tensor.
    """
    with opened(path) as file:
        for name, item in _weights(file).items():
            values = item[()]
            if not is_finite(values):
                raise UserError(
                    f"{path} is damaged, or was saved when its training had failed: weights in "
                    f"{name} are infinite or not a number."
                )
            yield name, values


def stored_shapes(path: str | PathLike) -> list[tuple[int, ...]]:
    """Return the shapes of all tensors in a weights file, without reading them."""
    with opened(path) as file:
        return [item.shape for item in _weights(file).values()]


def write_checksum(path: str | PathLike) -> None:
    """Append the checksum to a file, after all its content is written."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    with open(path, "ab") as file:
        file.write(_SEAL + digest)


def validate_checksum(path: str | PathLike) -> None:
    """Raise a `UserError` if a file has a checksum that does not match its content."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _SEAL_BYTES))
        end, digest = file.read(), hashlib.sha256()
        if not end.startswith(_SEAL):
            return
        file.seek(0)
        for start in range(0, size - _SEAL_BYTES, _CHUNK):
            digest.update(file.read(min(_CHUNK, size - _SEAL_BYTES - start)))
    if not end.endswith(digest.digest()):
        raise UserError(f"{path} is damaged: its content does not match its checksum.")


def is_finite(values: Any) -> bool:
    return np.asarray(values).dtype.kind != "f" or bool(np.isfinite(values).all())


def validate_finite(name: str, values: Any) -> None:
    if not is_finite(values):
        raise UserError(f"{name} has values that are infinite or not a number.")


def _weights(file: h5py.File) -> dict[str, h5py.Dataset]:
    """Return the datasets of an open file that are weights of the model."""
    return {x: item for x, item in datasets(file).items() if not x.startswith(f"{STATE_GROUP}/")}


@contextlib.contextmanager
def opened(path: str | PathLike) -> Iterator[h5py.File]:
    """Open a weights file, and convert h5py's errors in the block to a `UserError`."""
    try:
        validate_checksum(path)
        with h5py.File(path) as file:
            yield file
    except UserError:
        raise
    except DAMAGE as error:
        raise UserError(
            f"{path} is not a weights file, or is damaged. ({first_line(error)})"
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
