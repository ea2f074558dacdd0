import contextlib
import errno
import itertools
import os
import resource
import signal
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest

from keras_transformer.errors import TrainingStopped
from keras_transformer.layers.dropout import Dropout
from keras_transformer.training.rolling_checkpoints import RollingCheckpoints
from keras_transformer.training.stopping import StopRequested, stop_on_signals
from keras_transformer.training.trainer import fit_in_parts, plan_parts
from keras_transformer.training.training_state import Snapshot, list_states, newest_state
from keras_transformer.weights.checkpoints import list_checkpoints
from tests.helpers import MODULES_ALONE, normal, to_numpy


def small_model(**options):
    keras.utils.set_random_seed(0)
    layers = [Dropout(0.5, name="dropout"), keras.layers.Dense(1, name="dense")]
    model = keras.Sequential([keras.Input((2,)), *layers], name="model")
    model.compile("adam", "mse", **options)
    return model


def batches(start=0):
    x, y = normal(60, 2), normal(60, 1)
    for i in itertools.count(start):
        yield x[i % 30 * 2 :][:2], y[i % 30 * 2 :][:2]


def fit(checkpoints, steps, *callbacks, model=None, interval=4, stream=batches):
    """Train up to `steps` updates, in epochs of `interval`."""
    model = model or small_model()
    state = checkpoints.start
    state.restore(model)
    checkpoints.num_batches = steps
    fit_in_parts(
        model,
        stream,
        plan_parts(state.batches, steps, interval),
        validation_data=(normal(4, 2), normal(4, 1)),
        callbacks=[*callbacks, checkpoints],
        verbose=0,
    )
    return model, model.history.history


def steps_of(paths):
    return [int(path.name.removeprefix("step-").split(".")[0]) for path in paths]


class At(keras.callbacks.Callback):
    """Call a function at the end of the n-th batch."""

    def __init__(self, number, function):
        super().__init__()
        self.number = number
        self.function = function

    def on_train_batch_end(self, batch, logs=None):
        self.number -= 1
        if not self.number:
            self.function(self.model)


# When, and which are kept


@pytest.mark.parametrize(
    "options, weights, states",
    [
        ({}, [8, 12, 14], [12, 14]),
        ({"keep": 1}, [14], [12, 14]),
        ({"every_steps": 3}, [9, 12, 14], [12, 14]),
        ({"every_steps": 8}, [8, 14], [8, 14]),
        ({"every_minutes": 1e-9}, [12, 13, 14], [13, 14]),
        ({"every_minutes": 60}, [14], [14]),
    ],
    ids=str,
)
def test_checkpoints_are_written_and_kept_as_configured(tmp_path, options, weights, states):
    folder = tmp_path / "checkpoints"
    model, _ = fit(RollingCheckpoints(folder, **{"keep": 3, **options}), 14)
    assert steps_of(list_checkpoints(folder)) == weights
    assert steps_of(list_states(folder)) == states
    assert len(list(folder.iterdir())) == len(weights) + len(states)
    loaded = small_model()
    loaded.load_weights(list_checkpoints(folder)[-1])
    assert all(map(np.array_equal, loaded.get_weights(), model.get_weights()))


@pytest.mark.parametrize("option", ["keep", "every_steps", "every_minutes"])
@pytest.mark.parametrize("value", [0, float("nan")])
def test_options_that_are_not_positive_are_refused(tmp_path, option, value):
    with pytest.raises(ValueError, match=f"`{option}` must be a positive.*{option}={value}"):
        RollingCheckpoints(tmp_path, **{option: value})
    with pytest.raises(ValueError, match="must not both"):
        RollingCheckpoints(tmp_path, every_steps=1, every_minutes=1)


def test_checkpoints_of_an_earlier_training_are_deleted(tmp_path):
    # The same folder, a new training: what is kept, and averaged, must be of the new one.
    fit(RollingCheckpoints(tmp_path, keep=2), 12)
    fit(RollingCheckpoints(tmp_path, keep=2), 4)
    assert steps_of(list_checkpoints(tmp_path)) == steps_of(list_states(tmp_path)) == [4]


# Going on


