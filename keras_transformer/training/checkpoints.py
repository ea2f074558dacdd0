"""Files of weights, and the average of several (section 6.1)."""

import contextlib
import math
import re
from pathlib import Path

import h5py
import keras
import numpy as np
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.files import check_room, whole
from keras_transformer.progress import bar
from keras_transformer.training.processes import Processes

# What a file holds besides the model's weights lies in this group: see `training_state`.
STATE_GROUP = "training_state"

# What numbers weights may be kept in: HDF5 has no bfloat16.
_FLOATS = ("float16", "float32")

# What HDF5 needs besides a tensor's values, for it and the groups that it lies in: 3 kB is usual.
_OVERHEAD = 16 * 1024


def save_weights(model, path, room_for=()):
    """Write the weights of a functional model, without the optimizer's state, to a new file.

    Args:
        model: the model.
        path: the file.
        room_for: what else will be added to the file, as arrays or variables. An `OSError` is
            raised if the disk has no room for all of it.
    """
    parts = [*model.weights, *room_for]
    # Smaller types than of 4 bytes may be held as float32.
    size = sum(math.prod(x.shape) * (8 if "64" in str(x.dtype) else 4) for x in parts)
    check_room(path, size + (1 + len(parts)) * _OVERHEAD)
    _without_optimizer(model).save_weights(path)


def load_weights(model, path, processes=None):
    """Load what `save_weights` or `save_state` wrote; the optimizer keeps its state.

    Of a model with LoRA they become the weights W, and the matrices B are set to zeros.

    Args:
        model: a functional model.
        path: the file, which process 0 reads.
        processes: the `Processes` that train the model. Defaults to this one alone.

    Raises:
        UserError: if the file is damaged, or of another model.
    """
    processes = processes or Processes()
    if processes.count == 1:
        _load(model, path)
        return
    values = processes.each(lambda: _loaded(model, path) if processes.is_writer else None)
    processes.assign(model.weights, values)


def _loaded(model, path):
    """The values that the weights of a model would have, as arrays; they keep their own."""
    # To assign to a variable of several processes, all of them must.
    with keras.StatelessScope() as scope:
        _load(model, path)
    return [ops.convert_to_numpy(scope.get_current_value(weight)) for weight in model.weights]


def _load(model, path):
    # What is saved of LoRA is merged.
    expected = sum(not weight.name.startswith("lora_") for weight in model.weights)
    # Keras passes over what the model has no layer for.
    found = _count_tensors(path)
    if found != expected:
        raise UserError(
            f"{path} is of another model: it has {found} tensors, and the model {expected}."
        )
    try:
        _without_optimizer(model).load_weights(path)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"{path} is damaged, or of another model. ({reason})") from error


def _without_optimizer(model):
    # The same layers and variables. Saved with the model, Adam's state would make the file three
    # times as large.
    return keras.Model(model.inputs, model.outputs)


def list_checkpoints(folder):
    """The checkpoints in a folder, `step-N.weights.h5`, the oldest first.

    Args:
        folder: the folder.

    Returns:
        A list of paths.
    """
    return list_by_step(folder, "weights.h5")


def list_by_step(folder, ending):
    """The files `step-N.ENDING` in a folder, by N."""
    paths = [path for path in Path(folder).glob("step-*") if step_of(path, ending)]
    return sorted(paths, key=lambda path: step_of(path, ending))


def step_of(path, ending):
    """The N of `step-N.ENDING`, or 0 if the name is another."""
    match = re.fullmatch(rf"step-(\d+)\.{re.escape(ending)}", path.name)
    return int(match[1]) if match else 0


def average_checkpoints(paths, output_path):
    """Average weights files of one model, tensor by tensor, into a new weights file.

    Args:
        paths: weights files. Of files with the whole state of a training, the weights are taken.
        output_path: the file to write: whole, or not at all.

    Raises:
        UserError: if there are none, one is damaged, or they differ in names or shapes.
    """
    paths = [Path(path) for path in paths]
    if not paths:
        raise UserError("There are no checkpoints to average.")
    sums = _read(paths[0])
    for path in bar("averaging", "checkpoints", iterable=paths[1:]):
        tensors = _read(path)
        for name in sums.keys() | tensors.keys():
            shapes = [x[name].shape if name in x else None for x in (sums, tensors)]
            if shapes[0] != shapes[1]:
                raise UserError(
                    f"{paths[0]} and {path} are of different models: {name} has the shapes "
                    f"{shapes[0]} and {shapes[1]}."
                )
        for name, tensor in tensors.items():
            sums[name] += tensor
    with whole(output_path) as new:
        copy_weights(paths[-1], new)
        with h5py.File(new, "r+") as file:
            for name, total in sums.items():
                file[name][...] = total / len(paths)


def copy_weights(path, new_path):
    """Copy a weights file, without what it holds besides."""
    check_room(new_path, Path(path).stat().st_size)
    with h5py.File(path) as file, h5py.File(new_path, "w") as new:
        new.attrs.update(file.attrs)
        for name in file:
            if name != STATE_GROUP:
                file.copy(name, new)


def narrow_weights(path, dtype):
    """Keep the tensors of a weights file in a smaller dtype, such as `"float16"`. Models that load
    it have their own dtypes as before.

    Args:
        path: the file, which is replaced: wholly, or not at all.
        dtype: the dtype of all tensors of floats.

    Raises:
        UserError: if it is no dtype of floats in HDF5, or a weight is too large for it.
    """
    if dtype not in _FLOATS:
        raise UserError(f"`weights_dtype` must be one of {', '.join(_FLOATS)}. Received: {dtype!r}")
    with whole(path) as new:
        check_room(new, Path(path).stat().st_size)
        with h5py.File(path) as file, h5py.File(new, "w") as narrow:
            file.visititems(lambda name, item: _copy_item(narrow, name, item, dtype))
            narrow.attrs.update(file.attrs)


def _copy_item(narrow, name, item, dtype):
    if isinstance(item, h5py.Dataset):
        values = np.asarray(item)
        if values.dtype.kind == "f":
            with np.errstate(over="ignore"):
                values = values.astype(dtype)
            if not np.isfinite(values).all():
                raise UserError(f"The weight {name} is too large for {dtype}, or no number.")
        copy = narrow.create_dataset(name, data=values)
    else:
        copy = narrow.require_group(name)
    copy.attrs.update(item.attrs)


def datasets(file):
    """All datasets of an open HDF5 file: name -> dataset, by name."""
    found = {}
    file.visititems(
        lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None
    )
    return dict(sorted(found.items()))


def _count_tensors(path):
    """The number of tensors of a weights file, of which none is read."""
    with _open(path) as file:
        return len(_weights(file))


def _read(path):
    """All tensors of a weights file, as float64: name -> array."""
    with _open(path) as file:
        return {name: np.asarray(item, "float64") for name, item in _weights(file).items()}


def _weights(file):
    """The datasets of an open file, but for those that are not the model's."""
    return {x: item for x, item in datasets(file).items() if not x.startswith(f"{STATE_GROUP}/")}


@contextlib.contextmanager
def _open(path):
    try:
        with h5py.File(path) as file:
            yield file
    except OSError as error:
        raise UserError(f"{path} is no weights file, or is damaged.") from error
