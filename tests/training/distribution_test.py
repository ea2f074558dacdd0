import functools
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.layers.dropout import Dropout
from keras_transformer.training.distribution import Devices, choose_devices
from tests.helpers import to_numpy
from tests.training.replicas import RUNS, SPOILED, STEPS, make_batches, train

ROOT = Path(__file__).parents[2]
BACKEND = keras.backend.backend()
ADDRESS = "localhost:1234"


def test_one_device_needs_no_strategy():
    devices = choose_devices(1)
    assert devices.num_replicas == 1 and devices.shard == (0, 1)
    assert devices.jit_compile == (BACKEND != "torch")
    with devices.scope():
        pass


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(({"num_replicas": n}, f"`num_replicas`.*num_replicas={n}") for n in (0, -2)),
        ({"num_processes": 0}, "`num_processes`.*0"),
        ({"process_id": 1}, "`process_id`.*0 to 0.*process_id=1"),
        ({"num_processes": 2, "process_id": 2, "coordinator": ADDRESS}, "0 to 1.*process_id=2"),
        ({"num_processes": 2, "process_id": -1, "coordinator": ADDRESS}, "process_id=-1"),
        ({"num_processes": 2}, "`coordinator`.*HOST:PORT.*coordinator=None"),
        ({"num_processes": 2, "coordinator": "localhost"}, "HOST:PORT.*coordinator=localhost"),
        ({"coordinator": ADDRESS}, f"`coordinator` must not be set.*{ADDRESS}"),
    ],
)
def test_invalid_numbers_of_devices_and_processes_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        choose_devices(**options)


@pytest.mark.parametrize(
    ("backends", "options", "words"),
    [
        (
            "tensorflow torch",
            {"coordinator": ADDRESS, "num_processes": 2, "process_id": 1},
            "num_processes=2.*MultiWorker.*Set KERAS_BACKEND=jax",
        ),
        ("torch", {"num_replicas": 2}, "num_replicas=2.*KERAS_BACKEND=tensorflow or jax"),
        ("jax", {"num_replicas": 16}, "at most 1, the number of cpu devices.*num_replicas=16"),
    ],
)
def test_devices_that_a_backend_does_not_have_are_refused(backends, options, words):
    if BACKEND not in backends:
        pytest.skip(f"a limit of {backends}")
    keras.ops.zeros(()) + 1  # JAX has started: its devices cannot be chosen any more.
    with pytest.raises(ValueError, match=words):
        choose_devices(**options)


# The devices can only be chosen before the backend starts: in processes of their own.


def run_together(log, *commands):
    """Run Python with each list of arguments, all at the same time."""
    with open(log, "w+") as output:
        processes = [
            subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                cwd=ROOT,
                # Without GPUs, if there are any.
                env={**os.environ, "KERAS_BACKEND": BACKEND, "CUDA_VISIBLE_DEVICES": "-1"},
                stdout=output,
                stderr=output,
            )
            for arguments in commands
        ]
        try:
            statuses = [process.wait(timeout=1800) for process in processes]
        finally:
            for process in processes:
                process.kill()
        output.seek(0)
        assert not any(statuses), output.read()


@functools.cache
def on_one_device(name):
    return train(name, Devices(1), rows_multiple=2)


def assert_same(results, name):
    """What several devices wrote is what one device comes to."""
    expected = on_one_device(name)
    prefix = f"{name} "
    assert {key for key in results if key.startswith(prefix)} == {prefix + key for key in expected}
    # Each device rounds its part of a gradient to the 11 bits of float16.
    weights, others = (1e-3, 3e-4) if name == "float16" else (1e-6, 1e-5)
    for key, value in expected.items():
        is_weight = key.startswith("weights")
        tolerance = {"atol": weights, "rtol": 0} if is_weight else {"rtol": others}
        np.testing.assert_allclose(results[prefix + key], value, **tolerance, err_msg=key)


def trainings(folder, *processes):
    """What each of the processes, described by `choose_devices`' arguments, writes."""
    outputs = [folder / f"process-{i}.npz" for i in range(len(processes))]
    commands = [
        ["-m", "tests.training.replicas", output, json.dumps(devices)]
        for output, devices in zip(outputs, processes)
    ]
    run_together(folder / "log", *commands)
    return [dict(np.load(output)) for output in outputs]


@pytest.fixture(scope="module")
def two_devices(tmp_path_factory):
    if BACKEND == "torch":
        pytest.skip("PyTorch trains on one device")
    (results,) = trainings(tmp_path_factory.mktemp("two"), {"num_replicas": 2})
    return results


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    if BACKEND != "jax":
        pytest.skip("several processes need JAX")
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
    processes = {"coordinator": address, "num_processes": 2}
    folder = tmp_path_factory.mktemp("two")
    return trainings(folder, *({**processes, "process_id": i} for i in range(2)))


