"""The tokens of the sentence pairs in a batch: as stored, or sampled again in each epoch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from keras_transformer.data.subword_sampling import SubwordSampler

if TYPE_CHECKING:
    from keras_transformer.data.token_store import TokenSequences, TokenStore

# The samplers of the sources and of the targets; None leaves a side as it is stored.
Samplers: TypeAlias = Sequence[SubwordSampler | None]

# The most samples of a sentence that does not fit.
_TRIES = 4
# The room in a shape beyond a sentence's mean length, in standard deviations. More room means more
# padding; less room means that shorter segmentations are sampled. With 0.5, Multi30k has 97 % of
# the tokens that would be sampled without shapes.
_DEVIATIONS = 0.5


class PlannedBatch(NamedTuple):
    """A batch whose tokens have not been read."""

    epoch: int
    index: int  # its index in the epoch
    pairs: np.ndarray  # indices in the store
    shape: np.ndarray  # (source, target) lengths


class StoredTokens:
    """The tokens of a `TokenStore`, unchanged.

    Args:
        store: the `TokenStore`.

    Attributes:
        lengths: the lengths of all sources and of all targets, including the end token or the start
            token, for which batches are planned.
        mean_lengths: the means of these lengths over the epochs.
    """

    def __init__(self, store: "TokenStore"):
        self._sides = store.source, store.target
        self.lengths = self.mean_lengths = tuple(side.lengths + 1 for side in self._sides)

    def padded(self, batch: PlannedBatch, rows: slice) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return the tokens of some rows of a batch, without start and end tokens.

        Args:
            batch: a `PlannedBatch`.
            rows: slice.

        Returns:
            For the sources and for the targets, a tuple of an int32 array `(rows, length)`, 0 after
            the last token, and an int array of the numbers of tokens.
        """
        pairs = batch.pairs[rows]
        return tuple(
            (side.padded(pairs, length), side.lengths[pairs])
            for side, length in zip(self._sides, batch.shape)
        )

    def num_target_tokens(self, batch: PlannedBatch) -> int:
        """Return the number of target tokens in a batch, end tokens included."""
        return int(self.lengths[1][batch.pairs].sum(dtype="int64"))


class SampledTokens:
    """The tokens of a `TokenStore`, segmented differently in each epoch.

    The segmentation depends only on the arguments and on a batch's epoch, index and pairs. Batches
    are planned for sentences that are longer than their mean by half a standard deviation. If a
    sample does not fit, the sentence is sampled again a few times, and then keeps its stored
    tokens.

    Args:
        store: the `TokenStore`.
        samplers: tuple of the `SubwordSampler` for the sources and the one for the targets. None
            keeps a side as it is stored.
        seed: seed of the samples.
        keep: the number of batches to cache: the batches of an update, which are requested
            repeatedly.

    Attributes:
        lengths, mean_lengths: as in `StoredTokens`.
    """

    def __init__(self, store: "TokenStore", samplers: Samplers, seed: int, keep: int = 1):
        self._sides = store.source, store.target
        self._samplers = samplers
        self._seed = seed
        self._keep = keep
        means, variances = zip(*(_length_moments(*side) for side in zip(self._sides, samplers)))
        self.mean_lengths = tuple((mean + 1).astype("float32") for mean in means)
        self.lengths = tuple(
            np.ceil(mean + _DEVIATIONS * np.sqrt(variance)).astype("int32") + 1
            for mean, variance in zip(means, variances)
        )
        self._drawn = {}

    def padded(self, batch: PlannedBatch, rows: slice) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Return the tokens of some rows, as `StoredTokens.padded` does."""
        return tuple((ids[rows], lengths[rows]) for ids, lengths in self._draw_batch(batch))

    def num_target_tokens(self, batch: PlannedBatch) -> int:
        """Return the number of target tokens in a batch, end tokens included."""
        _, (_, lengths) = self._draw_batch(batch)
        return int(lengths.sum()) + len(lengths)

    def _draw_batch(self, batch: PlannedBatch) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        key = batch.epoch, batch.index
        drawn = self._drawn.get(key)
        if drawn is None:
            drawn = tuple(self._draw_side(side, batch) for side in (0, 1))
            # Replace the dict and never modify it: several threads may read it.
            self._drawn = dict([*list(self._drawn.items())[-self._keep :], (key, drawn)])
        return drawn

    def _draw_side(self, side: int, batch: PlannedBatch) -> tuple[np.ndarray, np.ndarray]:
        sequences, sampler, length = self._sides[side], self._samplers[side], batch.shape[side]
        if sampler is None:
            return sequences.padded(batch.pairs, length), sequences.lengths[batch.pairs]
        stored = [sequences[pair].tolist() for pair in batch.pairs]
        state = np.random.SeedSequence((self._seed, batch.epoch, batch.index, side))
        ids = _draw_to_fit(sampler, stored, length - 1, state.generate_state(_TRIES))
        lengths = np.array([len(sentence) for sentence in ids], int)
        padded = np.zeros((len(ids), length), "int32")
        for row, sentence in zip(padded, ids):
            row[: len(sentence)] = sentence
        return padded, lengths


def _draw_to_fit(
    sampler: SubwordSampler, stored: list[list[int]], room: int, seeds: np.ndarray
) -> list[list[int]]:
    """Sample sentences of at most `room` tokens. All stored sentences fit into it."""
    ids, left = [*stored], range(len(stored))
    for seed in seeds:
        drawn = sampler([stored[row] for row in left], int(seed))
        for row, sentence in zip(left, drawn):
            if len(sentence) <= room:
                ids[row] = sentence
        left = [row for row, sentence in zip(left, drawn) if len(sentence) > room]
        if not left:
            break
    return ids


def _length_moments(
    sequences: "TokenSequences", sampler: SubwordSampler | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each sentence's sampled length: the sums over its tokens."""
    if sampler is None:
        return sequences.lengths, np.zeros(len(sequences))
    return sequences.sums(sampler.mean_lengths), sequences.sums(sampler.length_variances)
