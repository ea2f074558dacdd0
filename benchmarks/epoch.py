"""Time whole epochs of a recipe's training: how much of the first goes to tracing and compiling."""

import statistics
import time
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import keras

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, run


@dataclass(kw_only=True)
class Corpus:
    """The corpus."""

    dataset: str = "multi30k.lc.norm.tok"
    """Corpus to train on."""
    source: str = "en"
    """Language to translate."""
    target: str = "de"
    """Language to translate into."""
    data_dir: Path | None = None
    """Folder that holds the corpus. Without it, a corpus that can be fetched is fetched."""


@dataclass(kw_only=True)
class Options(CommonOptions, kt.training.TrainingOptions):
    corpus: Corpus = field(default_factory=Corpus)
    epochs: int = 2
    """Passes over the corpus. Those after the first show the steady rate."""


def main(options):
    training, corpus = kt.training.begin_training(options), options.corpus
    train, val = (
        kt.data.load_parallel_text(
            corpus.dataset, split, corpus.source, corpus.target, corpus.data_dir
        )
        for split in ("train", "val")
    )
    path = training.folder / "tokenizer.spm"
    tokenizer = kt.data.make_tokenizer(chain.from_iterable(train), options.vocabulary, path)
    batches, _ = kt.training.make_batches(train, val, tokenizer, options, training)
    model, clock = (
        kt.training.make_model(tokenizer.vocabulary_size, options, training),
        EpochClock(),
    )
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
