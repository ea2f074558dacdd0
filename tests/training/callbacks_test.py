import keras
import numpy as np
import pytest

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.training.callbacks import LogScore, StopAtStep, StopOnNonFinite, breakable
from keras_transformer.training.losses import LabelSmoothedCrossentropy
from tests.helpers import normal
from tests.small_corpus import quick_model, sentence_pairs, tokenizer


def fit(epochs, callbacks, model=None):
    """Five steps an epoch."""
    if model is None:
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    x, y = normal(10, 2), normal(10, 1)
    history = model.fit(x, y, batch_size=2, epochs=epochs, verbose=0, callbacks=callbacks)
    return model, history.history


@pytest.mark.parametrize("step, epochs", [(1, 1), (5, 1), (7, 2), (10, 2), (100, 3)])
def test_stop_at_step(step, epochs):
    model, history = fit(3, [StopAtStep(step)])
    assert int(model.optimizer.iterations) == min(step, 15)
    assert len(history["loss"]) == epochs


def test_stop_at_step_counts_updates_in_all():
    model, _ = fit(1, [])
    fit(3, [StopAtStep(7)], model)
    assert int(model.optimizer.iterations) == 7


def model_and_batches(tmp_path):
    store = TokenStore.build(tmp_path / "store", sentence_pairs(30), tokenizer())
    model = quick_model()
    model.compile("sgd", LabelSmoothedCrossentropy(reduction="sum"))
    return model, TokenBatches(store, 80, num_shapes=1)


def test_stop_at_step_ends_epochs_at_multiples(tmp_path):
    # As when a training goes on after 5 updates: the marks stay where they were.
    model, batches = model_and_batches(tmp_path)
    model.optimizer.iterations.assign(5)
    ends, losses = [], []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(logs["loss"])

        def on_epoch_end(self, epoch, logs=None):
            ends.append(int(self.model.optimizer.iterations))

    model.fit(
        breakable(batches.stream(5)),
        initial_epoch=1,
        epochs=4,
        steps_per_epoch=4,
        callbacks=[StopAtStep(14, 4), Watch()],
        verbose=0,
    )
    assert ends == [8, 12, 14]
    # No batch was passed over, or trained on twice, where an epoch was left early.
    model, _ = model_and_batches(tmp_path)
    expected = []
    for epoch in (range(5, 8), range(8, 12), range(12, 14)):
        batch_losses = [
            model.train_on_batch(*batches.batch(*divmod(step, len(batches)))) for step in epoch
        ]
        expected += [np.mean(batch_losses[:end]) for end in range(1, len(epoch) + 1)]
    assert losses == pytest.approx(expected, abs=1e-5)


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
        model.fit(breakable(batches.stream(3)), steps_per_epoch=20, callbacks=callbacks, verbose=0)
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
    _, history = fit(2, [LogScore("val_bleu", lambda: next(scores)), later])
    assert history["val_bleu"] == seen == [1.5, 2.5]
