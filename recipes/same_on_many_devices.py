"""Train ten updates, with dropout, on 1, 2 and 4 devices, and compare the losses.

    KERAS_BACKEND=jax python recipes/same_on_many_devices.py
    KERAS_BACKEND=tensorflow python recipes/same_on_many_devices.py 3 6

The devices are parts of the CPU. They are made before the backend starts, so each number of devices
has its own process, which runs this script with `--train-on N`.
"""

import json
import os
import subprocess
import sys

NUM_UPDATES = 10
NUM_ROWS = 12  # batch size, which the number of devices must divide
TOLERANCE = 1e-5


def main(counts):
    losses = {count: losses_on(count) for count in (1, *counts)}
    print("update", *(f"{count} device{'s' * (count > 1)}" for count in losses), sep="\t")
    for update, row in enumerate(zip(*losses.values()), 1):
        print(update, *(f"{loss:.7f}" for loss in row), sep="\t")
    worst = max(abs(a / b - 1) for row in losses.values() for a, b in zip(row, losses[1]))
    print(f"largest relative difference from 1 device: {worst:.1e}")
    if worst > TOLERANCE:
        sys.exit(f"That is more than {TOLERANCE:.0e}.")


def losses_on(count):
    """Return the losses on `count` devices of the CPU, from another process."""
    process = subprocess.run(
        [sys.executable, __file__, "--train-on", str(count)],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
    )
    if process.returncode:
        sys.exit(process.returncode)
    return json.loads(process.stdout)


def train(count):
    """Train a small model on `count` devices, and print the loss of each update."""
    import keras

    import keras_transformer as kt

    try:
        devices = kt.training.choose_devices(count)
    except kt.UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    keras.utils.set_random_seed(1)  # weights and dropout
    with devices.scope():
        model = kt.Transformer(
            vocabulary_size=100,
            num_layers=1,
            hidden_dim=32,
            intermediate_dim=64,
            num_heads=4,
            dropout=0.3,
        )
        model.compile(
            # Not Adam, which would hide a wrong scale of the gradients.
            keras.optimizers.SGD(0.2),
            kt.LabelSmoothedCrossentropy(reduction="sum"),
            jit_compile=devices.jit_compile,
        )
    inputs, targets, weights = make_batch()
    history = model.fit(
        inputs,
        targets,
        sample_weight=weights,
        batch_size=NUM_ROWS,
        epochs=NUM_UPDATES,  # of one update each, because the history has one loss per epoch
        shuffle=False,
        verbose=0,
    ).history
    print(json.dumps(history["loss"]))


def make_batch():
    """Return random sentences. They are far longer in the rows of the first device."""
    import numpy as np

    generator = np.random.default_rng(0)
    source, target = generator.integers(4, 100, (2, NUM_ROWS, 16))
    for row in range(NUM_ROWS):
        source[row, 16 - row :] = target[row, 15 - row :] = 0  # padding
    inputs = {"encoder_token_ids": source, "decoder_token_ids": np.roll(target, 1, axis=1)}
    # Each token's share of the whole batch, so that the devices' losses only need to be added.
    is_token = (target > 0).astype("float32")
    return inputs, target, is_token / is_token.sum()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train-on"]:
        train(int(sys.argv[2]))
    else:
        main([int(count) for count in sys.argv[1:]] or [2, 4])
