"""The tokens of the sentence pairs in a batch: as stored, or sampled again in each epoch.

Subword regularization trains on another segmentation of each sentence in each epoch. A vocabulary
can segment a word in many ways. A model that sees several of them learns more about the parts of
its tokens, which helps most with small texts (BPE-dropout: Provilkov et al., 2020; sampling from a
unigram model: Kudo, 2018).

SentencePiece can sample segmentations too, but since version 0.2.3 the samples differ between
processes.
"""

import bisect
import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from keras_transformer.data.sentencepiece_model import model_proto_class
from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from keras_transformer.data.token_store import TokenSequences, TokenStore

_Uniform: TypeAlias = Callable[[], float]  # draws from [0, 1)

_SPACE = "▁"  # SentencePiece's mark before a word

# The samples per token to estimate its length: a power of two, so that sums are exact.
_DRAWS = 16
# The number of words whose segmentations are cached.
_KNOWN = 1 << 15

# The most samples of a sentence that does not fit.
_TRIES = 4
# The room in a shape beyond a sentence's mean length, in standard deviations. More room means more
# padding; less room means that shorter segmentations are sampled. With 0.5, Multi30k has 97 % of
# the tokens that would be sampled without shapes.
_DEVIATIONS = 0.5


class SubwordSampler:
    """A sampler of other segmentations of sentences that are already segmented.

    Tokens without another segmentation do not change: unknown tokens, bytes, control tokens and
    user-defined symbols. The number of tokens that begin a word does not change either.

    With a BPE vocabulary, this is BPE-dropout: a word starts as its characters. Each possible merge
    is skipped with probability `strength`, and the first remaining one is applied, until none
    remains. With a unigram vocabulary, the probability of sampling a segmentation is proportional
    to its own probability to the power of `strength`: Kudo's α with l = ∞, where smaller values
    split more.

    Args:
        proto: the serialized SentencePiece model of a `Tokenizer`.
        strength: number more than 0 and at most 1.

    Attributes:
        mean_lengths: the mean number of tokens that replace each token of the vocabulary: float
            array `(vocabulary_size,)`.
        length_variances: the variance of this number.

    Raises:
        UserError: if `strength` is out of its range, or the vocabulary has another type.
    """

    def __init__(self, proto: bytes, strength: float):
        if not 0 < strength <= 1:
            raise UserError(
                "`subword_sampling` must be at least 0 and at most 1. Received: "
                f"subword_sampling={strength}"
            )
        model = model_proto_class().FromString(proto)
        normal = {i: x for i, x in enumerate(model.pieces) if x.type == x.NORMAL}
        # The text of each token, or None if no other tokens can represent it.
        self._pieces = [normal[i].piece if i in normal else None for i in range(len(model.pieces))]
        self._ids = {x.piece: i for i, x in normal.items()}
        scores = {x.piece: x.score for x in normal.values()}
        kind = model.trainer_spec.ModelType.Name(model.trainer_spec.model_type)
        if kind not in _DRAWN_BY:
            raise UserError(
                "`subword_sampling` needs a vocabulary of type bpe or unigram. Received: type "
                f"{kind.lower()}"
            )
        self._segmentations = _DRAWN_BY[kind](scores, strength)
        lengths = self._lengths_of_tokens()
        self.mean_lengths, self.length_variances = lengths.mean(axis=0), lengths.var(axis=0)

    def __call__(self, sequences: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
        """Sample a segmentation of each sentence.

        Args:
            sequences: list of lists of ids, as the `Tokenizer` returns them.
            seed: int. The samples depend only on it and the sequences.

        Returns:
            A list of lists of ids.
        """
        uniform = random.Random(seed).random
        return [self._draw(ids, uniform) for ids in sequences]

    def _draw(self, ids: Sequence[int], uniform: _Uniform) -> list[int]:
        pieces = [self._pieces[i] for i in ids]
        if None not in pieces:
            return self._draw_text(ids, pieces, uniform)
        drawn = []
        for is_text, group in itertools.groupby(zip(ids, pieces), lambda pair: pair[1] is not None):
            ids, pieces = zip(*group)
            drawn += self._draw_text(ids, pieces, uniform) if is_text else ids
        return drawn

    def _draw_text(self, ids: Sequence[int], pieces: Sequence[Any], uniform: _Uniform) -> list[int]:
        """Return the ids of other tokens for the same text."""
        first, *others = "".join(pieces).split(_SPACE)
        words = (
            [first, *(_SPACE + word for word in others)] if first else map(_SPACE.__add__, others)
        )
        try:
            draw = self._segmentations.draw
            return [self._ids[piece] for word in words for piece in draw(word, uniform)]
        except KeyError:  # a character that is not a token
            return list(ids)

    def _lengths_of_tokens(self) -> np.ndarray:
        """Sample how many tokens replace each token: int array `(draws, vocabulary_size)`."""
        tokens = [[i] for i in range(len(self._pieces))]
        return np.array([[*map(len, self(tokens, seed))] for seed in range(_DRAWS)])


class _Merges:
    """Segmentations of words by BPE-dropout (Provilkov et al., 2020, algorithm 1)."""

    def __init__(self, scores: dict[str, float], probability: float):
        self._scores = scores
        self._probability = probability
        # `log1p`, because `log(1 - p)` is 0 for the smallest p.
        self._log_kept = math.log1p(-probability) if probability < 1 else -math.inf
        self._path = functools.lru_cache(_KNOWN)(self._find_path)

    def draw(self, word: str, uniform: _Uniform) -> Iterable[str]:
        """Return the pieces of a word."""
        path, end = self._path(word)
        # The number of steps in a row whose first merge is not skipped.
        kept = math.log(1 - uniform()) / self._log_kept
        if kept >= len(path):
            return end
        symbols, (_, *merges) = path[int(kept)]
        while True:
            for i in merges:
                if uniform() >= self._probability:
                    symbols = _merged(symbols, i)
                    break  # skipping later merges makes no difference
            else:
                return symbols
            merges = self._merges(symbols)

    def _find_path(self, word: str) -> Any:
        """Return the merges of a word if the first merge is never skipped.

        Returns:
            A list of the symbols and the possible merges of each step, and the final symbols.
        """
        path, symbols = [], tuple(word)
        while merges := self._merges(symbols):
            path.append((symbols, merges))
            symbols = _merged(symbols, merges[0])
        return path, symbols

    def _merges(self, symbols: Sequence[str]) -> list[int]:
        """Return the places of possible merges, by decreasing score and then from the left."""
        found = []
        for i, pair in enumerate(map("".join, itertools.pairwise(symbols))):
            if pair in self._scores:
                found.append((-self._scores[pair], i))
        return [i for _, i in sorted(found)]


def _merged(symbols: Sequence[str], i: int) -> tuple[str, ...]:
    return (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])


