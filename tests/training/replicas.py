"""Train the same few steps on any devices, and write down what came of it.

python -m tests.training.replicas OUTPUT.npz [choose_devices' arguments as JSON]
"""

import functools
import json
import random
import sys
import tempfile

import keras
import numpy as np

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.layers.dropout import Dropout
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import Perplexity, TokenAccuracy
from keras_transformer.training.distribution import choose_devices
from keras_transformer.training.optimizer import WholeBatchOptimizer
from tests.helpers import dtype_policy, to_numpy
from tests.small_corpus import new_model, quick_model, sentence_pairs, tokenizer

STEPS = 20
# Two batches of the run with Adam have a weight that is NaN, in their last row alone.
SPOILED = (3, 7)
# Not Adam alone: it hides a wrong scale of the gradients.
RUNS = {
    "sgd": functools.partial(keras.optimizers.SGD, 0.5),
    # The gradients' norms are from below to above 0.2.
    "accumulated": lambda: WholeBatchOptimizer(
        keras.optimizers.SGD(3.0, use_ema=True, ema_momentum=0.8), accumulate=3, clip_norm=0.2
    ),
    "adam": lambda: WholeBatchOptimizer(
        keras.optimizers.Adam(0.03, epsilon=1e-4), loss_scaling=True, dynamic_growth_steps=4
    ),
    "float16": lambda: WholeBatchOptimizer(keras.optimizers.SGD(0.5)),
}


class Spoiled(TokenBatches):
    def batch(self, epoch, index):
        inputs, targets, weights = super().batch(epoch, index)
        part, parts = self.shard
        if part == parts - 1 and epoch * len(self) + index in SPOILED:
            weights[-1] = np.nan
        return inputs, targets, weights


def make_batches(folder, rows_multiple, num_shapes=2, kind=TokenBatches, **options):
    store = TokenStore.build(f"{folder}/tokens", sentence_pairs(31), tokenizer())
    return kind(store, 256, num_shapes, rows_multiple, **options)


def train(name, devices, rows_multiple):
    """Losses, metrics and final weights of one of the runs: `{name: array}`."""
    optimizer = RUNS[name]
    with tempfile.TemporaryDirectory() as folder:
        train_batches = make_batches(
            folder,
            rows_multiple,
            num_shapes=1 if name == "sgd" else 2,  # A Transformer takes a while to compile.
            kind=Spoiled if name == "adam" else TokenBatches,
            shard=devices.shard,
            accumulate=3 if name == "accumulated" else 1,
        )
        val_batches = make_batches(folder, rows_multiple, shard=devices.shard, training=False)
        policy = "mixed_float16" if name == "float16" else "float32"
        random.seed(0)  # Keras takes the seeds of dropout from it.
        with devices.scope(), dtype_policy(policy):
            model = new_model(dropout=0.3) if name == "sgd" else quick_model(dropout=0.3)
            model.compile(
                optimizer(),
                LabelSmoothedCrossentropy(reduction="sum"),
                weighted_metrics=[TokenAccuracy(), Perplexity()],
                # XLA, which not all devices have, would take most of the time.
                jit_compile=keras.backend.backend() == "jax",
            )
        # One step an epoch: the history then has every step's loss.
        history = model.fit(
            train_batches.stream(),
            shuffle=False,
            steps_per_epoch=1,
            epochs=STEPS,
            validation_data=val_batches if name == "sgd" else None,
            verbose=0,
        ).history
    results = {key: np.array(values) for key, values in history.items()}
    for i, weights in enumerate(model.get_weights()):
        results[f"weights {i}"] = weights
    results["dropout states"] = np.array(
        [
            on_each_device(variable, devices)
            for variable in model.non_trainable_variables
            if variable.name == "seed_generator_state"
        ]
    )
    for state in ("iterations", "num_skipped", "batches", "dynamic_scale"):
        if hasattr(model.optimizer, state):
            results[state] = to_numpy(getattr(model.optimizer, state))
    return results


def on_each_device(variable, devices):
    """The value of a variable, which must be the same on each device."""
    if devices.strategy is None:
        return to_numpy(variable)
    first, *others = devices.strategy.experimental_local_results(variable.value)
    for other in others:
        np.testing.assert_array_equal(to_numpy(other), to_numpy(first))
    return to_numpy(first)


def dropped(devices, rows):
    """What each replica of TensorFlow drops, that has so many rows of 4: arrays of booleans."""
    import tensorflow as tf

    with devices.scope():
        layer = Dropout(0.5, seed=7)
    batches = devices.strategy.experimental_distribute_values_from_function(
        lambda context: tf.ones((rows[context.replica_id_in_sync_group], 4))
    )
    drop = tf.function(lambda batch: layer(batch, training=True) == 0)
    results = devices.strategy.run(drop, (batches,))
    return [to_numpy(result) for result in devices.strategy.experimental_local_results(results)]


def error_under_xla(devices):
    """What TensorFlow says of a `fit` that XLA compiles."""
    import tensorflow as tf

    with devices.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=True)
    try:
        model.fit(np.ones((2, 1)), np.ones((2, 1)), batch_size=2, verbose=0)
    except tf.errors.InvalidArgumentError as error:
        return str(error)


def main(output, devices):
    devices = choose_devices(**json.loads(devices))
    runs = {}
    if devices.strategy is not None:
        runs["error under XLA"] = error_under_xla(devices)
        for rows in ((3, 3), (3, 2)):
            for replica, mask in enumerate(dropped(devices, rows)):
                runs[f"dropped {rows} {replica}"] = mask
    for name in RUNS:
        for key, value in train(name, devices, devices.num_replicas).items():
            runs[f"{name} {key}"] = value
    np.savez(output, num_replicas=devices.num_replicas, **runs)


if __name__ == "__main__":
    main(*sys.argv[1:])
