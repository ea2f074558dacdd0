import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.models.transformer import Transformer
from tests.models.tensor_parallel import EPOCHS, train

BACKEND = keras.backend.backend()
# Of a model of 32 tokens, hidden_dim 8, intermediate_dim 16 and 2 heads, what each of 2 devices
# holds. They share the vocabulary, the heads and the inner units.
SHARDS = {
    "token_embedding/embeddings": (16, 8),
    "query/kernel": (8, 4),
    "key/kernel": (8, 4),
    "value/kernel": (8, 4),
    "attention/output/kernel": (4, 8),
    "query/bias": (4,),
    "key/bias": (4,),
    "value/bias": (4,),
    "attention/output/bias": (8,),
    "intermediate/kernel": (8, 8),
    "intermediate/bias": (8,),
    "feed_forward/output/kernel": (8, 8),
    "feed_forward/output/bias": (8,),
    "position_encoding/embeddings": (6, 8),
    "norm/gamma": (8,),
    "norm/beta": (8,),
}


def mesh(*names):
    return keras.distribution.DeviceMesh((1,) * len(names), names, ["cpu:0"])


@pytest.mark.once
def test_dimensions_may_have_other_names():
    layout_map = Transformer.get_layout_map(
        mesh("rows", "columns"), model_parallel_dim_name="columns", data_parallel_dim_name="rows"
    )
    layout = layout_map["encoder_layer_11/self_attention/query/kernel"]
    assert tuple(layout.axes) == (None, "columns")


@pytest.mark.once
@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (("batch", "heads"), {}, "`model_parallel_dim_name`.*batch, heads.*Received.*'model'"),
        (("data", "model"), {}, "`data_parallel_dim_name`.*data, model.*Received.*'batch'"),
        (("batch",), {"model_parallel_dim_name": "batch"}, "two dimensions.*'batch' for both"),
        (None, {}, r"`device_mesh`.*DeviceMesh.*Received: device_mesh=\(2"),
    ],
)
def test_wrong_meshes_are_refused(names, options, words):
    with pytest.raises(ValueError, match=words):
        Transformer.get_layout_map((2, 2) if names is None else mesh(*names), **options)


@pytest.fixture(scope="module")
def on_four_devices(tmp_path_factory):
    if BACKEND != "jax":
        pytest.skip("Keras spreads weights over devices on JAX")
    output = tmp_path_factory.mktemp("layout") / "results.npz"
    process = subprocess.run(
        [sys.executable, "-m", "tests.models.tensor_parallel", output],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "KERAS_BACKEND": "jax", "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return dict(np.load(output))


@pytest.mark.each_backend
def test_weights_are_shared_out(on_four_devices):
    shards = {
        key.removeprefix("shard "): tuple(shape)
        for key, shape in on_four_devices.items()
        if key.startswith("shard ")
    }
    for path, shape in shards.items():
        (expected,) = (size for end, size in SHARDS.items() if path.endswith(end))
        assert shape == expected, path
    assert all(any(path.endswith(end) for path in shards) for end in SHARDS)


@pytest.mark.each_backend
def test_four_devices_train_as_one(on_four_devices):
    model, expected = train()
    assert len(expected["loss"]) == EPOCHS and expected["loss"][-1] < expected["loss"][0] - 0.3
    for name, values in expected.items():
        np.testing.assert_allclose(on_four_devices[name], values, rtol=1e-5, err_msg=name)
    for weight in model.weights:
        np.testing.assert_allclose(
            on_four_devices[f"weight {weight.path}"], np.array(weight.value), atol=1e-5, rtol=0
        )