@pytest.mark.parametrize("every", [pytest.param(3, marks=pytest.mark.each_backend), 4])
def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path, every):
    whole, history = fit(RollingCheckpoints(tmp_path / "whole", keep=2, every_steps=every), 14)
    folder = tmp_path / "stopped"
    for stop in (1, 1, 3, 3, 99):  # once at the end of an epoch, before its validation
        checkpoints = RollingCheckpoints(
            folder, keep=2, every_steps=every, start=newest_state(folder), run={"a": 1}
        )
        ask = At(stop, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        with (
            contextlib.suppress(SystemExit),
            stop_on_signals(checkpoints.stop_sync, checkpoints.last_good),
        ):
            model, resumed_history = fit(checkpoints, 14, ask)
        if checkpoints.start.step == 0:  # nothing was due when it was stopped
            assert list_states(folder) and not list_checkpoints(folder)
    assert checkpoints.start.step == 8 and checkpoints.start.run == {"a": 1}
    assert all(map(np.array_equal, model.get_weights(), whole.get_weights()))
    assert resumed_history == checkpoints.history == history
    assert [len(values) for values in resumed_history.values()] == [4, 4]
    # A stop adds nothing to what is averaged.
    names = [steps_of(list_checkpoints(tmp_path / name)) for name in ("whole", "stopped")]
    assert names[0] == names[1]
    assert checkpoints.seconds > checkpoints.start.seconds > 0


def stop_and_resume(folder, stops, steps, make_model, others=(), **options):
    """Train with a stop after each of some updates; returns the history of the whole training.

    `others` make further callbacks from the `RollingCheckpoints`.
    """
    for stop in (*stops, None):
        state = newest_state(folder)
        checkpoints = RollingCheckpoints(folder, every_steps=100, start=state)
        ask = At((stop or 0) - state.step, lambda _, it=checkpoints: setattr(it, "stop_soon", 1))
        with contextlib.suppress(StopRequested):
            callbacks = [ask, *(make(checkpoints) for make in others)]
            fit(checkpoints, steps, *callbacks, model=make_model(), **options)
    return checkpoints.history


@pytest.mark.each_backend
def test_the_history_does_not_depend_on_where_the_training_stops(tmp_path):
    def model():
        return small_model(metrics=["mae"], weighted_metrics=[keras.metrics.MeanSquaredError()])

    expected = stop_and_resume(tmp_path / "whole", [], 6, model)
    assert sorted(expected) == sorted(
        f"{split}{name}" for split in ("", "val_") for name in ("loss", "mae", "mean_squared_error")
    )
    for stops in ([1], [2], [3], [4], [5], [1, 2, 3]):
        assert stop_and_resume(tmp_path / str(stops), stops, 6, model) == expected, stops


def test_a_stop_names_the_last_checkpoint(tmp_path, caplog):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for number in (signal.SIGINT, signal.SIGTERM):
        checkpoints = RollingCheckpoints(tmp_path, start=newest_state(tmp_path))
        ask = At(2, lambda _, number=number: os.kill(os.getpid(), number))
        with (
            pytest.raises(TrainingStopped) as exit,
            stop_on_signals(checkpoints.stop_sync, checkpoints.last_good),
        ):
            fit(checkpoints, 14, ask)
        assert exit.value.code == 128 + number
        assert str(list_states(tmp_path)[-1]) in caplog.messages[-1]
    assert steps_of(list_states(tmp_path)) == [2, 4]
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.once
def test_a_second_signal_ends_the_process():
    script = f"""{MODULES_ALONE}
import os, signal, time
from keras_transformer.training.stopping import stop_on_signals
with stop_on_signals(types.SimpleNamespace(stop_soon=False), str):
    os.kill(os.getpid(), signal.SIGTERM)
    print("goes on", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KERAS_BACKEND": "numpy"},  # which starts quickly
        capture_output=True,
        text=True,
    )
    assert process.returncode == -signal.SIGINT
    assert process.stdout == "goes on\n"


# Several batches at once


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="one batch at a time")
def test_checkpoints_count_batches_of_larger_executions(tmp_path):
    one, history = fit(RollingCheckpoints(tmp_path / "one", every_steps=4), 14, interval=6)
    folder = tmp_path / "two"
    for stop in (2, 99):
        model = small_model(steps_per_execution=2)
        checkpoints = RollingCheckpoints(folder, every_steps=4, start=newest_state(folder))
        ask = At(stop, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        with (
            contextlib.suppress(SystemExit),
            stop_on_signals(checkpoints.stop_sync, checkpoints.last_good),
        ):
            fit(checkpoints, 14, ask, model=model, interval=6)
        # After the second execution; at the end.
        assert checkpoints.batches == int(model.optimizer.iterations) == {2: 4, 99: 14}[stop]
        assert newest_state(folder).batches == newest_state(folder).step == checkpoints.batches
    assert all(map(np.array_equal, model.get_weights(), one.get_weights()))
    assert checkpoints.history == history
    assert steps_of(list_checkpoints(folder)) == steps_of(list_checkpoints(tmp_path / "one"))


def test_batches_of_a_finite_dataset_are_counted(tmp_path):
    model = (
        small_model() if keras.backend.backend() == "torch" else small_model(steps_per_execution=3)
    )
    checkpoints = RollingCheckpoints(tmp_path)
    model.fit(normal(10, 2), normal(10, 1), batch_size=2, callbacks=[checkpoints], verbose=0)
    assert checkpoints.batches == newest_state(tmp_path).batches == 5


# In a thread


def test_training_continues_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    write, goes_on = Snapshot.write, threading.Event()

    def slow_write(self, path):
        assert goes_on.wait(30), "The training waits for the file."
        write(self, path)

    monkeypatch.setattr(Snapshot, "write", slow_write)
    fit(RollingCheckpoints(tmp_path), 8, At(6, lambda _: goes_on.set()))
    assert steps_of(list_checkpoints(tmp_path)) == [4, 8]


def test_a_snapshot_stays_as_it_was_taken(tmp_path):
    model = small_model()
    model.fit(*next(batches()), verbose=0)
    before, path = model.get_weights(), tmp_path / "step-1.state.weights.h5"
    facts = {"step": 1, "batches": 1, "seconds": 0.0, "history": {}, "run": {}}
    snapshot = Snapshot(model, **facts)
    moments = [to_numpy(v) for v in model.optimizer.variables]
    model.fit(*next(batches(1)), epochs=3, verbose=0)
    thread = threading.Thread(target=snapshot.write, args=(path,))
    thread.start()
    thread.join()
    assert not np.array_equal(model.get_weights()[0], before[0])
    newest_state(tmp_path).restore(model)
    assert all(map(np.array_equal, model.get_weights(), before))
    assert all(map(np.array_equal, map(to_numpy, model.optimizer.variables), moments))


# What goes wrong


def message_of_failure(folder, at_sixth, steps=14):
    checkpoints = RollingCheckpoints(folder)

    def spoil(model):
        checkpoints.wait()  # until the fourth step's is there
        at_sixth(model)

    with pytest.raises(ValueError) as error:
        fit(checkpoints, steps, At(6, spoil))
    message = str(error.value)
    assert "\n" not in message and str(list_states(folder)[-1]) in message
    assert not any(folder.glob(".*"))
    return message


def test_weights_that_are_not_finite_are_not_written(tmp_path):
    def spoil(model):
        model.get_layer("dense").bias.assign([np.nan])

    message = message_of_failure(tmp_path, spoil)
    assert "step 8" in message and "not a number" in message
    assert steps_of(list_checkpoints(tmp_path)) == steps_of(list_states(tmp_path)) == [4]
    model = small_model()
    newest_state(tmp_path).restore(model)
    assert all(np.isfinite(to_numpy(weight)).all() for weight in model.weights)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_stops_training_and_keeps_the_last_state(tmp_path):
    # It must be found out before HDF5 writes, which would crash the process at a later file.
    # As a full disk does, a limit on the size of files cuts writing short. Python ignores SIGXFSZ.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(model):
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))

    try:
        message = message_of_failure(tmp_path, fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "step 8" in message and os.strerror(errno.EFBIG) in message
    assert newest_state(tmp_path).step == 4
