"""Time whole epochs of a recipe's training: how much of the first goes to tracing and compiling."""

import statistics
import time
from dataclasses import dataclass
from itertools import chain

import keras

from keras_transformer.command_line import run
from keras_transformer.data.parallel_text import load_parallel_text
from keras_transformer.tasks.training_run import TrainingOptions, TrainingRun


@dataclass(kw_only=True)
class Options(TrainingOptions):
    dataset: str = "multi30k.lc.norm.tok"
    """Corpus to train on."""
    source: str = "en"
    """Language to translate."""
    target: str = "de"
    """Language to translate into."""
    epochs: int = 2
    """Passes over the corpus. Those after the first show the steady rate."""


def main(options):
    training = TrainingRun(options)
    train, val = (
        load_parallel_text(options.dataset, split, options.source, options.target, options.data_dir)
        for split in ("train", "val")
    )
    tokenizer = training.tokenizer(chain.from_iterable(train))
    training.plan_batches(train, val, tokenizer)
    model = training.build_model(tokenizer.vocabulary_size)
    batches, clock = training.train_batches, EpochClock()
    model.fit(
        batches.stream(),
        shuffle=False,
        epochs=options.epochs,
        steps_per_epoch=len(batches),
        callbacks=[clock],
        verbose=0,
    )
    tokens = int((batches.store.target.lengths + 1).sum())
    first, *later = clock.seconds
    steady = statistics.median(later)
    print(f"{tokens:,} target tokens an epoch, without padding")
    print(f"first epoch: {first:.1f} s, {tokens / first:,.0f} tokens/s")
    print(f"steady: {steady:.1f} s, {tokens / steady:,.0f} tokens/s")
    print(f"first / steady: {steady / first:.0%}")


class EpochClock(keras.callbacks.Callback):
    """The seconds of each epoch; those of the first begin when the clock is made."""

    def __init__(self):
        super().__init__()
        self.seconds, self._began = [], time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        now = time.perf_counter()
        self.seconds.append(now - self._began)
        self._began = now


if __name__ == "__main__":
    run(main, Options)
