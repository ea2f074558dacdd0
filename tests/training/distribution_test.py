import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from keras_transformer.training.distribution import choose_devices

ON_TENSORFLOW = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="replicas need the tensorflow backend"
)


def test_one_device():
    devices = choose_devices(1)
    assert devices.num_replicas == 1
    assert devices.jit_compile == (keras.backend.backend() != "torch")
    with devices.scope():
        pass


@pytest.mark.parametrize("num_replicas", [0, -2])
def test_too_few(num_replicas):
    with pytest.raises(ValueError, match=f"`num_replicas`.*Received: {num_replicas}"):
        choose_devices(num_replicas)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="the others' limit")
def test_other_backends_have_one_device():
    with pytest.raises(ValueError, match="2 replicas.*KERAS_BACKEND=tensorflow"):
        choose_devices(2)
    assert choose_devices().num_replicas == 1


# The devices can only be chosen before TensorFlow starts: in a process of its own.
SCRIPT = """
import sys
import keras
import numpy as np
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.training.distribution import choose_devices
from keras_transformer.training.losses import LabelSmoothedCrossentropy
from keras_transformer.training.metrics import TokenAccuracy

devices = choose_devices(2)
import tensorflow as tf
assert len(tf.config.list_logical_devices("CPU")) == 2
assert devices.num_replicas == devices.strategy.num_replicas_in_sync == 2
assert not devices.jit_compile

from tests.small_corpus import new_model, sentence_pairs, tokenizer

store = TokenStore.build(sys.argv[1] + "/tokens", sentence_pairs(31), tokenizer())
batches = TokenBatches(store, 256, num_shapes=2, rows_multiple=2)
# Uneven: the replicas' halves of a batch hold different numbers of tokens.
halves = [np.split((batch[1] > 0).sum(axis=1), 2) for batch in (batches[0], batches[1])]
assert all(first.sum() != second.sum() for first, second in halves)

def train(scope):
    with scope:
        model = new_model(dropout=0.0)
        model.compile(
            keras.optimizers.SGD(0.5),
            LabelSmoothedCrossentropy(reduction="sum"),
            weighted_metrics=[TokenAccuracy()],
            jit_compile=False,
        )
    history = model.fit(batches.stream(), steps_per_epoch=1, epochs=3, verbose=0)
    return history.history, model.get_weights()

import contextlib
two, two_weights = train(devices.scope())
one, one_weights = train(contextlib.nullcontext())
print(one["loss"], two["loss"])
assert one["loss"][2] < one["loss"][0]
for name in ("loss", "accuracy"):
    np.testing.assert_allclose(two[name], one[name], atol=1e-5, rtol=0)
for a, b in zip(two_weights, one_weights):
    np.testing.assert_allclose(a, b, atol=1e-5, rtol=0)
"""


@ON_TENSORFLOW
def test_two_replicas_train_as_one(tmp_path):
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        # Without GPUs, if there are any.
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
