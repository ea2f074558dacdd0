"""The weights of a model folder: one file, or several shards of a large model."""

import re
from pathlib import Path

import keras

from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.weights.weights_file import (
    DAMAGE,
    first_line,
    load_weights,
    read_tensors,
    stored_shapes,
)

WEIGHTS = "model.weights.h5"
"""The name of the single file."""
SHARDS = "model.weights.json"
"""The list of several files. KerasHub writes one for more than 10 GB of weights."""
# The names that Keras gives to the shards. No others are opened.
_SHARD = re.compile(r"model_\d+\.weights\.h5")


def require_file(folder: Path, name: str) -> None:
    """Raise a `UserError` if a file of a model folder is missing."""
    if not (folder / name).is_file():
        raise UserError(
            f"{name} is missing in the model folder {folder}. Copy the folder again, or train the "
            "model again."
        )


def weights_files(folder: Path) -> list[Path]:
    """Return the files that hold the weights of a model folder.

    Args:
        folder: the folder.

    Returns:
        A list of the single file, or of the shards.

    Raises:
        UserError: if a file is missing, or the list of the shards is damaged.
    """
    names = [WEIGHTS]
    if not (folder / WEIGHTS).is_file() and (folder / SHARDS).is_file():
        names = _shards(folder / SHARDS)
    for name in names:
        require_file(folder, name)
    return [folder / name for name in names]


def load_folder_weights(model: keras.Model, folder: Path) -> None:
    """Load the weights of a model folder into a functional model.

    Args:
        model: the model.
        folder: the folder.

    Raises:
        UserError: if a file is missing or damaged, or belongs to another model.
    """
    files = weights_files(folder)
    if files == [folder / WEIGHTS]:
        load_weights(model, *files)
        return
    try:
        # Keras ignores weights that the model has no layer for.
        found = sum(1 for shard in files for _ in read_tensors(shard))
        if found != len(model.weights):
            raise ValueError(f"The files have {found} tensors, and the model {len(model.weights)}.")
        # A plain model with the same layers, since its own class may load otherwise.
        keras.Model(model.inputs, model.outputs).load_weights(folder / SHARDS)
    except DAMAGE as error:
        raise UserError(
            f"{folder / SHARDS}, or a file that it lists, is damaged or belongs to another model. "
            f"({first_line(error)})"
        ) from error


def folder_shapes(folder: Path) -> list[tuple[int, ...]]:
    """Return the shapes of all tensors in the weights of a model folder, without reading them."""
    return [shape for path in weights_files(folder) for shape in stored_shapes(path)]


def _shards(path: Path) -> list[str]:
    """Return the names of the files in a list of shards."""
    values = read_json(path)
    places = values.get("weight_map") if isinstance(values, dict) else None
    places = places.values() if isinstance(places, dict) else []
    names = {name for x in places for name in (x if isinstance(x, list) else [x])}
    if not names or not all(isinstance(name, str) and _SHARD.fullmatch(name) for name in names):
        raise UserError(f"{path} is damaged: it must list files of weights in its folder.")
    return sorted(names)
