"""Several processes: one writes, the others need nothing, and they stop together."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.training.training_state import list_states

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="several processes need JAX"
)

ROOT = Path(__file__).parents[2]
OPTIONS = {
    **{"vocabulary_size": 60, "batch_tokens": 256, "num_shapes": 1, "seed": 3, "num_processes": 2},
    **{"steps": 8, "interval": 3, "average": 2, "warmup_steps": 4},
}
# Of a defect, and of what stands in its way to an error in one line.
TRACEBACK, ONE_LINE = 1, 2


def train(folder, *faults, of_second=None, **options):
    """Train in two processes, in `folder/0` and `folder/1`.

    Returns:
        Their statuses, and what they print on standard error.
    """
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
    processes = []
    for i, fault in enumerate(faults or ("none", "none")):
        given = {**OPTIONS, **options, **((of_second or {}) if i else {})}
        arguments = {**given, "coordinator": address, "process_id": i}
        command = [folder / str(i), fault, json.dumps(arguments)]
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.training.together", *map(str, command)],
                cwd=ROOT,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        # Less than the minutes that JAX lets a process wait for another.
        errors = [process.communicate(timeout=200)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], errors


def line_of(errors):
    """The one line that begins with `error:`."""
    (line,) = [line for line in errors.splitlines() if line.startswith("error: ")]
    return line


def files_of(folder):
    return sorted(str(x.relative_to(folder)) for x in folder.rglob("*") if x.is_file())


def assert_same_weights(*folders):
    """The weights that all processes of several trainings came to, bit for bit."""
    first, *others = [dict(np.load(folder / f"{i}.npz")) for folder in folders for i in range(2)]
    assert any(values.any() for values in first.values())
    for other in others:
        assert first.keys() == other.keys()
        for name in first:
            np.testing.assert_array_equal(first[name], other[name])


@pytest.mark.slow
def test_a_full_disk_stops_all_with_one_line(tmp_path):
    statuses, errors = train(tmp_path, "full", "none")
    assert statuses == [ONE_LINE, ONE_LINE], errors
    words = "Cannot write the checkpoint of step 3: No space left on device."
    assert line_of(errors[0]).startswith(f"error: {words}")
    assert line_of(errors[1]).startswith(f"error: Process 0 of the training has stopped: {words}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    statuses, errors = train(folder)
    assert statuses == [0, 0], errors
    return folder


@pytest.mark.slow
def test_only_process_0_writes(whole, tmp_path):
    files = files_of(whole / "0")
    checkpoints = [f"step-{n}.{x}.h5" for n in (6, 8) for x in ("state.weights", "weights")]
    assert [x for x in files if "checkpoints" in x] == [f"checkpoints/{x}" for x in checkpoints]
    for name in ("averaged.weights.h5", "history.json", "tokenizer.spm", "training.png"):
        assert name in files
    # The other sees no folder of the first one's here: it has the corpus in tokens, to read it.
    assert {Path(x).parts[:2] for x in files_of(whole / "1")} == {("process-1", "tokens")}
    # Where it sees it, it has nothing at all of its own.
    (tmp_path / "0").mkdir()
    (tmp_path / "1").symlink_to(tmp_path / "0")
    statuses, errors = train(tmp_path)
    assert statuses == [0, 0], errors
    assert [x for x in files_of(tmp_path / "0") if "tensorboard" not in x] == [
        x for x in files if "tensorboard" not in x
    ]
    assert_same_weights(whole, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("faults", [("none", "stopped"), ("stopped", "none")])
def test_a_signal_to_one_process_stops_all_and_they_resume(whole, tmp_path, faults):
    statuses, errors = train(tmp_path, *faults)
    assert statuses == [128 + signal.SIGTERM] * 2, errors
    state = list_states(tmp_path / "0" / "checkpoints")[-1]
    assert f"Stopped. The last good checkpoint is {state}." in errors[0]
    assert "Stopped. Process 0 has the checkpoints." in errors[1]
    go_on_elsewhere(whole, tmp_path)


def go_on_elsewhere(whole, folder):
    """Go on with another machine in the second one's place, which has no file."""
    shutil.rmtree(folder / "1")
    statuses, errors = train(folder, resume=True)
    assert statuses == [0, 0], errors
    assert_same_weights(whole, folder)


@pytest.mark.slow
@pytest.mark.parametrize("dead", [0, 1])
def test_killed_processes_resume_the_same_training(whole, tmp_path, dead):
    statuses, errors = train(tmp_path, *(["killed", "none"], ["none", "killed"])[dead])
    assert statuses[dead] == -signal.SIGKILL, errors
    # JAX itself ends those who have lost process 0.
    assert statuses[1 - dead] in ((ONE_LINE, -signal.SIGABRT) if dead == 0 else (ONE_LINE,)), errors
    if dead:
        assert "Another process of the training has ended" in line_of(errors[0])
    assert list_states(tmp_path / "0" / "checkpoints")
    go_on_elsewhere(whole, tmp_path)


@pytest.mark.slow
def test_a_nan_loss_stops_all_processes(tmp_path):
    statuses, errors = train(tmp_path, "none", "spoiled")
    assert statuses == [ONE_LINE, ONE_LINE], errors
    for each in errors:
        assert re.search("error: .*The loss is nan at step 8", line_of(each))


@pytest.mark.slow
def test_an_error_of_one_process_ends_the_others(tmp_path):
    statuses, errors = train(tmp_path, "none", "defect")
    assert statuses == [ONE_LINE, TRACEBACK], errors
    assert "Another process of the training has ended" in line_of(errors[0])
    assert "a defect" in errors[1]


@pytest.mark.slow
def test_different_options_are_refused_in_all_processes(whole, tmp_path):
    statuses, errors = train(whole)
    assert statuses == [ONE_LINE, ONE_LINE], errors
    for each in errors:
        assert "holds checkpoints of an earlier training. Pass `resume=True`" in line_of(each)
    statuses, errors = train(tmp_path, of_second={"seed": 4})
    assert statuses == [ONE_LINE, ONE_LINE], errors
    words = "Received in process 1: seed=4 (there 3)"
    for each in errors:
        assert words in line_of(each)
