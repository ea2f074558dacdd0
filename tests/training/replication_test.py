"""The whole batch's updates: by the inner optimizer alone, on one device, and by replicas."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.training.whole_batch_optimizer import WholeBatchOptimizer
from tests.helpers import to_numpy
from tests.training.shared_updates import CALLS, CASES, REPLICAS, expected, on_one_device

ROOT = Path(__file__).parents[2]

each_case = pytest.mark.parametrize(
    ("name", "num_replicas"), [(name, n) for name, numbers in REPLICAS.items() for n in numbers]
)


def assert_same(weights, name, num_replicas):
    for actual, value in zip(weights, expected(name, num_replicas)):
        np.testing.assert_allclose(actual, value, atol=2e-6, rtol=0)


@each_case
def test_one_device_updates_as_the_inner_optimizer(name, num_replicas):
    weights, optimizer = on_one_device(name, num_replicas)
    assert_same(weights, name, num_replicas)
    skipped = int(name in ("ema", "scaled", "all"))
    updates = CALLS // CASES[name][1].get("accumulate", 1)
    assert int(to_numpy(optimizer.iterations)) == updates - skipped
    assert int(to_numpy(optimizer.num_skipped)) == skipped
    assert int(to_numpy(optimizer.batches)) == CALLS


# Devices can only be made before TensorFlow starts: in a process of its own.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("replicas are TensorFlow's")
    folder = tmp_path_factory.mktemp("replicated")
    command = [sys.executable, "-m", "tests.training.shared_updates", folder]
    # Without GPUs, if there are any.
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    process = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return folder


@each_case
@pytest.mark.each_backend
def test_replicas_update_as_the_inner_optimizer(folder, name, num_replicas):
    results = np.load(folder / f"{name}-{num_replicas}.npz")
    assert_same([results["kernel"], results["bias"]], name, num_replicas)


@pytest.mark.parametrize(
    ("name", "reductions"),
    [
        ("sgd", [1] * CALLS),
        ("adamw", [0, 0, 1] * 4),
        # The norm of all replicas' gradients is needed before the inner optimizer adds them up.
        ("clipped", [0, 0, 2] * 4),
        # The second update is skipped.
        ("scaled", [0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1]),
    ],
)
def test_replicas_exchange_gradients_once_an_update(folder, name, reductions):
    assert np.load(folder / f"{name}-2.npz")["reductions"].tolist() == reductions


@pytest.mark.parametrize("name", ["adamw", "clipped"])
def test_a_state_within_an_update_resumes_on_other_devices(folder, name):
    weights, _ = on_one_device(name, 2, state=folder / f"{name}-2.state.weights.h5")
    assert_same(weights, name, 2)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's strategies")
def test_an_average_that_replicas_cannot_write_is_refused():
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        variable = keras.Variable(1.0)
        inner = keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2)
        optimizer = WholeBatchOptimizer(inner)
        optimizer.build([variable])
        with pytest.raises(ValueError, match="`ema_overwrite_frequency`.*replicas"):
            strategy.run(lambda: optimizer.apply([tf.constant(1.0)], [variable]))
