"""Keras callbacks of the recipes."""

import keras


class StopAtStep(keras.callbacks.Callback):
    """End the training after so many updates in all."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) >= self.step:
            self.model.stop_training = True


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
