"""Train with nothing but `compile` and `fit` on any devices, and write down what came of it.

python -m tests.training.plain_fit OUTPUT.npz RUN [choose_devices' arguments as JSON]
"""

import functools
import json
import sys

import keras
import numpy as np

from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import Perplexity, TokenAccuracy
from keras_transformer.models.transformer import Transformer
from keras_transformer.training.distribution import choose_devices
from tests.helpers import randomize

# With a metric of another kind the step is not fused.
RUNS = {
    "fused": lambda: [TokenAccuracy(), Perplexity()],
    "plain": lambda: [
        TokenAccuracy(),
        keras.metrics.SparseCategoricalCrossentropy(from_logits=True),
    ],
}
# The last batch of 4 has 3 rows: TensorFlow's replicas have 2 and 1 of them. JAX's devices must
# have equal parts.
NUM_ROWS = 8 if keras.backend.backend() == "jax" else 7


def make_data():
    """Rows of 1 to 9 tokens, the short ones on the even places: replicas have unequal numbers."""
    rng = np.random.default_rng(0)
    lengths = np.where(np.arange(NUM_ROWS) % 4 < 2, 2, 9) - rng.integers(0, 2, NUM_ROWS)
    targets = rng.integers(4, 20, (NUM_ROWS, 9)) * (np.arange(9) < lengths[:, None])
    inputs = {"encoder_token_ids": rng.integers(4, 20, (NUM_ROWS, 5)), "decoder_token_ids": targets}
    return inputs, targets, rng.random(NUM_ROWS).astype("float32")


@functools.cache
def train(name, devices):
    """Losses, metrics and final weights of one of the runs: `{name: array}`."""
    inputs, targets, weights = make_data()
    with devices.scope():
        model = randomize(Transformer(20, 1, 8, 16, 2, dropout=0.0))
        model.token_embedding.embeddings.regularizer = keras.regularizers.L2(0.02)
        model.compile(
            keras.optimizers.SGD(0.1),
            LabelSmoothedCrossentropy(),
            weighted_metrics=RUNS[name](),
            jit_compile=keras.backend.backend() == "jax",
        )
    history = model.fit(
        inputs,
        targets,
        sample_weight=weights,
        batch_size=4,
        epochs=3,
        shuffle=False,
        validation_data=(inputs, targets),
        verbose=0,
    ).history
    arrays = {f"weights {i}": weight for i, weight in enumerate(model.get_weights())}
    return {**{key: np.array(values) for key, values in history.items()}, **arrays}


def main(output, name, devices):
    devices = choose_devices(**json.loads(devices))
    np.savez(output, num_replicas=devices.num_replicas, **train(name, devices))


if __name__ == "__main__":
    main(*sys.argv[1:])
