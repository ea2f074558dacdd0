"""Train a `Transformer` on a mesh of 2 by 2 devices, and write down what came of it.

python -m tests.models.tensor_parallel OUTPUT.npz
"""

import random
import sys

import keras
import numpy as np

from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import TokenAccuracy
from keras_transformer.models.transformer import Transformer
from tests.helpers import randomize

EPOCHS = 5


def train():
    """The model, and its losses and metrics: `{name: array}`."""
    random.seed(0)  # Keras takes the seeds of dropout from it.
    model = Transformer(
        *(32, 1, 8, 16, 2),
        dropout=0.3,
        use_bias=True,
        position_encoding="learned",
        max_length=6,
    )
    randomize(model)
    model.compile(
        keras.optimizers.SGD(0.5), LabelSmoothedCrossentropy(), weighted_metrics=[TokenAccuracy()]
    )
    generator = np.random.default_rng(0)
    source, target = generator.integers(4, 32, (2, 8, 6))
    source[:3, 4:] = target[2:5, 3:] = 0
    inputs = {"encoder_token_ids": source, "decoder_token_ids": np.roll(target, 1, axis=1)}
    history = model.fit(inputs, target, batch_size=4, shuffle=False, epochs=EPOCHS, verbose=0)
    return model, {name: np.array(values) for name, values in history.history.items()}


def main(output):
    import jax

    jax.config.update("jax_num_cpu_devices", 4)
    mesh = keras.distribution.DeviceMesh((2, 2), ("batch", "model"))
    keras.distribution.set_distribution(
        keras.distribution.ModelParallel(
            layout_map=Transformer.get_layout_map(mesh), batch_dim_name="batch"
        )
    )
    model, results = train()
    for weight in model.weights:
        results[f"weight {weight.path}"] = np.array(weight.value)
        # What one device holds of it.
        results[f"shard {weight.path}"] = weight.value.addressable_shards[0].data.shape
    np.savez(output, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
