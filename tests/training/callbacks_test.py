import contextlib
import sys
import threading

import keras
import numpy as np
import pytest

from keras_transformer import progress
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.training import callbacks as callbacks_module
from keras_transformer.training import fit_progress as progress_module
from keras_transformer.training.callbacks import (
    CompileLater,
    LimitInFlightBatches,
    LogScore,
    StopOnNonFinite,
    TensorBoard,
    first_compiled_batch,
    xla_pays,
)
from keras_transformer.training.fit_progress import LogProgress, ShowProgress
from keras_transformer.training.optimizer import NoamSchedule, WholeBatchOptimizer
from keras_transformer.training.rolling_checkpoints import RollingCheckpoints
from tests.helpers import normal, wait_for
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

    def fail(self, error):
        raise error


def spoil_weights(model, value):
    embeddings = model.weights[0]
    embeddings.assign(np.full(embeddings.shape, value))


@pytest.mark.parametrize("value", [pytest.param(np.nan, marks=pytest.mark.each_backend), np.inf])
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


# What a callback may do while the device goes on


class CountingModel(keras.Sequential):
    """Counts how often JAX's values are brought back to the model's variables."""

    syncs = 0

    def jax_state_sync(self):
        self.syncs += 1
        super().jax_state_sync()


def dense_model(optimizer, kind=keras.Sequential, **options):
    model = kind([keras.Input((2,)), keras.layers.Dense(1, name="dense")])
    model.compile(optimizer, "mse", **options)
    return model


def stream():
    x, y = normal(2, 2), normal(2, 1)
    while True:
        yield x, y


class Watch(keras.callbacks.Callback):
    """Notes the logs of each batch, and in which thread they came."""

    async_safe = True

    def __init__(self):
        super().__init__()
        self.logs, self.threads = {}, set()

    def on_train_batch_end(self, batch, logs=None):
        self.logs[batch] = dict(logs)
        self.threads.add(threading.current_thread())


@pytest.mark.each_backend
def test_nothing_waits_for_the_device_at_each_batch(tmp_path):
    watch, checkpoints = Watch(), RollingCheckpoints(tmp_path, every_steps=1000)
    model = dense_model("sgd", CountingModel)
    stop = StopOnNonFinite(None, checkpoints)
    callbacks = [
        LimitInFlightBatches(),
        LogProgress(lambda batches: 2 * batches, 60),
        stop,
        watch,
        checkpoints,
    ]
    model.fit(stream(), steps_per_epoch=60, callbacks=callbacks, verbose=0)
    assert sorted(watch.logs) == list(range(60))
    # Keras's own thread has the logs, where it has one.
    is_ahead = threading.main_thread() not in watch.threads
    assert is_ahead == (keras.backend.backend() != "tensorflow")
    if keras.backend.backend() == "jax":
        # At the ends of `fit` and epoch, for which each callback asks, and at each tenth batch.
        assert model.syncs < 30


