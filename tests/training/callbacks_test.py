import keras
import numpy as np
import pytest

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.training.callbacks import LogScore, StopOnNonFinite
from keras_transformer.training.losses import LabelSmoothedCrossentropy
from tests.helpers import normal
from tests.small_corpus import quick_model, sentence_pairs, tokenizer


def fit(epochs, callbacks):
    """Five steps an epoch."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = normal(10, 2), normal(10, 1)
    history = model.fit(x, y, batch_size=2, epochs=epochs, verbose=0, callbacks=callbacks)
    return history.history


def model_and_batches(tmp_path):
    store = TokenStore.build(tmp_path / "store", sentence_pairs(30), tokenizer())
    model = quick_model()
    model.compile("sgd", LabelSmoothedCrossentropy(reduction="sum"))
    return model, TokenBatches(store, 80, num_shapes=1)


class Checkpoints(keras.callbacks.Callback):
    """A stand-in for `RollingCheckpoints`."""

    batches = 3

    def on_train_batch_begin(self, batch, logs=None):
        self.batches += 1

    def last_good(self):
        return "The last good one is step-3."


def spoil_weights(model, value):
    embeddings = model.weights[0]
    embeddings.assign(np.full(embeddings.shape, value))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_stop_on_non_finite(tmp_path, value):
    # Resumed after three batches; the weights are spoilt after three more.
    model, batches = model_and_batches(tmp_path)
    model.optimizer.iterations.assign(3)
    spoil = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: batch == 2 and spoil_weights(spoil.model, value)
    )
    checkpoints = Checkpoints()
    callbacks = [StopOnNonFinite(batches, checkpoints), spoil, checkpoints]
    with pytest.raises(ValueError) as error:
        model.fit(batches.stream(3), steps_per_epoch=20, callbacks=callbacks, verbose=0)
    message = str(error.value)
    # The seventh batch of all.
    _, pairs = batches.pairs_of_batch(*divmod(6, len(batches)))
    numbers = ", ".join(str(pair + 1) for pair in sorted(pairs))
    assert "step 7." in message and f"pairs {numbers} of" in message and "step-3" in message
    assert "\n" not in message


def test_log_score_is_seen_by_the_history_and_by_later_callbacks():
    scores = iter([1.5, 2.5])
    seen = []
    later = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(logs["val_bleu"])
    )
    history = fit(2, [LogScore("val_bleu", lambda: next(scores)), later])
    assert history["val_bleu"] == seen == [1.5, 2.5]
