"""Train in one of several processes, each with a folder of its own.

python -m tests.training.together FOLDER FAULT OPTIONS, those of `TrainingOptions` as JSON.
FAULT is what happens to this process at a batch, or when it writes: see `FAULTS`.
"""

import json
import os
import signal
import sys
import time
from itertools import chain
from pathlib import Path

import numpy as np

import keras_transformer as kt
from keras_transformer.option_fields import from_keywords
from keras_transformer.tasks.pipeline import make_tokenizer
from keras_transformer.training import rolling_checkpoints
from keras_transformer.training.optimizer import make_optimizer
from keras_transformer.training.trainer import average_weights, compile_model, fit
from keras_transformer.training.training_state import list_states
from tests.small_corpus import quick_model, sentence_pairs

# It is made while updates four to eight are trained.
AT_BATCH = 7


def at_batch(action):
    """Have something done where a batch of the training is made, maybe more than once."""
    batch = kt.data.TokenBatches.batch

    def batch_and_fault(self, epoch, index):
        made = batch(self, epoch, index)
        is_it = self.training and self.plans.first_step(epoch) + index == AT_BATCH
        return action(made) if is_it else made

    kt.data.TokenBatches.batch = batch_and_fault


def stop(folder):
    signals = [signal.SIGTERM]

    def action(made):
        if signals:
            os.kill(os.getpid(), signals.pop())
        return made

    at_batch(action)


def die(folder):
    def action(made):
        while folder.name == "0" and not list_states(folder / "checkpoints"):
            time.sleep(0.1)  # The checkpoint of three updates is being written.
        os.kill(os.getpid(), signal.SIGKILL)

    at_batch(action)


def spoil(folder):
    def action(made):
        inputs, targets, weights = made
        return inputs, targets, weights * np.nan

    at_batch(action)


def fill_disk(folder):
    def copy(path, new_path):
        raise OSError(28, "No space left on device")

    rolling_checkpoints.copy_weights = copy


def fail(folder):
    def action(made):
        raise KeyError("a defect")

    at_batch(action)


FAULTS = {
    "none": lambda folder: None,
    "stopped": stop,
    "killed": die,
    "spoiled": spoil,
    "full": fill_disk,
    "defect": fail,
}


def text(name, size):
    return kt.data.ParallelText("words", name, "en", "de", lambda: iter(sentence_pairs(size)))


def train(folder, options):
    """All stages but the last, with a model that is quick to compile; returns it."""
    options = from_keywords(kt.training.TrainingOptions, {"output_dir": folder, **options})
    context = kt.training.begin_training(options)
    train, val = text("train", 100), text("val", 4)
    sentences = chain.from_iterable(train)
    tokenizer = make_tokenizer(sentences, options.vocabulary, context)
    batches = kt.training.make_batches(train, val, tokenizer, context)
    with context.devices.scope():
        model = quick_model(dropout=0.1)
        optimizer = make_optimizer(options.optimizer, 16, options.fitting.steps)
    compile_model(model, optimizer, 0.1, context)
    fit(model, batches, context)
    average_weights(model, context)
    return model


def main(folder, fault, options):
    folder = Path(folder)
    FAULTS[fault](folder)
    model = train(folder, json.loads(options))
    np.savez(f"{folder}.npz", *model.get_weights())


if __name__ == "__main__":
    # Keras would import it, which takes longer than such a training.
    sys.modules["tensorflow"] = None
    try:
        main(*sys.argv[1:])
    except kt.UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.last_value = error
        sys.exit(2)
