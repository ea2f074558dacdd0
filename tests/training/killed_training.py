"""Train once in one go, and once killed many times, in processes forked from one that has imported
everything: `killed_training.py FOLDER FILE_KILLS TIMED_KILLS SEED`. Prints a report in JSON.

Two ways to die: just before the n-th thing that is done to a file in the checkpoints' folder, for
each n in FILE_KILLS ("0,1,2"); and TIMED_KILLS times at a random moment.
"""

import functools
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import TokenAccuracy
from keras_transformer.training.optimizer import NoamSchedule
from keras_transformer.training.rolling_checkpoints import RollingCheckpoints
from keras_transformer.training.trainer import fit_in_parts, plan_parts
from keras_transformer.training.training_state import find_start, list_states
from keras_transformer.weights.checkpoints import list_checkpoints
from keras_transformer.weights.weights_file import datasets
from tests.small_corpus import quick_model, sentence_pairs, tokenizer

STEPS, INTERVAL = 11, 4


def train(folder, steps=STEPS, begun=lambda: None):
    """Go on with the training in a folder, up to `steps`."""
    random.seed(1)  # from which Keras takes seeds; its own function imports TensorFlow everywhere
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        keras.utils.set_random_seed(1)
        tf.config.experimental.enable_op_determinism()
    state = find_start(folder, steps, resume=True, overwrite=False)
    model = quick_model(dropout=0.1)
    model.compile(
        keras.optimizers.Adam(NoamSchedule(16, 20)),
        LabelSmoothedCrossentropy(reduction="sum"),
        weighted_metrics=[TokenAccuracy()],
        # A few steps alone are quicker so, but not on JAX, which compiles each operation anyway.
        run_eagerly=keras.backend.backend() != "jax",
    )
    state.restore(model)
    store = TokenStore(folder.parent / "store")
    batches = TokenBatches(store, 200, num_shapes=1)
    checkpoints = RollingCheckpoints(folder, keep=3, every_steps=2, start=state, num_batches=steps)
    begin = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: begun())
    fit_in_parts(
        model,
        batches.stream,
        plan_parts(state.batches, steps, INTERVAL),
        validation_data=TokenBatches(store, 2000, num_shapes=1, training=False),
        callbacks=[begin, checkpoints],
        verbose=0,
    )
    return model, checkpoints


def train_to_the_end(folder, begun=lambda: None):
    model, checkpoints = train(folder, begun=begun)
    np.savez(folder.parent / f"{folder.name}.npz", *model.get_weights())
    (folder.parent / f"{folder.name}.json").write_text(json.dumps(checkpoints.history))


def die_at_file_event(folder, number):
    """Kill this process just before the n-th event; returns the function that begins to count."""
    left = None

    def hook(event, args):
        nonlocal left
        if left is None or not event.startswith(("open", "os.", "shutil.")):
            return
        if args and isinstance(args[0], str | os.PathLike) and str(folder) in str(args[0]):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def begin():
        nonlocal left
        left = number if left is None else left

    sys.addaudithook(hook)
    return begin


def fork(work):
    """Do some work in a child process, which calls its argument to say that it has begun.

    Returns the child's id, then.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            work(lambda: os.write(write, b"."))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    os.read(read, 1)  # nothing, if the child has died
    return child


def killed(child):
    """Wait for a child; whether it was killed."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0


def kill_after(child, seconds):
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return child


def same_tensors(*paths):
    with h5py.File(paths[0]) as first, h5py.File(paths[1]) as second:
        first, second = datasets(first), datasets(second)
        return first.keys() == second.keys() and all(
            np.array_equal(first[name][()], second[name][()]) for name in first
        )


def differences(whole, broken):
    """What differs at the end of two trainings, as a list of words."""
    weights = [np.load(f"{end}.npz") for end in (whole, broken)]
    histories = [json.loads(Path(f"{end}.json").read_text()) for end in (whole, broken)]
    files = [[path.name for path in list_checkpoints(end)] for end in (whole, broken)]
    found = [x for x in weights[0].files if not np.array_equal(weights[0][x], weights[1][x])]
    if histories[0].keys() != histories[1].keys():
        found.append("what the history has")
    found += [x for x in histories[0] if histories[0][x] != histories[1][x]]
    if files[0] != files[1]:
        found.append("the checkpoints' names")
    found += [x for x in files[0] if not same_tensors(whole / x, broken / x)]
    return found + [path.name for path in broken.glob(".*")]


def main(folder, file_kills, timed_kills, seed):
    folder, generator = Path(folder), random.Random(int(seed))
    TokenStore.build(folder / "store", sentence_pairs(60), tokenizer())
    whole, broken = folder / "whole", folder / "broken"
    child, start = fork(lambda begun: train_to_the_end(whole, begun)), time.time()
    assert not killed(child)
    seconds_a_step = (time.time() - start) / STEPS

    def live():
        return fork(lambda begun: train_to_the_end(broken, begun))

    def die_at_event(number):
        return fork(lambda _: train_to_the_end(broken, die_at_file_event(broken, number)))

    def die_some_time():
        return kill_after(live(), generator.uniform(0, 3 * seconds_a_step))

    deaths = [functools.partial(die_at_event, int(number)) for number in file_kills.split(",")]
    deaths += [die_some_time] * int(timed_kills)
    report = {"kills": 0, "while_writing": 0, "resumed": 0, "ends": 0, "differences": []}
    while deaths or broken.exists():
        report["resumed"] += bool(list_states(broken))
        if killed(deaths[0]() if deaths else live()):
            deaths.pop(0)
            report["kills"] += 1
            report["while_writing"] += any(broken.glob(".*.unfinished"))
        else:
            # It came to its end first. The next one begins at the beginning.
            report["ends"] += 1
            report["differences"] += differences(whole, broken)
            shutil.rmtree(broken)
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