class _Lattice:
    """Segmentations of words by a unigram model (Kudo, 2018).

    Each word is filtered forward once, and sampled backward.
    """

    def __init__(self, scores: dict[str, float], exponent: float):
        self._weights = {piece: exponent * score for piece, score in scores.items()}
        self._longest = max(map(len, scores), default=0)
        self._ways = functools.lru_cache(_KNOWN)(self._find_ways)

    def draw(self, word: str, uniform: _Uniform) -> Iterable[str]:
        """Return the pieces of a word, in order."""
        ways, end, pieces = self._ways(word), len(word), []
        while end:
            shares, starts = ways[end]
            start = starts[bisect.bisect(shares, uniform())]
            pieces.append(word[start:end])
            end = start
        return reversed(pieces)

    def _find_ways(self, word: str) -> Any:
        """Return, per end of a piece, the possible beginnings and their cumulative probabilities.

        The cumulative probability of the last beginning, 1, is left out.
        """
        totals = [0.0]
        ways: list[tuple[list[float], list[int]]] = [([], [])]
        for end in range(1, len(word) + 1):
            ways_here = [
                (totals[start] + self._weights[word[start:end]], start)
                for start in range(max(0, end - self._longest), end)
                if word[start:end] in self._weights
            ]
            largest = max((weight for weight, _ in ways_here), default=-math.inf)
            if largest == -math.inf:
                totals.append(-math.inf)
                ways.append(([], []))
                continue
            shares = [math.exp(weight - largest) for weight, _ in ways_here]
            total = sum(shares)
            totals.append(largest + math.log(total))
            sums = itertools.accumulate(share / total for share in shares)
            ways.append(([*sums][:-1], [start for _, start in ways_here]))
        if not ways[-1][1]:
            raise KeyError(word)
        return ways


_DRAWN_BY = {"BPE": _Merges, "UNIGRAM": _Lattice}


# The samplers of the sources and of the targets; None leaves a side as it is stored.
Samplers: TypeAlias = Sequence[SubwordSampler | None]


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
