"""Time tokenizing, storing and batching a corpus of any size, and measure the memory."""

import itertools
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_transformer.command_line import run
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import Tokenizer


@dataclass
class Options:
    pairs: int = 1_000_000
    """Number of sentence pairs. WMT 2014 English-German has 4.5 million."""
    vocabulary_size: int = 32_000
    """Size of the BPE vocabulary."""
    words: int = 50_000
    """Distinct words of the random corpus, with frequencies by Zipf's law."""
    batch_tokens: int = 25_000
    """Largest number of source tokens and of target tokens per batch."""
    batches: int = 200
    """Number of batches to make."""


def main(options):
    text = MadeUpText(options.words)
    tokenizer = Tokenizer.train(
        itertools.chain.from_iterable(text.pairs(100_000)), options.vocabulary_size
    )
    before = peak_memory()
    clock = Clock()  # The time of creating the corpus is excluded.
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        store = TokenStore.build(
            Path(folder) / "store", clock.without(text.pairs(options.pairs)), tokenizer
        )
        seconds = time.perf_counter() - start - clock.seconds
        tokens = store.source.lengths.sum() + store.target.lengths.sum()
        print(
            f"tokenise and store {len(store):,} pairs ({tokens / len(store):.1f} tokens a pair): "
            f"{seconds:.0f} s, {60 * len(store) / seconds:,.0f} pairs a minute"
        )
        start = time.perf_counter()
        batches = TokenBatches(store, options.batch_tokens)
        first = batches.batch(0, 0)
        print(
            f"plan {len(batches):,} batches of {len(batches.shapes)} shapes, make the first: "
            f"{time.perf_counter() - start:.1f} s, {batches.real_token_share():.1%} of the slots "
            f"are tokens, the first has {first[1].size:,} target slots"
        )
        start = time.perf_counter()
        count = min(options.batches, len(batches))
        slots = sum(batches.batch(0, index)[1].size for index in range(count))
        print(f"batches: {slots / (time.perf_counter() - start):,.0f} target slots a second")
    print(f"memory at most: {peak_memory():,} MiB, of which {before:,} before the corpus")


class MadeUpText:
    """Yield random sentences of random words."""

    def __init__(self, num_words, seed=0):
        self.rng = np.random.default_rng(seed)
        letters = np.array(list("abcdefghijklmnopqrstuvwxyzäöü"))
        lengths = self.rng.integers(2, 12, num_words)
        self.words = np.array(["".join(self.rng.choice(letters, n)) for n in lengths])

    def pairs(self, count, chunk=10_000):
        for start in range(0, count, chunk):
            sides = [self._sentences(min(chunk, count - start)) for _ in range(2)]
            yield from zip(*sides)

    def _sentences(self, count):
        lengths = np.clip(self.rng.poisson(24, count), 1, 80)
        ranks = (self.rng.pareto(1.0, lengths.sum()) * 10).astype("int64") % len(self.words)
        words = np.split(self.words[ranks], np.cumsum(lengths)[:-1])
        return [" ".join(sentence) for sentence in words]


class Clock:
    """A clock of the seconds that an iterable itself takes."""

    seconds = 0.0

    def without(self, iterable):
        iterator = iter(iterable)
        while True:
            start = time.perf_counter()
            item = next(iterator, None)
            self.seconds += time.perf_counter() - start
            if item is None:
                return
            yield item


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    run(main, Options)
