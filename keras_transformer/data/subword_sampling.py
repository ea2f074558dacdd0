"""Subword regularization: another segmentation of each training sentence in each epoch.

A vocabulary can segment a word in many ways. A model that sees several of them learns more about
the parts of its tokens, which helps most with small texts (BPE-dropout: Provilkov et al., 2020;
sampling from a unigram model: Kudo, 2018).

SentencePiece can sample segmentations too, but since version 0.2.3 the samples differ between
processes.
"""

import bisect
import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from keras_transformer.data.sentencepiece_model import model_proto_class
from keras_transformer.errors import UserError

_Uniform: TypeAlias = Callable[[], float]  # draws from [0, 1)

_SPACE = "▁"  # SentencePiece's mark before a word

# The samples per token to estimate its length: a power of two, so that sums are exact.
_DRAWS = 16
# The number of words whose segmentations are cached.
_KNOWN = 1 << 15


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
