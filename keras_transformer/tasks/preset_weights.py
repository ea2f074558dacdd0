"""A preset's weights: one file; or several and a list of what is in which, as KerasHub writes of a
model of more than 10 GB.
"""

import re

import h5py
import keras

from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.tasks.preset_files import SHARDS, WEIGHTS, check_is_there
from keras_transformer.training.checkpoints import datasets, load_weights

# The names that Keras gives them: no others are opened.
_SHARD = re.compile(r"model_\d+\.weights\.h5")


def weights_files(path):
    """The names of the files that hold a preset's weights.

    Args:
        path: the preset folder.

    Returns:
        A list of names: one file, or the list of several, and these.

    Raises:
        UserError: if one is missing, or the list is damaged.
    """
    if (path / WEIGHTS).is_file() or not (path / SHARDS).is_file():
        check_is_there(path, WEIGHTS)
        return [WEIGHTS]
    shards = _shards(path / SHARDS)
    for name in shards:
        check_is_there(path, name)
    return [SHARDS, *shards]


def load_preset_weights(model, path, processes=None):
    """Give a functional model the weights of a preset.

    Args:
        model: the model.
        path: the preset folder.
        processes: the `Processes` that train the model, of which process 0 reads a single file, and
            all read several. Defaults to this one alone.

    Raises:
        UserError: if a file is missing or damaged, or of another model.
    """
    name, *shards = weights_files(path)
    if not shards:
        load_weights(model, path / name, processes)
        return
    try:
        # Keras passes over what the model has no layer for.
        found = sum(_count_tensors(path / shard) for shard in shards)
        if found != len(model.weights):
            raise ValueError(f"They have {found} tensors, and the model {len(model.weights)}.")
        # The same layers and variables, without whatever class the model is of.
        keras.Model(model.inputs, model.outputs).load_weights(path / name)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"{path / name}, or one of the files that it lists, is damaged or of another model. "
            f"({reason})"
        ) from error


def _shards(path):
    """The names of the files that a list of weights names."""
    values = read_json(path)
    places = values.get("weight_map") if isinstance(values, dict) else None
    places = places.values() if isinstance(places, dict) else []
    names = {name for x in places for name in (x if isinstance(x, list) else [x])}
    if not names or not all(isinstance(name, str) and _SHARD.fullmatch(name) for name in names):
        raise UserError(f"{path} is damaged: it lists no files of weights in its folder.")
    return sorted(names)


def _count_tensors(path):
    with h5py.File(path) as file:
        return len(datasets(file))
