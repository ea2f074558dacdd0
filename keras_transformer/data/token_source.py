"""The tokens of the sentence pairs in a batch: as they are stored, or drawn anew in each epoch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from keras_transformer.data.subword_sampling import SubwordSampler

if TYPE_CHECKING:
    from keras_transformer.data.token_store import TokenStore

# The sampler of the sources and of the targets; None leaves a side as it is stored.
Samplers: TypeAlias = Sequence[SubwordSampler | None]

# How often a sentence is drawn until it fits into its place.
_TRIES = 4
# How many standard deviations longer than its mean a sentence may become in a shape that just holds
# it. With more of them batches hold more padding, with less what is drawn is shorter: with a half
# the tokens of Multi30k are 97 % of those that would be drawn if there were no shapes.
_DEVIATIONS = 0.5


class PlannedBatch(NamedTuple):
    """A batch of which nothing is read yet."""

    epoch: int
    index: int  # in the epoch
    pairs: np.ndarray  # their indices in the store
    shape: np.ndarray  # the lengths of source and target


class StoredTokens:
    """The tokens of a `TokenStore`, as they are.

    Args:
        store: the `TokenStore`.

    Attributes:
        lengths: the lengths of all sources and of all targets, with the end token or the start
            token, that batches are planned for.
        mean_lengths: what these lengths are on average over the epochs.
    """

    def __init__(self, store: "TokenStore"):
        self._sides = store.source, store.target
        self.lengths = self.mean_lengths = tuple(side.lengths + 1 for side in self._sides)

    def padded(self, batch: PlannedBatch, rows: slice) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """The tokens of some rows of a batch, without start and end tokens.

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
        """The number of target tokens in a batch, end tokens included."""
        return int(self.lengths[1][batch.pairs].sum(dtype="int64"))


class SampledTokens:
    """The tokens of a `TokenStore`, segmented in another way in each epoch.

    Nothing but the arguments and a batch's epoch, index and pairs decides how its sentences are
    segmented. Batches are planned for sentences that are longer than their mean by half a standard
    deviation. One that does not fit into its place is drawn again, a few times, and then left as it
    is in the store.

    Args:
        store: the `TokenStore`.
        samplers: tuple of the `SubwordSampler` of the sources and that of the targets. None: as
            they are.
        seed: seed of what is drawn.
        keep: how many batches are asked for again and again: those that share an update.

    Attributes:
        lengths, mean_lengths: as those of `StoredTokens`.
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
        """As `StoredTokens.padded`."""
        return tuple((ids[rows], lengths[rows]) for ids, lengths in self._draw_batch(batch))

    def num_target_tokens(self, batch: PlannedBatch) -> int:
        """As `StoredTokens.num_target_tokens`."""
        _, (_, lengths) = self._draw_batch(batch)
        return int(lengths.sum()) + len(lengths)

    def _draw_batch(self, batch):
        key = batch.epoch, batch.index
        drawn = self._drawn.get(key)
        if drawn is None:
            drawn = tuple(self._draw_side(side, batch) for side in (0, 1))
            # Replaced, never changed: several threads may ask.
            self._drawn = dict([*list(self._drawn.items())[-self._keep :], (key, drawn)])
        return drawn

    def _draw_side(self, side, batch):
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


def _draw_to_fit(sampler, stored, room, seeds):
    """Draw sentences of at most `room` tokens, which all stored ones fit into."""
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


def _length_moments(sequences, sampler):
    """Mean and variance of how long each sentence becomes: the sums of its tokens' own."""
    if sampler is None:
        return sequences.lengths, np.zeros(len(sequences))
    return sequences.sums(sampler.mean_lengths), sequences.sums(sampler.length_variances)
