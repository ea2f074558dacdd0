"""Keras callbacks of a training.

On JAX and PyTorch, Keras calls `on_train_batch_end` in a thread, in no certain order, while the
device goes on with the next batches, if all callbacks are `async_safe`. In the middle of an epoch
`self.model` waits for the device there, and tensors of an earlier batch are gone. So the callbacks
here count in Python; what needs the model is done in `on_train_batch_begin`, which Keras calls in
order, and only where there is something to do."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import keras
import numpy as np
from keras import ops

from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from keras_transformer.training.rolling_checkpoints import RollingCheckpoints

# Should a step fail, its end is never told, and Keras raises the error at the next batch.
_LONGEST_WAIT = 60.0

# TensorFlow runs one graph with batches of all shapes, after seconds of tracing. XLA's program for
# one shape takes as long to compile as 40 batches of `tiny` take to train on two CPU cores, and
# then saves a fifth of a batch or less. So many batches a shape go first: what has been lost by
# then is what compiling costs, whenever the training ends (the rent-or-buy problem).
_BATCHES_PER_PROGRAM = 200


class PlannedBatches(Protocol):
    """The planned batches of a training, such as `TokenBatches` or `StagedBatches`."""

    accumulate: int
    shapes: np.ndarray

    def pairs_of_step(self, step: int) -> np.ndarray: ...

    def stream(self, start_step: int = 0) -> Any: ...

    def epochs(self, steps: int) -> float: ...

    def passes(self, steps: int) -> Sequence[tuple[Any, float]]: ...

    def target_tokens(self, steps: int) -> float: ...


class LimitInFlightBatches(keras.callbacks.Callback):
    """Let Keras begin no batch (or execution of several) before the last but one has ended.

    The device has enough to do then, and whoever stops a training does not wait for the dozens of
    steps that a backend would accept.
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
    """End the training with an error when the loss is infinite or not a number.

    Args:
        batches: the `TokenBatches` of the training.
        checkpoints: its `RollingCheckpoints`, later in the list of callbacks.

    Raises:
        UserError: with the step, the batch's sentence pairs and the last good checkpoint; with
            those of all batches of an execution, where Keras makes several at once
            (`steps_per_execution`) and tells the loss after the last.
    """

    async_safe = True

    def __init__(self, batches: PlannedBatches, checkpoints: "RollingCheckpoints"):
        super().__init__()
        self.batches = batches
        self.checkpoints = checkpoints
        self._losses = {}  # by the last batch of an execution
        self._next = 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._first = self.checkpoints.batches
        self._at_once = self.model.steps_per_execution
        self._losses, self._next = {}, self._at_once - 1

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._losses[batch] = (logs or {}).get("loss", 0.0)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._look()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._look()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._look()

    def _look(self):
        # One after the other: of a mean over the epoch, the first that is not finite spoils it.
        while self._next in self._losses:
            loss = self._losses.pop(self._next)
            if not np.isfinite(loss):
                message = self._message(loss, self._first + self._next)
                self.checkpoints.fail(UserError(message))
                return
            self._next += self._at_once

    def _message(self, loss, last):
        batches = range(last + 1 - self._at_once, last + 1)
        pairs = np.concatenate([self.batches.pairs_of_step(i) for i in batches])
        numbers = ", ".join(str(pair + 1) for pair in sorted(pairs.tolist()))
        first, last = (i // self.batches.accumulate + 1 for i in (batches[0], last))
        steps = f"step {last}" if first == last else f"one of the steps {first} to {last}"
        holds = "The batch holds" if len(batches) == 1 else f"The {len(batches)} batches hold"
        return (
            f"The loss is {loss} at {steps}. {holds} the sentence pairs {numbers} of the training "
            f"text, without those left out, counted from 1. {self.checkpoints.last_good()}"
        )


class TensorBoard(keras.callbacks.TensorBoard):
    """Keras's TensorBoard, for one value an epoch: at a batch it has nothing to write."""

    async_safe = True

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        pass

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        pass


class LogScore(keras.callbacks.Callback):
    """Add the result of a function to each epoch's logs, so that other callbacks see it.

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


def steps_done(model: keras.Model) -> int:
    """The number of updates of a compiled model."""
    return int(ops.convert_to_numpy(model.optimizer.iterations))


def xla_pays(model: keras.Model) -> bool:
    """Whether XLA's programs are the faster ones in the end, on TensorFlow.

    Not in bfloat16 on a CPU: TensorFlow multiplies such matrices by the CPU's own instructions, and
    XLA by way of float32.

    Args:
        model: the model that is trained.
    """
    import tensorflow as tf

    in_bfloat16 = model.dtype_policy.compute_dtype == "bfloat16"
    return not in_bfloat16 or bool(tf.config.list_logical_devices("GPU"))


def first_compiled_batch(num_shapes: int, num_batches: int) -> int | None:
    """The batch from which on a training is to be compiled, or None if it is too short for that.

    Args:
        num_shapes: the number of shapes that batches have.
        num_batches: those of the whole training.
    """
    first = _BATCHES_PER_PROGRAM * num_shapes
    return first if num_batches >= 2 * first else None


class CompileLater(keras.callbacks.Callback):
    """Have XLA compile the rest of a training from some batch on.

    Which batch it is does not depend on where a training was stopped: the two programs round
    differently.

    Args:
        first_batch: the first of the whole training to be compiled.
        num_done: how many were trained on before.
    """

    async_safe = True

    def __init__(self, first_batch: int, num_done: int = 0):
        super().__init__()
        self._left = first_batch - num_done

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._left <= 0 and not self.model.jit_compile:
            self.model.jit_compile = True
            self.model.make_train_function(force=True)
        self._left -= self.model.steps_per_execution
