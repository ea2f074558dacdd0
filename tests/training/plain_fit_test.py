"""A user's `compile` and `fit` on two devices: the token mean over the whole batch."""

import json

import keras
import numpy as np
import pytest

from keras_transformer.training.distribution import Devices
from tests.training.distribution_test import run_together
from tests.training.plain_fit import RUNS, make_data, train

BACKEND = keras.backend.backend()
# TensorFlow has replicas, whose losses and gradients must be shares of the whole batch's.
MARK = pytest.mark.each_backend if BACKEND == "tensorflow" else pytest.mark.each_backend_long


def test_the_replicas_parts_are_uneven():
    _, targets, _ = make_data()
    parts = [(targets[i : i + 2] != 0).sum() for i in range(0, 8, 2)]
    assert all(2 * x < y for x, y in zip(parts[::2], parts[1::2]))


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch trains on one device")
@pytest.mark.parametrize("name", [pytest.param("fused", marks=MARK), "plain"])
def test_two_devices_fit_as_one(tmp_path, name):
    output, options = tmp_path / "two.npz", json.dumps({"num_replicas": 2})
    run_together(tmp_path / "log", ["-m", "tests.training.plain_fit", output, name, options])
    two_devices = np.load(output)
    assert two_devices["num_replicas"] == 2
    expected = train(name, Devices(1))
    assert {"loss", "accuracy", "val_loss", "weights 3"} < set(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(two_devices[key], value, atol=1e-6, rtol=1e-5, err_msg=key)


def test_fused_and_plain_steps_come_to_the_same():
    fused, plain = (train(name, Devices(1)) for name in RUNS)
    for key in fused.keys() & plain.keys():
        np.testing.assert_allclose(fused[key], plain[key], atol=1e-6, rtol=1e-5, err_msg=key)
    assert fused["loss"][-1] < fused["loss"][0] - 0.1
