"""Keras callbacks of a training.

On JAX and PyTorch, if all callbacks are `async_safe`, Keras calls `on_train_batch_end` in a thread,
in any order, while the device continues with the next batches. In the middle of an epoch
`self.model` waits for the device there, and tensors of an earlier batch no longer exist. So the
callbacks here count in Python. Work that needs the model is done in `on_train_batch_begin`, which
Keras calls in order, and only if there is something to do.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_transformer.data.batching import TokenBatches
from keras_transformer.errors import UserError
from keras_transformer.training.rolling_checkpoints import RollingCheckpoints
from keras_transformer.training.training_state import steps_done

# If a step fails, its end is not reported, and Keras raises the error at the next batch.
_LONGEST_WAIT = 60.0

# TensorFlow runs one graph with batches of all shapes, after seconds of tracing. Compiling XLA's
# program for one shape takes as long as training 40 batches of `tiny` on two CPU cores, and then
# saves a fifth of a batch or less. So this many batches per shape are trained first: by then, the
# time lost equals the cost of compiling, whenever the training ends (the rent-or-buy problem).
_BATCHES_PER_PROGRAM = 200


class LimitInFlightBatches(keras.callbacks.Callback):
    """A callback that starts a batch, or execution, only when the last but one has ended.

    The device still has enough to do, and stopping a training does not wait for the dozens of steps
    that a backend would accept.
    """

    async_safe = True

    def __init__(self):
        super().__init__()
        self._begun = 0
        self._ended = threading.Semaphore(0)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._begun = 0
        self._ended = threading.Semaphore(0)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._begun += 1
        if self._begun > 2:
            self._ended.acquire(timeout=_LONGEST_WAIT)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._ended.release()


class StopOnNonFinite(keras.callbacks.Callback):
    """A callback that ends the training with an error if the loss is infinite or not a number.

    Args:
        batches: the `TokenBatches` of the training.
        checkpoints: its `RollingCheckpoints`, later in the list of callbacks.

    Raises:
        UserError: with the step, the batch's sentence pairs and the last good checkpoint.
    """

    async_safe = True

    def __init__(self, batches: TokenBatches, checkpoints: RollingCheckpoints):
        super().__init__()
        self.batches = batches
        self.checkpoints = checkpoints
        self._losses = {}  # batch -> loss
        self._next = 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._first = self.checkpoints.batches
        self._losses, self._next = {}, 0

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._losses[batch] = (logs or {}).get("loss", 0.0)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._look()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._look()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._look()

    def _look(self) -> None:
        # In order: the loss is a mean over the epoch, which the first non-finite value spoils.
        while self._next in self._losses:
            loss = self._losses.pop(self._next)
            if not np.isfinite(loss):
                message = self._message(loss, self._first + self._next)
                self.checkpoints.fail(UserError(message))
                return
            self._next += 1

    def _message(self, loss: float, batch: int) -> str:
        pairs = sorted(self.batches.pairs_of_step(batch).tolist())
        numbers = ", ".join(str(pair + 1) for pair in pairs)
        step = batch // self.batches.accumulate + 1
        return (
            f"The loss is {loss} at step {step}. The batch holds the sentence pairs {numbers} of "
            "the training text, counted from 1 after filtering. "
            f"{self.checkpoints.last_good()}"
        )


class TensorBoard(keras.callbacks.Callback):
    """A callback that writes each epoch's logs for TensorBoard, under the names that Keras uses.

    The horizontal axis counts updates.

    Keras's own callback imports TensorFlow on every backend, which takes seconds, and works at each
    batch.

    Args:
        folder: folder of the log. It gets the subfolders `train` and `validation`.
    """

    def __init__(self, folder: Path):
        super().__init__()
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self._files = {split: folder / split / name for split in ("train", "validation")}

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        of_split: dict[str, dict[str, float]] = {"train": {}, "validation": {}}
        for name, value in (logs or {}).items():
            split = "validation" if name.startswith("val_") else "train"
            of_split[split][name.removeprefix("val_")] = float(value)
        step = steps_done(self.model)
        for split, values in of_split.items():
            self._write(split, step, values)

    def _write(self, split: str, step: int, logs: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        path, now = self._files[split], time.time()
        values = [Summary.Value(tag=f"epoch_{name}", simple_value=x) for name, x in logs.items()]
        events = [Event(wall_time=now, step=step, summary=Summary(value=values))]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            events.insert(0, Event(wall_time=now, file_version="brain.Event:2"))
        with path.open("ab") as file:
            writer = RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())


class LogScore(keras.callbacks.Callback):
    """A callback that adds the result of a function to each epoch's logs.

    Args:
        name: the name in the logs, such as `"val_bleu"`.
        score: function without arguments that returns a number.
    """

    def __init__(self, name: str, score: Callable[[], float]):
        super().__init__()
        self.name = name
        self.score = score

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs[self.name] = self.score()


def xla_pays(model: keras.Model) -> bool:
    """Return whether XLA's programs are faster in the end, on TensorFlow.

    They are not in bfloat16 on a CPU: TensorFlow multiplies such matrices with the CPU's own
    instructions, and XLA converts them to float32.

    Args:
        model: the model that is trained.
    """
    import tensorflow as tf

    in_bfloat16 = model.dtype_policy.compute_dtype == "bfloat16"
    return not in_bfloat16 or bool(tf.config.list_logical_devices("GPU"))


def first_compiled_batch(num_shapes: int, num_batches: int) -> int | None:
    """Return the first batch to be compiled, or None if the training is too short to compile.

    Args:
        num_shapes: the number of batch shapes.
        num_batches: the number of batches in the whole training.
    """
    first = _BATCHES_PER_PROGRAM * num_shapes
    return first if num_batches >= 2 * first else None


class CompileLater(keras.callbacks.Callback):
    """A callback that lets XLA compile the rest of a training, starting with a given batch.

    The batch does not depend on interruptions of the training, because the two programs round
    differently.

    Args:
        first_batch: the first batch to be compiled, counted over the whole training.
        num_done: the number of batches that are already done.
    """

    async_safe = True

    def __init__(self, first_batch: int, num_done: int = 0):
        super().__init__()
        self._left = first_batch - num_done

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._left <= 0 and not self.model.jit_compile:
            self.model.jit_compile = True
            self.model.make_train_function(force=True)
        self._left -= 1
