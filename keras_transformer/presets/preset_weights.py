"""A preset's weights: one file; or several and a list of what is in which, as KerasHub writes of a
model of more than 10 GB.
"""

import re

import keras

from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.presets.preset_files import CONFIG, SHARDS, WEIGHTS, check_is_there
from keras_transformer.training.checkpoints import (
    DAMAGE,
    checked_tensors,
    count_weights,
    load_weights,
)
from keras_transformer.training.cost import least_parameters

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


def check_size(path, hyperparameters):
    """Compare the model that a preset describes with its weights, before it takes memory.

    Args:
        path: the preset folder.
        hyperparameters: dict of the arguments of `Transformer`, as they stand in the preset.

    Raises:
        UserError: if the model has more weights than the files, or a file is damaged.
    """
    least = least_parameters(hyperparameters)
    name, *shards = weights_files(path)
    found = sum(count_weights(path / file) for file in shards or [name])
    if least > found:
        raise UserError(
            f"{path / CONFIG} and {name} do not belong together: the model has at least {least:,} "
            f"weights, and the file {found:,}."
        )


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
        found = sum(1 for shard in shards for _ in checked_tensors(path / shard))
        if found != len(model.weights):
            raise ValueError(f"They have {found} tensors, and the model {len(model.weights)}.")
        # The same layers and variables, without whatever class the model is of.
        keras.Model(model.inputs, model.outputs).load_weights(path / name)
    except DAMAGE as error:
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
