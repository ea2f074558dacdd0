"""Subword regularisation: in training, another segmentation of each sentence in each epoch.

A vocabulary can write a word in many ways. A model that has seen several of them knows better what
its tokens are made of, which helps most where there is little text (BPE-dropout: Provilkov et al.,
2020; sampling from a unigram model: Kudo, 2018).

SentencePiece draws segmentations too, but from version 0.2.3 on, others in each process.
"""

import bisect
import functools
import itertools
import math
import random
from collections.abc import Sequence

import numpy as np

from keras_transformer.data.sentencepiece_model import model_proto_class
from keras_transformer.errors import UserError

_SPACE = "▁"  # SentencePiece's mark before a word

# How often each token is drawn to see how long it becomes: a power of two, so that sums are exact.
_DRAWS = 16
# Of how many words it is known at once what they may become.
_KNOWN = 1 << 15


class SubwordSampler:
    """Draws other segmentations of sentences that are segmented already.

    What a vocabulary cannot write otherwise stays as it is: unknown tokens, bytes, control tokens,
    and symbols that the vocabulary always has as one token. A sentence has as many tokens that
    begin a word as before.

    With a vocabulary of byte pairs, this is BPE-dropout: a word begins as its characters; of all
    merges that are possible, each is left out with the probability `strength`, and the first of the
    others is done; again and again, until none is left. With a unigram vocabulary, each
    segmentation of a word is drawn with a probability proportional to the `strength`-th power of
    its own: Kudo's α with l = ∞, where a smaller number splits more.

    Args:
        proto: the serialised SentencePiece model, as a `Tokenizer` has it.
        strength: number more than 0 and at most 1.

    Attributes:
        mean_lengths: how many tokens become of each token of the vocabulary, on average: float
            array `(vocabulary_size,)`.
        length_variances: the variance of this number.

    Raises:
        UserError: if `strength` is out of its range, or the vocabulary is of another kind.
    """

    def __init__(self, proto: bytes, strength: float):
        if not 0 < strength <= 1:
            raise UserError(
                "`subword_sampling` must be at least 0, for none, and at most 1. Received: "
                f"subword_sampling={strength}"
            )
        model = model_proto_class().FromString(proto)
        normal = {i: x for i, x in enumerate(model.pieces) if x.type == x.NORMAL}
        # What a token writes, or None where no other tokens may write it.
        self._pieces = [normal[i].piece if i in normal else None for i in range(len(model.pieces))]
        self._ids = {x.piece: i for i, x in normal.items()}
        scores = {x.piece: x.score for x in normal.values()}
        kind = model.trainer_spec.ModelType.Name(model.trainer_spec.model_type)
        if kind not in _DRAWN_BY:
            raise UserError("`subword_sampling` needs a vocabulary of type bpe or unigram.")
        self._segmentations = _DRAWN_BY[kind](scores, strength)
        lengths = self._lengths_of_tokens()
        self.mean_lengths, self.length_variances = lengths.mean(axis=0), lengths.var(axis=0)

    def __call__(self, sequences: Sequence[Sequence[int]], seed: int) -> list[list[int]]:
        """Draw a segmentation of each sentence.

        Args:
            sequences: list of lists of ids, as the `Tokenizer` gives them.
            seed: int. It decides all that is drawn, with the sequences.

        Returns:
            A list of lists of ids.
        """
        uniform = random.Random(seed).random
        return [self._draw(ids, uniform) for ids in sequences]

    def _draw(self, ids, uniform):
        pieces = [self._pieces[i] for i in ids]
        if None not in pieces:
            return self._draw_text(ids, pieces, uniform)
        drawn = []
        for is_text, group in itertools.groupby(zip(ids, pieces), lambda pair: pair[1] is not None):
            ids, pieces = zip(*group)
            drawn += self._draw_text(ids, pieces, uniform) if is_text else ids
        return drawn

    def _draw_text(self, ids, pieces, uniform):
        """The ids of other tokens that write the same."""
        first, *others = "".join(pieces).split(_SPACE)
        words = (
            [first, *(_SPACE + word for word in others)] if first else map(_SPACE.__add__, others)
        )
        try:
            draw = self._segmentations.draw
            return [self._ids[piece] for word in words for piece in draw(word, uniform)]
        except KeyError:  # a character that is never a token of its own
            return list(ids)

    def _lengths_of_tokens(self):
        """How many tokens became of each one: int array `(draws, vocabulary_size)`."""
        tokens = [[i] for i in range(len(self._pieces))]
        return np.array([[*map(len, self(tokens, seed))] for seed in range(_DRAWS)])


class _Merges:
    """Segmentations of words by BPE-dropout (Provilkov et al., 2020, algorithm 1)."""

    def __init__(self, scores, probability):
        self._scores = scores
        self._probability = probability
        # (`log(1 - p)` of the smallest numbers would be 0.)
        self._log_kept = math.log1p(-probability) if probability < 1 else -math.inf
        self._path = functools.lru_cache(_KNOWN)(self._find_path)

    def draw(self, word, uniform):
        """The pieces of a word."""
        path, end = self._path(word)
        # So many times in a row, the first merge is not left out.
        kept = math.log(1 - uniform()) / self._log_kept
        if kept >= len(path):
            return end
        symbols, (_, *merges) = path[int(kept)]
        while True:
            for i in merges:
                if uniform() >= self._probability:
                    symbols = _merged(symbols, i)
                    break  # what is left out of the rest makes no difference
            else:
                return symbols
            merges = self._merges(symbols)

    def _find_path(self, word):
        """How a word is merged if the first merge is never left out: the symbols of each step, with
        the merges that are possible then; and the last symbols.
        """
        path, symbols = [], tuple(word)
        while merges := self._merges(symbols):
            path.append((symbols, merges))
            symbols = _merged(symbols, merges[0])
        return path, symbols

    def _merges(self, symbols):
        """The places of possible merges, that of the highest score first, then from the left."""
        found = []
        for i, pair in enumerate(map("".join, itertools.pairwise(symbols))):
            if pair in self._scores:
                found.append((-self._scores[pair], i))
        return [i for _, i in sorted(found)]


def _merged(symbols, i):
    return (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])


class _Lattice:
    """Segmentations of words by a unigram model (Kudo, 2018): forward filtering of all of them,
    once for a word, and backward sampling."""

    def __init__(self, scores, exponent):
        self._weights = {piece: exponent * score for piece, score in scores.items()}
        self._longest = max(map(len, scores), default=0)
        self._ways = functools.lru_cache(_KNOWN)(self._find_ways)

    def draw(self, word, uniform):
        """The pieces of a word."""
        ways, end, pieces = self._ways(word), len(word), []
        while end:
            shares, starts = ways[end]
            start = starts[bisect.bisect(shares, uniform())]
            pieces.append(word[start:end])
            end = start
        return reversed(pieces)

    def _find_ways(self, word):
        """For each end of a piece, the probabilities of its beginnings, summed up to each but the
        last, and these beginnings.
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
