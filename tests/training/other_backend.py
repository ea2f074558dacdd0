"""Train a few steps, keep the state, and go on: `other_backend.py FOLDER`. Prints the losses since,
in JSON.
"""

import json
import sys
from pathlib import Path

import keras

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.training.optimizer import NoamSchedule, paper_optimizer
from keras_transformer.training.training_state import Snapshot, TrainingState
from tests.small_corpus import quick_model, sentence_pairs, tokenizer

STEPS_BEFORE, STEPS_AFTER = 6, 4


def train(folder, state):
    """Train from a state on, with dropout, and keep the state after `STEPS_BEFORE` steps."""
    keras.utils.set_random_seed(1 + state.step)
    model = quick_model(dropout=0.2)
    model.compile(
        # The recipes'. Keras's own updates an embedding otherwise on TensorFlow: row by row.
        paper_optimizer(NoamSchedule(16, 4)),
        LabelSmoothedCrossentropy(reduction="sum"),
        run_eagerly=keras.backend.backend() != "jax",
    )
    state.restore(model)
    batches = TokenBatches(TokenStore(folder / "store"), 100, num_shapes=1)
    losses = []
    for step in range(state.batches, STEPS_BEFORE + STEPS_AFTER):
        if state.step < step == STEPS_BEFORE:
            path = folder / f"step-{step}.state.weights.h5"
            facts = {"step": step, "batches": step, "seconds": 0.0, "history": {}, "run": {}}
            Snapshot(model, **facts).write(path)
        losses.append(float(model.train_on_batch(*batches.batch(*divmod(step, len(batches))))))
    return losses[-STEPS_AFTER:]


def main(folder):
    folder = Path(folder)
    TokenStore.build(folder / "store", sentence_pairs(40), tokenizer())
    print(json.dumps(train(folder, TrainingState())))


if __name__ == "__main__":
    main(*sys.argv[1:])
