"""Rolling checkpoints of the weights, and their average (section 6.1)."""

import re
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_transformer.files import whole


def save_weights(model, path):
    """Write the weights of a functional model, without the optimizer's state, to a new file."""
    _without_optimizer(model).save_weights(path)


def load_weights(model, path):
    """Load what `save_weights` wrote; the optimizer keeps its state.

    Raises:
        ValueError: if the file is damaged, or of another model.
    """
    # Keras passes over what the model has no layer for.
    found, expected = len(_read(path)), len(model.weights)
    if found != expected:
        raise ValueError(
            f"{path} is of another model: it has {found} tensors, and the model {expected}."
        )
    try:
        _without_optimizer(model).load_weights(path)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} is damaged, or of another model. ({reason})") from error


def _without_optimizer(model):
    # The same layers and variables. Saved with the model, Adam's state would make the file three
    # times as large.
    return keras.Model(model.inputs, model.outputs)


class RollingCheckpoints(keras.callbacks.Callback):
    """Keep the weights of the last few epochs as `step-N.weights.h5`, each written whole.

    Checkpoints of later steps than the training's own are of an earlier training in the same
    folder, and are deleted: an average must not mix the two.

    Args:
        folder: where to write.
        keep: how many to keep.
    """

    def __init__(self, folder, keep=5):
        super().__init__()
        self.folder = Path(folder)
        self.keep = keep

    def on_train_begin(self, logs=None):
        self._delete_later_than(self._step())

    def on_epoch_end(self, epoch, logs=None):
        step = self._step()
        self._delete_later_than(step)
        with whole(self.folder / f"step-{step}.weights.h5") as path:
            save_weights(self.model, path)
        for old in list_checkpoints(self.folder)[: -self.keep]:
            old.unlink()

    def _step(self):
        return int(self.model.optimizer.iterations.numpy())

    def _delete_later_than(self, step):
        for path in list_checkpoints(self.folder):
            if _step_of(path) > step:
                path.unlink()


def list_checkpoints(folder):
    """The checkpoints in a folder, the oldest first."""
    return sorted(filter(_step_of, Path(folder).glob("step-*.weights.h5")), key=_step_of)


def _step_of(path):
    """The step in a checkpoint's name, or 0 if it is no checkpoint's name."""
    match = re.fullmatch(r"step-(\d+)\.weights\.h5", path.name)
    return int(match[1]) if match else 0


def average_checkpoints(paths, output_path):
    """Average weights files of one model, tensor by tensor, into a new weights file.

    Args:
        paths: `.weights.h5` files.
        output_path: the file to write: whole, or not at all.

    Raises:
        ValueError: if there are none, one is damaged, or they differ in names or shapes.
    """
    paths = [Path(path) for path in paths]
    if not paths:
        raise ValueError("There are no checkpoints to average.")
    sums = _read(paths[0])
    for path in paths[1:]:
        tensors = _read(path)
        for name in sums.keys() | tensors.keys():
            shapes = [x[name].shape if name in x else None for x in (sums, tensors)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"{paths[0]} and {path} are of different models: {name} has the shapes "
                    f"{shapes[0]} and {shapes[1]}."
                )
        for name, tensor in tensors.items():
            sums[name] += tensor
    with whole(output_path) as new:
        new.write_bytes(paths[-1].read_bytes())
        with h5py.File(new, "r+") as file:
            for name, total in sums.items():
                file[name][...] = total / len(paths)


def _read(path):
    """All tensors of a weights file, as float64: name -> array."""
    tensors = {}
    try:
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item: (
                    tensors.update({name: np.asarray(item, "float64")})
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
    except OSError as error:
        raise ValueError(f"{path} is no weights file, or is damaged.") from error
    return tensors
