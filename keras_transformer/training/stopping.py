"""The end of a training: after its best validation, on a signal, or with other processes."""

import contextlib
import json
import logging
import math
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import keras

from keras_transformer.errors import TrainingStopped, UserError
from keras_transformer.validation import whole_number
from keras_transformer.weights.checkpoints import list_checkpoints
from keras_transformer.weights.weights_file import opened

if TYPE_CHECKING:
    from keras_transformer.training.processes import Processes
    from keras_transformer.training.stage_options import CheckpointOptions

logger = logging.getLogger(__name__)

# The requests of a process. The largest one of all processes counts.
_GO_ON, _STOP, _FAIL = range(3)

# The number of batches after which an answer is read: by then the devices have computed it.
_LATE = 2

_ATTRIBUTE = "validation"
_SMALLER_IS_BETTER = ("loss", "perplexity")
# The validation metrics that `compile_model` adds.
_OF_KERAS = ("val_loss", "val_accuracy", "val_perplexity")


def validate_choice_of_checkpoints(
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


def _read_validation(path: Path) -> dict[str, float]:
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
        history: name -> values of the earlier intervals, which a later callback adds to.
    """

    async_safe = True

    def __init__(self, name: str, patience: int, history: Mapping[str, Sequence[float]]):
        super().__init__()
        self.name = name
        self.patience = patience
        self.history = history

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        values = [*self.history.get(self.name, []), (logs or {}).get(self.name)]
        if has_ended(values, self.name, self.patience):
            logger.info(
                "No better %s in %d intervals: the training ends.", self.name, self.patience
            )
            self.model.stop_training = True


class StopRequested(Exception):
    """Raised out of `fit` after the checkpoint that `stop_soon` requests is written."""


class StopSync:
    """Synchronization that makes all processes of a training stop, or fail, after the same batch.

    If one process stopped alone, the others would wait for its part of the next batch. So at each
    batch the processes exchange their requests, by a computation on the devices between two steps.
    Nothing waits for it, because the answer is read two batches later. A single process has its
    answer immediately.

    Args:
        processes: the `Processes`.

    Attributes:
        stop_soon: set it to stop.
    """

    def __init__(self, processes: "Processes"):
        self.processes = processes
        self.stop_soon = False
        self._error = None
        self._asked = deque()

    def fail(self, error: Exception) -> None:
        """Raise an error: immediately in a single process, otherwise when all processes can."""
        if self.processes.count == 1:
            raise error
        self._error = self._error or error

    def at_batch(self) -> bool:
        """Send this process's request, and return whether to stop here.

        Raises:
            UserError: if a process has failed.
        """
        self._ask()
        late = 0 if self.processes.count == 1 else _LATE
        return len(self._asked) > late and self._take()

    def now(self) -> bool:
        """Send this process's request, wait for all answers, and return whether to stop."""
        self._ask()
        return any([self._take() for _ in range(len(self._asked))])

    def _ask(self) -> None:
        wish = _FAIL if self._error else _STOP if self.stop_soon else _GO_ON
        self._asked.append(self.processes.largest(wish))

    def _take(self) -> bool:
        wish = int(self._asked.popleft())
        if wish == _FAIL:
            self.processes.raise_together(self._error)
        return wish == _STOP


@contextlib.contextmanager
def stop_on_signals(stop_sync: StopSync, last_good: Callable[[], str]) -> Iterator[None]:
    """Within the block, let SIGTERM and Ctrl-C write a checkpoint before they end the training.

    The training stops at the end of the current batch, or of a running validation. A second signal
    ends the process immediately. A signal to one of several processes stops all.

    Args:
        stop_sync: the `StopSync` of the training in the block.
        last_good: function without arguments that returns a sentence about the last checkpoint.

    Raises:
        TrainingStopped: after a signal, once the checkpoint is written.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread can handle signals.
        return
    received, handlers, is_stopped = [], {}, False

    def handle(number: int, frame: Any) -> None:
        received.append(number)
        stop_sync.stop_soon = True
        for other in handlers:
            signal.signal(other, signal.SIG_DFL)
        # Not `print`, which the signal may have interrupted.
        name = signal.Signals(number).name
        message = f"\n{name}: writing a checkpoint. A second signal exits immediately.\n"
        os.write(2, message.encode())

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, handle)
        yield
    except StopRequested:
        is_stopped = True
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    number = int(stop_sync.processes.largest(received[0] if received else 0))
    if number:
        logger.warning("Stopped. %s", last_good())
        raise TrainingStopped(128 + number)
    if is_stopped:
        raise StopRequested
