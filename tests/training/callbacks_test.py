import keras
import pytest

from keras_transformer.training.callbacks import LogScore, StopAtStep
from tests.helpers import normal


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


def test_log_score_is_seen_by_the_history_and_by_later_callbacks():
    scores = iter([1.5, 2.5])
    seen = []
    later = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(logs["val_bleu"])
    )
    _, history = fit(2, [LogScore("val_bleu", lambda: next(scores)), later])
    assert history["val_bleu"] == seen == [1.5, 2.5]