@pytest.mark.once
def test_a_batch_starts_after_the_last_but_one_ends(monkeypatch):
    monkeypatch.setattr(callbacks_module, "_LONGEST_WAIT", 30.0)
    pace = LimitInFlightBatches()
    pace.on_epoch_begin(0)
    pace.on_train_batch_begin(0)
    pace.on_train_batch_begin(1)  # while the first is computed
    third = threading.Thread(target=pace.on_train_batch_begin, args=(2,))
    third.start()
    third.join(0.1)
    assert third.is_alive()
    pace.on_train_batch_end(0)
    third.join(20)
    assert not third.is_alive()
    # A batch that has failed does not keep the next waiting for ever: Keras raises its error then.
    monkeypatch.setattr(callbacks_module, "_LONGEST_WAIT", 0.01)
    pace.on_train_batch_begin(3)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_progress_counts_updates(accumulate):
    schedule, watch = NoamSchedule(16, 8), Watch()
    optimizer = WholeBatchOptimizer(keras.optimizers.SGD(schedule), accumulate=accumulate)
    model = dense_model(optimizer)
    # Or a thread might have the logs of the thirtieth batch before those of the tenth.
    callbacks = [
        LimitInFlightBatches(),
        LogProgress(lambda batches: 7 * batches, 80 // accumulate),
        watch,
    ]
    history = model.fit(
        stream(), steps_per_epoch=40, epochs=2, callbacks=callbacks, verbose=0
    ).history
    ends = [float(schedule(40 * epoch // accumulate)) for epoch in (1, 2)]
    assert history["learning_rate"] == pytest.approx(ends)
    for batch in range(9, 40):
        assert watch.logs[batch]["tokens_per_second"] > 0
    assert watch.logs[39]["minutes_left"] == 0 <= watch.logs[9]["minutes_left"]


@pytest.mark.once
def test_the_time_left_counts_no_compilation(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    callback = LogProgress(lambda batches: 100 * batches, 1000)
    callback.set_model(dense_model(keras.optimizers.SGD(0.1)))
    callback.model.optimizer.build(callback.model.trainable_variables)
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    seen = {}
    for batch in range(60):
        # A program for each of three shapes, and one for the first.
        now[0] += 60.0 if batch in (0, 3, 14, 15) else 0.3
        seen[batch] = {}
        callback.on_train_batch_end(batch, seen[batch])
    assert "minutes_left" not in seen[0] and "minutes_left" not in seen[8]
    for batch in range(29, 60):  # from the first ten batches in which nothing was compiled
        assert seen[batch]["minutes_left"] == pytest.approx((999 - batch) * 0.3 / 60, abs=0.06)
        assert seen[batch]["tokens_per_second"] == round(100 / 0.3)


@pytest.mark.once
@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_bar_on_a_terminal_and_elsewhere_a_line_an_interval(
    is_terminal, monkeypatch, capsys, caplog
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    callbacks = [LogProgress(lambda batches: 7 * batches, 80), ShowProgress(80, 40)]
    with caplog.at_level("INFO", "keras_transformer"):
        dense_model(keras.optimizers.SGD(0.1)).fit(
            stream(), steps_per_epoch=40, epochs=2, callbacks=callbacks, verbose=0
        )
    output, errors = capsys.readouterr()
    assert output == ""
    if is_terminal:
        assert "interval 2 of 2, step 80 of 80" in errors and "loss" in errors
        assert not caplog.messages
    else:
        assert errors == ""
        assert [line.split(": loss")[0] for line in caplog.messages] == [
            "step 40 of 80",
            "step 80 of 80",
        ]


@pytest.mark.once
def test_without_a_terminal_a_line_is_logged_each_minute(monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    show = ShowProgress(80, 40)
    show.set_model(dense_model(keras.optimizers.SGD(0.1)))
    show.set_params({"steps": 40})
    with caplog.at_level("INFO", "keras_transformer"):
        show.on_epoch_begin(1)
        for batch in range(40):
            now[0] += 5
            show.on_train_batch_end(batch, {"loss": 2.0})
        for batch in range(12):
            now[0] += 5
            show.on_test_batch_end(batch)
        show.on_epoch_end(1, {"loss": 2.0})
    assert caplog.messages == [
        "interval 2 of 2, step 12 of 80: loss 2, 1:00",
        "interval 2 of 2, step 24 of 80: loss 2, 2:00",
        "interval 2 of 2, step 36 of 80: loss 2, 3:00",
        "interval 2 of 2, step 40 of 80: validation, 4:00",
        "step 0 of 80: loss 2, 260 s",
    ]


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() == "torch", reason="PyTorch compiles nothing")
def test_the_first_step_reports_that_it_compiles(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "_SECONDS_BEFORE", 0)
    show = ShowProgress(3, 3)
    show.set_model(dense_model(keras.optimizers.SGD(0.1)))
    show.set_params({"steps": 3})
    show.on_epoch_begin(0)
    wait_for(lambda: "compiling" in sys.stderr.getvalue())
    shown = capsys.readouterr().err
    assert "compiling the first step: 00:0" in shown and "interval" not in shown
    show.on_train_batch_end(0, {"loss": 2.0})
    assert "interval 1 of 1, step 1 of 3" in capsys.readouterr().err
    show.close()
    # An error in the first step ends it too.
    with contextlib.closing(ShowProgress(3)) as show:
        show.set_model(dense_model(keras.optimizers.SGD(0.1)))
        show.on_epoch_begin(0)
    assert not any("_tell" in thread.name for thread in threading.enumerate())


def test_log_score_is_seen_by_the_history_and_by_later_callbacks():
    scores = iter([1.5, 2.5])
    seen = []
    later = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(logs["val_bleu"])
    )
    history = fit(2, [LogScore("val_bleu", lambda: next(scores)), later])
    assert history["val_bleu"] == seen == [1.5, 2.5]


# Training on TensorFlow that XLA compiles from some batch on.

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="JAX compiles from the beginning"
)


@pytest.mark.each_backend
def test_tensorboard_files_equal_the_ones_of_the_keras_callback(tmp_path):
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )

    def read(folder):
        log = event_accumulator.EventAccumulator(str(folder)).Reload()
        return {
            tag: [(event.step, event.value) for event in log.Scalars(tag)]
            for tag in log.Tags()["scalars"]
        }

    scores = {"val_bleu": lambda: 30.5, "learning_rate": lambda: 0.25}
    callbacks = [LogScore(*each) for each in scores.items()]
    callbacks.append(TensorBoard(tmp_path / "ours"))
    if keras.backend.backend() == "tensorflow":
        callbacks.append(keras.callbacks.TensorBoard(tmp_path / "keras"))
    history = fit(2, callbacks)
    for split in ("train", "validation"):
        if keras.backend.backend() == "tensorflow":
            log = event_accumulator.EventAccumulator(str(tmp_path / "keras" / split)).Reload()
            tags = {tag for tag in log.Tags()["tensors"] if tag.startswith("epoch_")}
            assert tags == set(read(tmp_path / "ours" / split))
    assert read(tmp_path / "ours" / "train") == {
        "epoch_loss": list(zip((5, 10), np.float32(history["loss"]).tolist())),  # by updates
        "epoch_learning_rate": [(5, 0.25), (10, 0.25)],
    }
    assert read(tmp_path / "ours" / "validation") == {"epoch_bleu": [(5, 30.5), (10, 30.5)]}
    # A training that goes on adds to them.
    again = TensorBoard(tmp_path / "ours")
    again.set_model(dense_model("sgd"))
    again.model.optimizer.build(again.model.trainable_variables)
    again.model.optimizer.iterations.assign(12)
    again.on_epoch_end(2, {"loss": 0.25})
    assert read(tmp_path / "ours" / "train")["epoch_loss"][2:] == [(12, 0.25)]


@pytest.mark.once
def test_training_compiles_when_half_of_the_batches_are_left():
    assert first_compiled_batch(12, 7500) == 2400
    assert first_compiled_batch(12, 4800) == 2400
    assert first_compiled_batch(12, 4799) is None


@on_tensorflow
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_xla_does_not_pay_for_bfloat16_on_a_cpu(dtype):
    import tensorflow as tf

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.dtype_policy = keras.DTypePolicy(dtype)
    on_cpu = not tf.config.list_logical_devices("GPU")
    assert xla_pays(model) == (not on_cpu or dtype != "mixed_bfloat16")


class WatchCompilation(keras.callbacks.Callback):
    """Notes, at each batch, whether its program is XLA's, and the loss."""

    def __init__(self):
        super().__init__()
        self.compiled, self.functions, self.losses = [], [], []

    def on_train_batch_begin(self, batch, logs=None):
        self.compiled.append(self.model.jit_compile)
        self.functions.append(self.model.train_function)

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


def fit_twice(*callbacks, **options):
    """Six batches in two calls of `fit`."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse", **{"jit_compile": False, **options})
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    watch = WatchCompilation()
    for first in (0, 6):
        rows = x[first : first + 6]
        model.fit(
            rows,
            rows.sum(axis=1),
            batch_size=2,
            shuffle=False,
            verbose=0,
            callbacks=[*callbacks, watch],
        )
    return watch


@pytest.mark.each_backend
@on_tensorflow
@pytest.mark.parametrize(("first", "done", "expected"), [(4, 0, 4), (4, 3, 1), (4, 7, 0)])
def test_compiled_from_the_batch_on(first, done, expected):
    plain, watch = fit_twice(), fit_twice(CompileLater(first, done))
    assert watch.compiled == [False] * expected + [True] * (6 - expected)
    assert len({id(function) for function in watch.functions[expected:]}) == 1
    assert watch.losses == pytest.approx(plain.losses, rel=1e-5)
