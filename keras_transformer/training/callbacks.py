"""Keras callbacks of a training."""

import keras
import numpy as np
from keras import ops

from keras_transformer.errors import UserError


class StopOnNonFinite(keras.callbacks.Callback):
    """End the training with an error when the loss is infinite or not a number.

    Args:
        batches: the `TokenBatches` of the training.
        checkpoints: its `RollingCheckpoints`, later in the list of callbacks.

    Raises:
        UserError: with the step, the batch's sentence pairs and the last good checkpoint.
    """

    def __init__(self, batches, checkpoints):
        super().__init__()
        self.batches = batches
        self.checkpoints = checkpoints

    def on_train_batch_end(self, batch, logs=None):
        # The mean over the epoch: the first batch that is not finite spoils it.
        loss = (logs or {}).get("loss", 0.0)
        if np.isfinite(loss):
            return
        _, pairs = self.batches.pairs_of_batch(
            *divmod(self.checkpoints.batches - 1, len(self.batches))
        )
        numbers = ", ".join(str(pair + 1) for pair in sorted(pairs.tolist()))
        raise UserError(
            f"The loss is {loss} at step {steps_done(self.model)}. The batch holds the sentence "
            f"pairs {numbers} of the training text, counted from 1. {self.checkpoints.last_good()}"
        )


class LogScore(keras.callbacks.Callback):
    """Add the result of a function to each epoch's logs, so that other callbacks see it.

    Args:
        name: the name in the logs, such as `"val_bleu"`.
        score: function without arguments that returns a number.
    """

    def __init__(self, name, score):
        super().__init__()
        self.name = name
        self.score = score

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs[self.name] = self.score()


def steps_done(model):
    """The number of updates of a compiled model."""
    return int(ops.convert_to_numpy(model.optimizer.iterations))