def test_the_replicas_parts_of_a_batch_are_uneven(tmp_path):
    batches = make_batches(tmp_path, rows_multiple=2)
    tokens = [(batches[i][1] > 0).reshape(2, -1).sum(axis=1) for i in range(len(batches))]
    assert all(max(parts) > 1.2 * min(parts) for parts in tokens)


@pytest.mark.parametrize("name", RUNS)
def test_two_devices_train_as_one(two_devices, name):
    assert two_devices["num_replicas"] == 2
    assert_same(two_devices, name)


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_train_as_one(two_processes, name):
    for results in two_processes:
        assert results["num_replicas"] == 2
        assert_same(results, name)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="its replicas know only their own rows")
def test_replicas_drop_by_the_place_in_the_global_batch(two_devices):
    whole = to_numpy(Dropout(0.5, seed=7)(np.ones((6, 4), "float32"), training=True)) == 0
    for rows, starts in (((3, 3), (0, 3)), ((3, 2), (0, 2))):
        for replica, (start, count) in enumerate(zip(starts, rows)):
            mask = two_devices[f"dropped {rows} {replica}"]
            np.testing.assert_array_equal(mask, whole[start : start + count])


@pytest.mark.skipif(BACKEND != "tensorflow", reason="JAX compiles for all devices at once")
def test_replicas_cannot_train_with_xla(two_devices):
    # Keras has XLA compile all replicas as one program, and a program runs on one device. Should
    # this not be an error any more, `Devices.jit_compile` can be true.
    message = str(two_devices["error under XLA"])
    assert re.search("access resource.*located in device.*CPU:1 from device.*CPU:0", message)


@pytest.mark.parametrize("num_replicas", [1, 2, 8])
def test_xla_compiles_where_it_is_supported(num_replicas):
    expected = {"jax": True, "tensorflow": num_replicas == 1, "torch": False}
    assert Devices(num_replicas).jit_compile == expected[BACKEND]


@pytest.mark.slow
def test_the_compared_runs_accumulate_clip_and_average():
    sgd, accumulated, adam = (on_one_device(name) for name in ("sgd", "accumulated", "adam"))
    assert len(sgd["loss"]) == STEPS
    assert sgd["loss"][-1] < sgd["loss"][0] - 0.5
    # Masks drawn: two embeddings', and those of 2 and 3 sub-layers' outputs.
    calls = sorted(sgd["dropout states"][:, 1] // STEPS)
    assert calls == [1, 1, 2, 3]
    assert adam["loss"][-1] < adam["loss"][0] - 0.5
    # Three batches' losses have the token mean as their mean.
    token_means = accumulated["loss"][: STEPS // 3 * 3].reshape(-1, 3).mean(axis=1)
    assert token_means[-1] < token_means[0] - 0.5
    assert (accumulated["iterations"], accumulated["batches"]) == (STEPS // 3, STEPS)
    assert np.isnan(adam["loss"]).nonzero()[0].tolist() == list(SPOILED)
    assert (adam["iterations"], adam["num_skipped"]) == (STEPS - 2, 2)
    # 3, 3 and 12 updates, between them the two that halved the scale; every 4 double it.
    assert adam["dynamic_scale"] == 2**15 / 2 / 2 * 2**3
    float16 = on_one_device("float16")
    assert np.mean(float16["loss"][-4:]) < np.mean(float16["loss"][:4]) - 0.4
    assert (float16["iterations"], float16["num_skipped"]) == (STEPS, 0)


DETERMINISTIC = """
import sys
import keras
import numpy as np
from keras_transformer.training.distribution import choose_devices, make_deterministic

make_deterministic()
devices = choose_devices(1)

from keras_transformer.models.losses import LabelSmoothedCrossentropy
from tests import small_corpus
from tests.training.replicas import make_batches

weights = []
for run in range(2):
    keras.utils.set_random_seed(1)
    model = getattr(small_corpus, sys.argv[2])(dropout=0.3)
    loss = LabelSmoothedCrossentropy(reduction="sum")
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=devices.jit_compile)
    batches = make_batches(f"{sys.argv[1]}/{run}", 1, num_shapes=1)
    model.fit(batches.stream(), steps_per_epoch=5, verbose=0)
    weights.append(model.get_weights())
for first, second in zip(*weights):
    np.testing.assert_array_equal(first, second)
if keras.backend.backend() == "tensorflow":
    from tensorflow.python.framework import config
    assert config.is_op_determinism_enabled()
if keras.backend.backend() == "torch":
    import torch
    assert torch.are_deterministic_algorithms_enabled()
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["quick_model", "new_model"])
def test_two_deterministic_trainings_are_the_same_bit_for_bit(tmp_path, model):
    run_together(tmp_path / "log", ["-c", DETERMINISTIC, tmp_path, model])
