"""Trainings that are killed, or change their backend, and go on."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.training.training_state import newest_state
from tests.training import killed_training, other_backend

ROOT = Path(__file__).parents[2]

# By number, what is done to files from one checkpoint to the next: a temporary folder is made, and
# locked, its file moved into place, ...
FILE_KILLS = "1,2,3,5,7,8,9,10,11,15,20,21,22,27,28"
# Once when the first checkpoint is there, and once while the next is written.
TWO_KILLS = "28,21"


def run_module(module, *arguments, backend=None, **environment):
    """Run a module of the tests in another process; returns the JSON of its last line."""
    backend = {"KERAS_BACKEND": backend or keras.backend.backend()}
    process = subprocess.run(
        [sys.executable, "-m", module.__name__, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **backend, **environment},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def kill(folder, file_kills, timed_kills):
    """How often the training was killed, killed while it wrote, resumed."""
    report = run_module(
        killed_training,
        *(folder, file_kills, timed_kills, 0),
        # Each process would compile anew.
        JAX_COMPILATION_CACHE_DIR=str(folder / "compiled"),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    )
    assert report["ends"] >= 1 and report["differences"] == []
    return np.array([report[name] for name in ("kills", "while_writing", "resumed")])


@pytest.mark.slow
def test_a_training_killed_while_writing_resumes_exactly(tmp_path):
    assert (kill(tmp_path, TWO_KILLS, 0) >= (2, 1, 1)).all()


@pytest.mark.slow
def test_a_training_killed_at_any_moment_resumes_exactly(tmp_path):
    # TensorFlow dies before each of the things done to files, the others before two.
    if keras.backend.backend() == "tensorflow":
        assert (kill(tmp_path, FILE_KILLS, 12) >= (20, 10, 5)).all()
    else:
        assert (kill(tmp_path, TWO_KILLS, 2) >= (4, 1, 2)).all()


OTHER = {"tensorflow": "jax", "jax": "tensorflow", "torch": "jax"}


@pytest.mark.slow
def test_a_training_resumes_on_another_backend(tmp_path):
    other = OTHER[keras.backend.backend()]
    if importlib.util.find_spec(other) is None:
        pytest.skip(f"{other} is not installed.")
    losses = run_module(other_backend, tmp_path, backend=other)
    state = newest_state(tmp_path)
    assert state.step == other_backend.STEPS_BEFORE
    assert other_backend.train(tmp_path, state) == pytest.approx(losses, abs=1e-4)
