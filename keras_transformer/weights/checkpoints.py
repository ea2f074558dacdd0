"""The checkpoints of a training in a folder, and their average (section 6.1)."""

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

import h5py
import numpy as np

from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write
from keras_transformer.progress import bar
from keras_transformer.weights.weights_file import (
    DAMAGE,
    copy_weights,
    first_line,
    read_tensors,
    write_checksum,
)


def list_checkpoints(folder: str | PathLike) -> list[Path]:
    """Return the checkpoints in a folder, `step-N.weights.h5`, oldest first.

    Args:
        folder: the folder.

    Returns:
        A list of paths.
    """
    return list_by_step(folder, "weights.h5")


def list_by_step(folder: str | PathLike, ending: str) -> list[Path]:
    """Return the files `step-N.ENDING` in a folder, sorted by N."""
    paths = [path for path in Path(folder).glob("step-*") if get_step(path, ending)]
    return sorted(paths, key=lambda path: get_step(path, ending))


def get_step(path: Path, ending: str) -> int:
    """Return the N of `step-N.ENDING`, or 0 if the file has another name."""
    match = re.fullmatch(rf"step-(\d+)\.{re.escape(ending)}", path.name)
    return int(match[1]) if match else 0


def average_checkpoints(paths: Iterable[str | PathLike], output_path: str | PathLike) -> None:
    """Average weights files of one model, tensor by tensor, into a new weights file.

    Args:
        paths: weights files. From files with the whole state of a training, only the weights are
            read.
        output_path: the new file, which is written completely or not at all.

    Raises:
        UserError: if there are no files, one is damaged, or names or shapes differ.
    """
    paths = [Path(path) for path in paths]
    if not paths:
        raise UserError("`paths` must contain at least one checkpoint. Received: paths=[]")
    sums = _tensors(paths[0])
    for path in bar("averaging", "checkpoints", iterable=paths[1:]):
        tensors = _tensors(path)
        for name in sums.keys() | tensors.keys():
            shapes = [x[name].shape if name in x else None for x in (sums, tensors)]
            if shapes[0] != shapes[1]:
                raise UserError(
                    f"{paths[0]} and {path} must be checkpoints of the same model. Received: the "
                    f"shapes {shapes[0]} and {shapes[1]} for {name}"
                )
        for name, tensor in tensors.items():
            sums[name] += tensor
    with atomic_write(output_path) as new:
        try:
            copy_weights(paths[-1], new)
        except DAMAGE as error:
            if getattr(error, "errno", None):
                raise  # a full disk
            raise UserError(f"{paths[-1]} is damaged. ({first_line(error)})") from error
        with h5py.File(new, "r+") as file:
            for name, total in sums.items():
                file[name][...] = total / len(paths)
        write_checksum(new)


def _tensors(path: Path) -> dict[str, np.ndarray]:
    """Return all tensors of a weights file as float64: name -> array."""
    return {name: np.asarray(values, "float64") for name, values in read_tensors(path)}
