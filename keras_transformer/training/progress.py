"""What a training says of itself while it runs."""

import time

import keras
import numpy as np
from keras import ops

from keras_transformer.training.callbacks import steps_done


class LogProgress(keras.callbacks.Callback):
    """Add the learning rate, target tokens a second and the minutes left to each batch's logs, for
    Keras's progress bar.

    The history keeps the learning rate alone: of a training that is stopped and goes on it has the
    same values as of one that is not.

    Args:
        batch_tokens: mean number of target tokens in a batch.
        steps: the number of updates of the whole training.
    """

    def __init__(self, batch_tokens, steps):
        super().__init__()
        self.batch_tokens = float(batch_tokens)
        self.steps = steps

    def on_train_begin(self, logs=None):
        # Anew in each `fit`: the first batch of one may compile.
        self._seconds, self._batches, self._last = 0.0, 0, None
        self._first_step = None

    def on_train_batch_begin(self, batch, logs=None):
        self._batch_began = time.monotonic()
        if self._first_step is None:
            self._first_step = self._step()

    def on_train_batch_end(self, batch, logs=None):
        # Without the validations between.
        self._seconds += time.monotonic() - self._batch_began
        self._batches += 1
        if logs is None:
            return
        self.on_epoch_end(None, logs)
        logs["tokens_per_second"] = round(self._batches * self.batch_tokens / self._seconds)
        step = self._step()
        if done := step - self._first_step:
            logs["minutes_left"] = round(self._seconds / done * (self.steps - step) / 60, 1)

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            rate = self.model.optimizer.learning_rate
            logs["learning_rate"] = float(ops.convert_to_numpy(rate))

    def _step(self):
        return steps_done(self.model)


class SkipNonFinite(keras.callbacks.Callback):
    """Say so when the optimizer has left out an update whose gradient is not finite.

    The means of the logs begin anew after such a batch: they would stay infinite, or not a number,
    to the end of the epoch.
    """

    def on_train_batch_end(self, batch, logs=None):
        if np.isfinite((logs or {}).get("loss", 0.0)):
            return
        self.model.reset_metrics()
        skipped = int(ops.convert_to_numpy(self.model.optimizer.num_skipped))
        print(f"\nThe loss is {logs['loss']}: the update is left out. Left out so far: {skipped}.")
