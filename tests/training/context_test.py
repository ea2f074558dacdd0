import errno
import fcntl
import os
import random

import keras
import numpy as np
import pytest

from keras_transformer.option_fields import from_keywords
from keras_transformer.tasks.pipeline import TrainingOptions
from keras_transformer.training.context import make_context
from keras_transformer.training.trainer import is_averaged
from keras_transformer.training.training_state import Snapshot
from tests.helpers import error_of, to_numpy
from tests.small_corpus import quick_model


def go_on(folder, settings=None, **options):
    options = from_keywords(TrainingOptions, {"output_dir": folder, "steps": 10, **options})
    return make_context(options, settings or {})


def write_state(folder, was):
    model = quick_model()
    model.compile("sgd", "mse")
    model.optimizer.build(model.trainable_variables)
    (folder / "checkpoints").mkdir()
    path = folder / "checkpoints" / "step-3.state.weights.h5"
    Snapshot(model, step=3, batches=3, seconds=0.0, history={}, run=was).write(path)


@pytest.mark.parametrize("expected", [False, True])
def test_a_resumed_training_keeps_its_batches_on_another_backend(tmp_path, expected):
    at_first = keras.backend.backend() == "jax"
    assert go_on(tmp_path).few_shapes_first == at_first
    write_state(tmp_path, {"few_shapes_first": expected})
    context = go_on(tmp_path, resume=True)
    assert (context.start.step, context.few_shapes_first) == (3, expected)
    assert go_on(tmp_path, overwrite=True).few_shapes_first == at_first


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"average": 1}, False),
        ({"average": 2}, True),
        ({"average": 1, "keep_best": "val_loss"}, True),
        ({"average": 1, "ema": 0.9}, True),
    ],
)
def test_the_result_has_the_last_scores_unless_weights_are_averaged(tmp_path, options, expected):
    assert is_averaged(go_on(tmp_path, **options)) == expected


@pytest.mark.once
def test_seeds_equal_set_random_seed(tmp_path):
    go_on(tmp_path, seed=7)
    drawn = random.random(), np.random.rand(), to_numpy(keras.initializers.RandomNormal()((2,)))
    keras.utils.set_random_seed(7)
    again = random.random(), np.random.rand(), to_numpy(keras.initializers.RandomNormal()((2,)))
    assert drawn[:2] == again[:2] and np.array_equal(drawn[2], again[2])


@pytest.mark.once
@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_in_which_a_training_runs_is_refused(tmp_path, resume):
    handle = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)  # as another process does
    try:
        assert "Another training is running in" in error_of(lambda: go_on(tmp_path, resume=resume))
    finally:
        os.close(handle)
    context = go_on(tmp_path, resume=resume)
    assert context.lock is go_on(tmp_path).lock


@pytest.mark.once
def test_an_output_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    message = error_of(lambda: go_on(tmp_path / "file"))
    assert "`output_dir` must be a folder. Received: the file " in message
    assert "Not a directory. Pass another `output_dir`" in error_of(
        lambda: go_on(tmp_path / "file" / "run")
    )

    def read_only(path, *args, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "open", read_only)
    assert "Read-only file system" in error_of(lambda: go_on(tmp_path / "run"))
