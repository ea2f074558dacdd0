"""Decisions by validation: which checkpoints become the model, and when a training ends."""

import json
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import keras

from keras_transformer.errors import UserError
from keras_transformer.validation import whole_number
from keras_transformer.weights.checkpoints import list_checkpoints
from keras_transformer.weights.weights_file import opened

if TYPE_CHECKING:
    from keras_transformer.training.options import CheckpointOptions
    from keras_transformer.training.rolling_checkpoints import RollingCheckpoints

logger = logging.getLogger(__name__)

_ATTRIBUTE = "validation"
_SMALLER_IS_BETTER = ("loss", "perplexity")
# The validation metrics that `compile_model` adds.
_OF_KERAS = ("val_loss", "val_accuracy", "val_perplexity")


def check_choice_of_checkpoints(
    options: "CheckpointOptions", scores: Collection[str] | None, uses_ema: bool
) -> None:
    """Raise a `UserError` if `CheckpointOptions` ask for a choice that validation cannot make.

    Args:
        options: the `CheckpointOptions`.
        scores: names of the values computed at each interval in addition to loss, accuracy and
            perplexity. None allows any name.
        uses_ema: whether the model is a moving average of the weights.
    """
    whole_number("patience", options.patience)
    name = options.keep_best
    if name is None:
        return
    names = (*_OF_KERAS, *(scores or ()))
    if scores is not None and name not in names:
        raise UserError(
            f"`keep_best` must be one of {', '.join(names)}. Received: keep_best={name!r}"
        )
    if options.checkpoint_steps or options.checkpoint_minutes:
        raise UserError(
            "`checkpoint_steps` and `checkpoint_minutes` must not be set with `keep_best`, which "
            "chooses among the checkpoints of validations."
        )
    if uses_ema:
        raise UserError(
            "`keep_best` and `ema` must not both be set: one chooses checkpoints, and the other "
            "averages all steps."
        )


def merit(name: str, value: float | None) -> float:
    """Return a number that is larger for a better value of the history."""
    if value is None or not math.isfinite(value):
        return -math.inf
    return -value if name.endswith(_SMALLER_IS_BETTER) else value


def note_validation(path: str | PathLike, values: Mapping[str, float]) -> None:
    """Write the values of a validation, by name, into a weights file without a checksum."""
    with h5py.File(path, "r+") as file:
        file.attrs[_ATTRIBUTE] = json.dumps(values)


def best_checkpoints(folder: str | PathLike, name: str, count: int) -> list[Path]:
    """Return the checkpoints of the best validations, oldest first.

    Of equal ones, the later is better.

    Args:
        folder: the folder.
        name: name of the value, such as `"val_loss"`.
        count: the number of checkpoints.
    """
    paths = list_checkpoints(folder)
    merits = [merit(name, _read_validation(path).get(name)) for path in paths]
    order = sorted(range(len(paths)), key=lambda i: (merits[i], i), reverse=True)
    return [paths[i] for i in sorted(order[:count])]


def _read_validation(path):
    with opened(path) as file:
        return dict(json.loads(file.attrs.get(_ATTRIBUTE, "{}")))


def has_ended(values: Sequence[float | None], name: str, patience: int) -> bool:
    """Return whether the last `patience` values of a history are not better than an earlier one.

    Args:
        values: list of the values.
        name: name of the values.
        patience: the number of intervals to wait. 0 waits forever.
    """
    if not patience or len(values) <= patience:
        return False
    merits = [merit(name, value) for value in values]
    return max(merits[-patience:]) <= max(merits[:-patience])


class StopEarly(keras.callbacks.Callback):
    """A callback that ends the training if validation has not improved for some intervals.

    Args:
        name: name of the value in the logs, such as `"val_loss"`.
        patience: the number of intervals.
        checkpoints: the `RollingCheckpoints`, later in the list of callbacks, whose history begins
            with the training.
    """

    async_safe = True

    def __init__(self, name: str, patience: int, checkpoints: "RollingCheckpoints"):
        super().__init__()
        self.name = name
        self.patience = patience
        self.checkpoints = checkpoints

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        values = [*self.checkpoints.history.get(self.name, []), (logs or {}).get(self.name)]
        if has_ended(values, self.name, self.patience):
            logger.info(
                "No better %s in %d intervals: the training ends.", self.name, self.patience
            )
            self.model.stop_training = True
