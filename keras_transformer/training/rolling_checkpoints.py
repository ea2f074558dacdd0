"""Write checkpoints while training, so that it can be stopped, or killed, and go on exactly."""

import contextlib
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import keras

from keras_transformer.files import remove_leftovers, whole
from keras_transformer.training.callbacks import steps_done
from keras_transformer.training.checkpoints import (
    copy_weights,
    list_by_step,
    list_checkpoints,
    step_of,
)
from keras_transformer.training.training_state import (
    STATE_ENDING,
    TrainingState,
    add_metric_sums,
    list_states,
    save_state,
)

# The newest, and one to fall back on should it be damaged.
_STATES = 2


class TrainingStopped(Exception):
    """Raised out of `fit` once the checkpoint that `stop_soon` asks for is written."""


class RollingCheckpoints(keras.callbacks.Callback):
    """Keep the weights of the last few checkpoints to average, and the newest state to resume.

    A checkpoint is two files, each written whole: `step-N.weights.h5`, of which the last `keep`
    stay; and `step-N.state.weights.h5`, with weights, optimizer, seeds and position in the data
    (`training_state`), with Adam three times as large, of which the last two stay. Without
    `every_steps` and `every_minutes` there is one at the end of each epoch; in any case there is
    one at the end of the training.

    Checkpoints of later steps than the training's own are of an earlier training in the same
    folder, or beyond the state that this one goes on from, and are deleted: an average must not mix
    the two.

    Put it last in the list of callbacks, so that the history that it keeps has all values of an
    epoch, and after `StopAtStep`, which ends epochs.

    Args:
        folder: where to write.
        keep: how many to keep.
        every_steps: updates between two checkpoints.
        every_minutes: minutes between two checkpoints.
        start: the `TrainingState` that the model was restored from. Defaults to the beginning.
        run: dict of what must not change when the training goes on: `TrainingState.run`.
    """

    def __init__(self, folder, keep=5, every_steps=None, every_minutes=None, start=None, run=None):
        super().__init__()
        intervals = {"keep": keep, "every_steps": every_steps, "every_minutes": every_minutes}
        for name, value in intervals.items():
            if value is not None and value <= 0:
                raise ValueError(f"`{name}` must be positive. Received: {name}={value}")
        if every_steps and every_minutes:
            raise ValueError("Pass `every_steps` or `every_minutes`, not both.")
        self.folder = Path(folder)
        self.keep = keep
        self.every_steps = every_steps
        self.every_minutes = every_minutes
        self.start = start or TrainingState()
        self.run = run or {}
        self.batches = self.start.batches
        self.history = {name: [*values] for name, values in self.start.history.items()}
        self.stop_soon = False
        self._metric_sums = self.start.metric_sums()  # those not restored yet
        self._begin_count()

    @property
    def seconds(self):
        """The time of training so far, that before the start included."""
        return self.start.seconds + time.monotonic() - self._began

    def last_good(self):
        """Words that say where the training can go on from."""
        states = list_states(self.folder)
        return f"The last good checkpoint is {states[-1]}." if states else "There is no checkpoint."

    def on_train_begin(self, logs=None):
        remove_leftovers(self.folder)
        self._delete_later_than(steps_done(self.model))
        # Keras's own history goes on too: it is what `fit` returns.
        self.model.history.history = {name: [*x] for name, x in self.history.items()}
        self._begin_count()

    def on_train_batch_begin(self, batch, logs=None):
        # Where it can be before the batch: XLA may add a product to a sum and round only once.
        self._restore_metrics()
        self.batches += 1

    def on_train_batch_end(self, batch, logs=None):
        self._restore_metrics()
        # At the end of an epoch, after the validation.
        if self.model.stop_training or batch + 1 == self.params["steps"]:
            return
        if self._is_due():
            self._save(within_epoch=True)
        elif self.stop_soon:
            self._save(within_epoch=True, to_average=False)
        self._stop_if_asked()

    def on_epoch_end(self, epoch, logs=None):
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)
        of_epochs = self.every_steps is None and self.every_minutes is None
        is_last = self.model.stop_training or epoch + 1 == (self.params or {}).get("epochs")
        if of_epochs or is_last or self._is_due():
            self._save()
        elif self.stop_soon:
            self._save(to_average=False)
        self._stop_if_asked()

    def _restore_metrics(self):
        if self._metric_sums:
            self._metric_sums = add_metric_sums(self.model, self._metric_sums)

    def _begin_count(self):
        self._began = time.monotonic()
        self._last_time = self._began
        self._last_step = self.start.step

    def _is_due(self):
        if self.every_steps:
            # Whenever another multiple has been passed, wherever the training was resumed.
            return steps_done(self.model) // self.every_steps > self._last_step // self.every_steps
        if self.every_minutes:
            return time.monotonic() - self._last_time >= 60 * self.every_minutes
        return False

    def _save(self, within_epoch=False, to_average=True):
        step = steps_done(self.model)
        facts = {"step": step, "batches": self.batches, "seconds": self.seconds}
        try:
            with whole(self.folder / f"step-{step}.{STATE_ENDING}") as state:
                save_state(
                    self.model, state, within_epoch, history=self.history, run=self.run, **facts
                )
                if to_average:
                    # Before the state is in place: a training that is killed here goes on from an
                    # earlier one, and writes these weights again. The other way they would miss.
                    with whole(self.folder / f"step-{step}.weights.h5") as weights:
                        copy_weights(state, weights)
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"No checkpoint could be written at step {step}: {_reason(error)} "
                f"{self.last_good()}"
            ) from error
        for old in [
            *list_checkpoints(self.folder)[: -self.keep],
            *list_states(self.folder)[:-_STATES],
        ]:
            old.unlink()
        if to_average:
            self._last_step, self._last_time = step, time.monotonic()

    def _stop_if_asked(self):
        if self.stop_soon:
            raise TrainingStopped

    def _delete_later_than(self, step):
        for ending in ("weights.h5", STATE_ENDING):
            for path in list_by_step(self.folder, ending):
                if step_of(path, ending) > step:
                    path.unlink()


@contextlib.contextmanager
def stop_on_signals(checkpoints, command):
    """Within the block, let SIGTERM and Ctrl-C write a checkpoint before they end the process.

    The training stops at the end of the current batch, or of a validation that is on its way; a
    second signal ends the process at once. The exit status is 128 + the signal's number.

    Args:
        checkpoints: the `RollingCheckpoints` of the training in the block.
        command: the command that goes on, to be shown.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread can handle signals.
        return
    received, handlers = [], {}

    def handle(number, frame):
        received.append(number)
        checkpoints.stop_soon = True
        for other in handlers:
            signal.signal(other, signal.SIG_DFL)
        # Not `print`, in the middle of which the signal may have come.
        name = signal.Signals(number).name
        os.write(2, f"\n{name}: writing a checkpoint. Once more ends at once.\n".encode())

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, handle)
        yield
    except TrainingStopped:
        if not received:
            raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        print(f"Stopped. {checkpoints.last_good()} Go on with: {command}", file=sys.stderr)
        raise SystemExit(128 + received[0])


def _reason(error):
    # HDF5 writes of a full disk at length, in several lines.
    system = re.search("error message = '(.*?)'", str(error))
    reason = system[1] if system else str(error).strip().splitlines()[0]
    return f"{reason.removesuffix('.')}."
