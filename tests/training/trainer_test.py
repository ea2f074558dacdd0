"""A training in parts: where its epochs end, and which batches it sees."""

import io
import sys
import time

import keras
import numpy as np
import pytest

from keras_transformer import progress
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.training.trainer import (
    Part,
    explain_lack_of_memory,
    fit_in_parts,
    plan_parts,
    validate,
)
from tests.helpers import error_of
from tests.small_corpus import quick_model, sentence_pairs, tokenizer


@pytest.mark.once
@pytest.mark.parametrize(
    ("first_batch", "num_batches", "parts"),
    [
        (0, 8, [Part(0, 0, 2, 4)]),
        (0, 10, [Part(0, 0, 2, 4), Part(8, 2, 3, 2)]),
        (0, 3, [Part(0, 0, 1, 3)]),  # shorter than an interval
        (4, 12, [Part(4, 1, 3, 4)]),
        (5, 14, [Part(5, 1, 2, 3), Part(8, 2, 3, 4), Part(12, 3, 4, 2)]),
        (5, 7, [Part(5, 1, 2, 2)]),
        (8, 8, []),
        (9, 8, []),
    ],
)
def test_parts_end_at_multiples_of_the_interval(first_batch, num_batches, parts):
    assert plan_parts(first_batch, num_batches, interval=4) == parts


def model_and_batches(tmp_path):
    store = TokenStore.build(tmp_path / "store", sentence_pairs(30), tokenizer())
    model = quick_model()
    model.compile("sgd", LabelSmoothedCrossentropy(reduction="sum"))
    return model, TokenBatches(store, 80, num_shapes=1)


@pytest.mark.each_backend
def test_epochs_end_at_multiples_of_the_interval(tmp_path):
    # As when a training goes on after 5 updates: the marks stay where they were.
    model, batches = model_and_batches(tmp_path)
    model.optimizer.iterations.assign(5)
    ends, losses = [], []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(logs["loss"])

        def on_epoch_end(self, epoch, logs=None):
            ends.append((epoch, int(self.model.optimizer.iterations)))

    parts = plan_parts(5, 14, interval=4)
    fit_in_parts(model, batches.stream, parts, callbacks=[Watch()], verbose=0)
    assert ends == [(1, 8), (2, 12), (3, 14)]
    # No batch was passed over, or trained on twice, where a part ends.
    model, _ = model_and_batches(tmp_path)
    expected = []
    for epoch in (range(5, 8), range(8, 12), range(12, 14)):
        batch_losses = [
            model.train_on_batch(*batches.batch(*divmod(step, len(batches)))) for step in epoch
        ]
        expected += [np.mean(batch_losses[:end]) for end in range(1, len(epoch) + 1)]
    assert losses == pytest.approx(expected, abs=1e-5)


@pytest.mark.once
def test_a_validation_shows_progress(monkeypatch, capsys):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(progress, "_SECONDS_BEFORE", 0)

    class Slow:
        def evaluate(self, batches, **options):
            end = time.monotonic() + (20 if sys.stderr is terminal else 0.2)
            while "validating" not in terminal.getvalue() and time.monotonic() < end:
                time.sleep(0.01)
            return {"loss": len(batches)}

    assert validate(Slow(), [1, 2]) == {"loss": 2} and capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", terminal)
    validate(Slow(), [1, 2])
    assert "validating: 00:0" in terminal.getvalue()


@pytest.mark.once
@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory. Tried to allocate 3.06 GiB.",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3285188608 bytes.",
        "OOM when allocating tensor with shape[784,32,2048]",
    ],
)
def test_too_little_memory_names_the_option_to_lower(message):
    @explain_lack_of_memory()
    def train():
        raise RuntimeError(f"{message}\nThe rest of the message")

    assert error_of(train) == (
        "The device has too little memory for a batch. Pass a smaller `batch_tokens`, and a larger "
        f"`accumulate` to keep the size of an update. Received: {message}"
    )


@pytest.mark.once
def test_other_errors_of_a_training_stay_the_same():
    error = RuntimeError("Something else")
    with pytest.raises(RuntimeError) as raised, explain_lack_of_memory():
        raise error
    assert raised.value is error
