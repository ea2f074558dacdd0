"""Checkpoints written during a training, from which it resumes exactly."""

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Any

import keras

from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write, remove_leftovers
from keras_transformer.training.processes import Processes
from keras_transformer.training.stopping import (
    StopRequested,
    StopSync,
    best_checkpoints,
    note_validation,
)
from keras_transformer.training.training_state import (
    STATE_ENDING,
    Snapshot,
    TrainingState,
    list_states,
    metric_sums,
    steps_done,
)
from keras_transformer.validation import (
    positive_integer,
    positive_number,
)
from keras_transformer.weights.checkpoints import get_step, list_by_step, list_checkpoints
from keras_transformer.weights.weights_file import copy_weights, write_checksum

# The newest state, and an earlier one in case the newest is damaged.
_STATES = 2


class RollingCheckpoints(keras.callbacks.Callback):
    """A callback that keeps the last checkpoints, and the newest state to resume from.

    A checkpoint consists of two files, each written completely or not at all: `step-N.weights.h5`,
    of which the last `keep` remain; and `step-N.state.weights.h5` with weights, optimizer, seeds
    and position in the data (`training_state`), of which the last two remain. With Adam, the state
    is three times as large as the weights. Without `every_steps` and `every_minutes`, a checkpoint
    is written at the end of each epoch. There is always one at the end of the training, which may
    consist of several `fit`.

    After an interruption in the middle of an epoch, its means, such as the loss, still cover the
    whole epoch. (TensorFlow needs `fit_in_parts` for that, which builds the metrics before `fit`.)

    Checkpoints of later steps than the current one are deleted: they belong to an earlier training
    in the same folder, or to steps after the state from which this one resumes, and must not be
    averaged with new ones.

    The training only waits until the values are copied to the host's memory. A thread writes them,
    one checkpoint at a time. Its errors are raised at the beginning of a later batch, or at the
    latest with the next checkpoint or at the end of the training.

    If several processes train together, only process 0 writes, and decides when; the others need no
    folder. They stop and fail together: an error in one process is raised in all, two batches
    later.

    Put this callback last in the list of callbacks, so that its history contains all values of an
    epoch.

    Args:
        folder: where to write.
        keep: the number of weights files to keep.
        every_steps: updates between two checkpoints.
        every_minutes: minutes between two checkpoints.
        start: the `TrainingState` that was restored. Defaults to the beginning.
        run: dict of the values that must not change when the training resumes: `TrainingState.run`.
        num_batches: the number of batches in the whole training, including those before the start.
            Defaults to the batches of `fit`.
        processes: the `Processes` that train together. Defaults to this process alone.
        best_by: keep the checkpoints of the best validations instead of the last ones, by the value
            with this name in the history.

    Attributes:
        batches: the number of batches that are done.
        history: name -> values, one per epoch of the whole training, as in Keras.
        stop_soon: set it to write a checkpoint after the next batch, and then leave `fit`.

    Raises:
        UserError: if a number is not positive; in `fit`, if a checkpoint cannot be written.
    """

    async_safe = True

    def __init__(
        self,
        folder: str | PathLike,
        keep: int = 5,
        every_steps: int | None = None,
        every_minutes: float | None = None,
        start: TrainingState | None = None,
        run: Mapping[str, Any] | None = None,
        num_batches: int | None = None,
        processes: Processes | None = None,
        best_by: str | None = None,
    ):
        super().__init__()
        positive_integer("keep", keep)
        if every_steps is not None:
            positive_integer("every_steps", every_steps)
        if every_minutes is not None:
            positive_number("every_minutes", every_minutes)
        if every_steps and every_minutes:
            raise UserError(
                "`every_steps` and `every_minutes` must not both be set. Received: "
                f"every_steps={every_steps}, every_minutes={every_minutes}"
            )
        self.folder = Path(folder)
        self.keep = keep
        self.every_steps = every_steps
        self.every_minutes = every_minutes
        self.start = start or TrainingState()
        self.run = run or {}
        self.num_batches = num_batches
        self.processes = processes or Processes()
        self.best_by = best_by
        self.batches = self.start.batches
        self.history = {name: [*values] for name, values in self.start.history.items()}
        self.stop_sync = StopSync(self.processes)
        self._began = self._last_time = time.monotonic()
        self._last_step = self.start.step
        self._counted = (self.start.step, self.start.batches)
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    @property
    def stop_soon(self) -> bool:
        return self.stop_sync.stop_soon

    @stop_soon.setter
    def stop_soon(self, value: bool) -> None:
        self.stop_sync.stop_soon = value

    @property
    def seconds(self) -> float:
        """The time of training so far, including the time before the start."""
        return self.start.seconds + time.monotonic() - self._began

    def fail(self, error: Exception) -> None:
        """Raise an error out of `fit`: immediately, or when all processes can raise it together.

        Args:
            error: the exception.
        """
        self.stop_sync.fail(error)

    def last_good(self) -> str:
        """Return a sentence about the last good checkpoint, after the current one is written."""
        if not self.processes.is_writer:
            return "Process 0 has the checkpoints."
        if self._writing:
            with contextlib.suppress(UserError):
                self.wait()
        return self._last_written()

    def wait(self) -> None:
        """Wait until the checkpoint that is being written, if any, is complete.

        Raises:
            UserError: if it could not be written.
        """
        if self._writing:
            writing, self._writing = self._writing, None
            writing.result()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.processes.each(self._prepare)
        self._batches_at_once = self.model.steps_per_execution
        # Continue Keras's own history too: `fit` returns it.
        self.model.history.history = {name: [*x] for name, x in self.history.items()}

    def _prepare(self) -> None:
        if self.processes.is_writer:
            self.wait()
            remove_leftovers(self.folder)
            self._delete_later_than(self._count_updates())

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._first_batch = self.batches
        if self.batches == self.start.batches:
            self.start.restore_metrics(self.model, self.processes)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Not in `on_train_batch_end`, when the next batch may have begun.
        self._consumed(batch)
        if batch:  # otherwise nothing has changed since the last epoch
            stop = self.stop_sync.at_batch()
            self._save_if(self.processes.is_writer and self._is_due(), stop)
        self._begun = batch

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        # If a process has failed, there is no validation.
        self.stop_soon |= self.stop_sync.now()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        consumed = self._begun + self._batches_at_once
        # If the dataset ended, the last execution may have had fewer batches.
        self._consumed(min(consumed, self.params["steps"] or consumed))
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)
        self._begun = None
        of_epochs = self.every_steps is None and self.every_minutes is None
        is_last = self._is_last(epoch)
        stop = self.stop_sync.now()
        is_due = of_epochs or is_last or (self.processes.is_writer and self._is_due())
        self._save_if(is_due, stop, and_wait=is_last)

    def _consumed(self, of_epoch: int) -> None:
        self.batches = self._first_batch + of_epoch

    def _is_last(self, epoch: int) -> bool:
        if self.model.stop_training:
            return True
        if self.num_batches is None:
            return epoch + 1 == self.params["epochs"]
        return self.batches == self.num_batches

    def _save_if(self, is_due: bool, stop: bool, and_wait: bool = False) -> None:
        """Write a checkpoint if one is due or all processes are to stop, and then stop."""

        def save() -> None:
            if self._writing and self._writing.done():
                self.wait()
            if self.processes.is_writer and (is_due or stop):
                self._save(to_average=is_due)
            if stop or and_wait:
                self.wait()

        if stop or and_wait:
            self.processes.each(save)
        else:
            self._or_fail(save)
        if stop:
            raise StopRequested

    def _or_fail(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            self.fail(error)

    def _is_due(self) -> bool:
        if self.every_steps:
            step, batches = self._counted
            # There are at most as many updates as batches: until enough batches are done, the
            # device is not asked.
            if self._is_passed(step + self.batches - batches, self.every_steps):
                return self._is_passed(self._count_updates(), self.every_steps)
        if self.every_minutes:
            return time.monotonic() - self._last_time >= 60 * self.every_minutes
        return False

    def _is_passed(self, step: int, every_steps: int) -> bool:
        # Count multiples, so that it makes no difference where the training was resumed.
        return step // every_steps > self._last_step // every_steps

    def _count_updates(self) -> int:
        step = steps_done(self.model)
        self._counted = (step, self.batches)
        return step

    def _save(self, to_average: bool) -> None:
        self.wait()  # Hold only one snapshot in memory.
        step = self._count_updates()
        snapshot = Snapshot(
            self.model,
            step=step,
            batches=self.batches,
            seconds=self.seconds,
            history=self.history,
            run=self.run,
            # After an epoch, the metrics have the sums of its validation.
            metric_sums=[] if self._begun is None else metric_sums(self.model),
        )
        validation = {name: values[-1] for name, values in self.history.items()}
        self._writing = self._writer.submit(self._write, snapshot, step, to_average, validation)
        if to_average:
            self._last_step, self._last_time = step, time.monotonic()

    def _write(
        self, snapshot: Snapshot, step: int, to_average: bool, validation: Mapping[str, float]
    ) -> None:
        try:
            self._write_files(snapshot, step, to_average, validation)
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(
                f"Cannot write the checkpoint of step {step}: {_reason(error)} "
                f"{self._last_written()}"
            ) from error
        kept = list_checkpoints(self.folder)[-self.keep :]
        if self.best_by:
            kept = best_checkpoints(self.folder, self.best_by, self.keep)
        for old in [
            *(path for path in list_checkpoints(self.folder) if path not in kept),
            *list_states(self.folder)[:-_STATES],
        ]:
            old.unlink()

    def _write_files(
        self, snapshot: Snapshot, step: int, to_average: bool, validation: Mapping[str, float]
    ) -> None:
        with atomic_write(self.folder / f"step-{step}.{STATE_ENDING}") as state:
            snapshot.write(state)
            if to_average:
                # Write the weights before the state is in place: a training that is killed here
                # resumes from an earlier state and writes these weights again. In the other order
                # they would be missing.
                with atomic_write(self.folder / f"step-{step}.weights.h5") as weights:
                    copy_weights(state, weights)
                    note_validation(weights, validation)
                    write_checksum(weights)

    def _last_written(self) -> str:
        states = list_states(self.folder)
        return f"The last good checkpoint is {states[-1]}." if states else "There is no checkpoint."

    def _delete_later_than(self, step: int) -> None:
        for ending in ("weights.h5", STATE_ENDING):
            for path in list_by_step(self.folder, ending):
                if get_step(path, ending) > step:
                    path.unlink()


def _reason(error: Exception) -> str:
    # HDF5 describes a full disk in several lines.
    system = re.search("error message = '(.*?)'", str(error))
    reason = system[1] if system else getattr(error, "strerror", None) or str(error).strip()
    reason = reason.splitlines()[0]
    return f"{reason.removesuffix('.')}."
