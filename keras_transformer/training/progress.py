"""What a training says of itself while it runs."""

import time

import keras
import numpy as np
from keras import ops

from keras_transformer.training.callbacks import steps_done

# Batches from one look at what the device has, or at the schedule, to the next.
_BATCHES_BETWEEN = 10


class LogProgress(keras.callbacks.Callback):
    """Add the learning rate, target tokens a second and the minutes left to each batch's logs, for
    Keras's progress bar.

    The history keeps the learning rate alone: of a training that is stopped and goes on it has the
    same values as of one that is not. What is said in the middle of an epoch is counted in Python:
    an update that the optimizer leaves out is noticed when the epoch ends.

    Args:
        count_tokens: function of a number of batches that returns the number of target tokens in so
            many from the beginning of the training, such as `TokenBatches.target_tokens`.
        steps: the number of updates of the whole training.
    """

    async_safe = True

    def __init__(self, count_tokens, steps):
        super().__init__()
        self.count_tokens = count_tokens
        self.steps = steps

    def on_train_begin(self, logs=None):
        # Anew in each `fit`: the first batch of one may compile.
        self._seconds, self._batches, self._first = 0.0, 0, None

    def on_epoch_begin(self, epoch, logs=None):
        optimizer = self.model.optimizer
        self._accumulate = getattr(optimizer, "accumulate", 1)
        self._step, self._rate = steps_done(self.model), learning_rates(optimizer)
        self._shown_rate, self._last = self._rate(self._step), 0
        self._in_epoch = 0
        if self._first is None:
            self._first = self._step * self._accumulate
        self._began = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        if logs is None:
            return
        # (Of two threads, the later one may have the earlier batch.)
        done = self._in_epoch = max(self._in_epoch, batch + 1)
        seconds, batches = self._seconds + time.monotonic() - self._began, self._batches + done
        step = self._step + done // self._accumulate
        look = done - done % _BATCHES_BETWEEN
        if look != self._last:
            self._shown_rate, self._last = self._rate(self._step + look // self._accumulate), look
        left = max(self.steps - step, 0) * self._accumulate
        logs["learning_rate"] = self._shown_rate
        tokens = self.count_tokens(self._first + batches) - self.count_tokens(self._first)
        logs["tokens_per_second"] = round(tokens / seconds)
        logs["minutes_left"] = round(seconds / batches * left / 60, 1)

    def on_test_begin(self, logs=None):
        self._end_epoch()

    def on_epoch_end(self, epoch, logs=None):
        self._end_epoch()
        if logs is not None:
            rate = self.model.optimizer.learning_rate
            logs["learning_rate"] = float(ops.convert_to_numpy(rate))

    def _end_epoch(self):
        """Add up the time, once an epoch: without the validation."""
        if self._in_epoch:
            self._seconds += time.monotonic() - self._began
            self._batches, self._in_epoch = self._batches + self._in_epoch, 0


class SkipNonFinite(keras.callbacks.Callback):
    """Say so when the optimizer has left out an update whose gradient is not finite.

    It looks at every tenth batch. If there was such a batch the means of the logs begin anew then:
    they would stay infinite, or not a number, to the end of the epoch. Where it was among the last
    batches of an epoch, the logs are those of the last look.
    """

    async_safe = True

    def on_epoch_begin(self, epoch, logs=None):
        self._last, self._means = 0, {}

    def on_train_batch_begin(self, batch, logs=None):
        if batch // _BATCHES_BETWEEN == self._last:
            return
        self._last = batch // _BATCHES_BETWEEN
        model = self.model
        means = {
            name: float(ops.convert_to_numpy(value))
            for name, value in model.get_metrics_result().items()
        }
        if np.isfinite(means["loss"]):
            self._means = means
        else:
            model.reset_metrics()
            self._tell(means["loss"])

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None and not np.isfinite(logs.get("loss", 0.0)):
            self._tell(logs["loss"])
            logs.update(self._means)

    def _tell(self, loss):
        skipped = int(ops.convert_to_numpy(self.model.optimizer.num_skipped))
        print(f"\nThe loss is {loss}: the update is left out. Left out so far: {skipped}.")


def learning_rates(optimizer):
    """The learning rate by the number of updates, without looking at the device again.

    Args:
        optimizer: a `keras.optimizers.Optimizer` that is built, or one around it.

    Returns:
        A function of the number of updates that returns a float.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    # On JAX, variables have no values while an epoch is trained.
    scalars = [(v, ops.convert_to_numpy(v)) for v in optimizer.variables if not v.shape]
    counter = optimizer.iterations

    def rate(step):
        values = scalars
        if isinstance(counter, keras.Variable):
            values = [*scalars, (counter, np.asarray(step, counter.dtype))]
        with keras.StatelessScope(values):
            return float(ops.convert_to_numpy(optimizer.learning_rate))

    return rate
