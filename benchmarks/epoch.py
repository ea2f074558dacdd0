"""Time whole epochs of a recipe's training, and the cost of tracing and compiling in the first."""

import time
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

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
    """Folder that holds the corpus. Without it, the corpus is downloaded if possible."""


@dataclass(kw_only=True)
class Options(CommonOptions, kt.training.TrainingOptions):
    corpus: Corpus = field(default_factory=Corpus)
    epochs: int = 2
    """Number of epochs before the steady rate is measured, with all programs compiled."""


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
    batches = kt.training.make_batches(train, val, tokenizer, training).train
    model = kt.training.make_model(tokenizer.vocabulary_size, training)
    tokens = int((batches.store.target.lengths + 1).sum())
    print(f"{tokens:,} target tokens an epoch, without padding")
    seconds = [fit_epoch(model, batches, epoch) for epoch in range(options.epochs)]
    if training.devices.jit_compile and not model.jit_compile:
        model.jit_compile = True  # as a longer training does automatically
        model.make_train_function(force=True)
    last = first_with_all_shapes(batches.plans)
    print("Compiling the remaining shapes:")
    fit_epoch(model, batches, last)
    print("All is compiled:")
    steady = fit_epoch(model, batches, last)
    print(f"first / steady: {steady / seconds[0]:.0%}")


def first_with_all_shapes(plans):
    """Return the first epoch with batches of all shapes."""
    return next(epoch for epoch in count() if plans.num_shapes(epoch) == len(plans.shapes))


def fit_epoch(model, batches, epoch):
    """Train for an epoch, and return its seconds."""
    plans = batches.plans
    began = time.perf_counter()
    model.fit(
        batches.stream(plans.first_step(epoch)),
        shuffle=False,
        steps_per_epoch=plans.num_batches(epoch),
        verbose=0,
    )
    seconds = time.perf_counter() - began
    tokens = int((batches.store.target.lengths + 1).sum())
    print(
        f"epoch {epoch + 1}, {plans.num_shapes(epoch)} shapes, {plans.num_batches(epoch)} batches: "
        f"{seconds:.1f} s, {tokens / seconds:,.0f} tokens/s",
        flush=True,
    )
    return seconds


if __name__ == "__main__":
    run(main, Options)
