"""Which tokens the live hypotheses may be continued with."""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.decoding.top_k import top_k
from keras_transformer.layers.dropout import hash_bits
from keras_transformer.layers.token_sets import is_one_of
from keras_transformer.reserved_ids import PAD_ID


class Candidates(NamedTuple):
    """Continuations, the best first."""

    parents: object  # int32 (batch, n): the live hypotheses that they continue
    tokens: object  # int32 (batch, n)
    scores: object  # float32 (batch, n): log-probabilities of the hypotheses, this token included

    def only(self, condition):
        """Those where a bool tensor `(batch, n)` is true; in the places of others there is none."""
        return self._replace(scores=ops.where(condition, self.scores, -np.inf))

    def best(self, count):
        """The best, of equal ones the first: `(batch, count)`."""
        scores, places = top_k(self.scores, count)
        parents, tokens = (ops.take_along_axis(x, places, axis=1) for x in self[:2])
        return Candidates(parents, tokens, scores)


def best_candidates(choose, scores):
    """The best two continuations for each place in the beam, so that one of them goes on.

    Args:
        choose: function of a number of tokens; returns what `choices.choose` does.
        scores: float32 tensor `(batch, beam)`, log-probabilities of the live hypotheses.

    Returns:
        `Candidates`, twice as many as the beam. Of equal ones the earlier hypothesis, then the
        lower token, comes first.
    """
    beam = scores.shape[1]
    # Two continuations for each place are among as many of each hypothesis.
    values, tokens = choose(2 * beam)
    size = values.shape[-1]
    totals = ops.reshape(ops.expand_dims(scores, -1) + values, (-1, beam * size))
    scores, flat = top_k(totals, 2 * beam)
    tokens = ops.take_along_axis(ops.reshape(tokens, (-1, beam * size)), flat, axis=1)
    return Candidates(flat // size, tokens, scores)


def fast_tracked_candidates(choose, scores, fast_ids, count):
    """The best continuations, and before them the best of those with some tokens, whatever their
    rank among all (Stern, Fried and Klein, 2017).

    Args:
        choose: as for `best_candidates`.
        scores: float32 tensor `(batch, beam)`, log-probabilities of the live hypotheses.
        fast_ids: ids of these tokens.
        count: how many continuations with one of them come first.

    Returns:
        `Candidates`: so many, and then as many others as the beam. Of equal ones the earlier
        hypothesis, then the lower token, comes first.
    """
    beam = scores.shape[1]
    values, token_ids = choose(None)
    size = values.shape[-1]
    token_ids = ops.convert_to_tensor(token_ids, "int32")
    totals = ops.expand_dims(scores, -1) + values

    def candidates(scores, places):
        if len(token_ids.shape) == 1:
            tokens = ops.take(token_ids, places % size, axis=0)
        else:
            tokens = ops.reshape(token_ids, (-1, beam * size))
            tokens = ops.take_along_axis(tokens, places, axis=1)
        return Candidates(places // size, tokens, scores)

    ranked_scores, ranked = top_k(_flat(totals), min(beam + count, beam * size))
    if not count:
        return candidates(ranked_scores, ranked)
    totals = ops.where(is_one_of(token_ids, fast_ids), totals, -np.inf)
    fast_scores, fast = top_k(_flat(totals), count)
    is_ahead = (ranked[..., None] == fast[:, None]) & (fast_scores > -np.inf)[:, None]
    others = candidates(ranked_scores, ranked).only(~ops.any(is_ahead, axis=-1)).best(beam)
    return together(candidates(fast_scores, fast), others)


def together(*candidates):
    """All of several `Candidates`, one after the other."""
    return Candidates(*(ops.concatenate(parts, axis=1) for parts in zip(*candidates)))


def _flat(x):
    """`(batch, beam, n)` to `(batch, beam * n)`."""
    return ops.reshape(x, (-1, x.shape[1] * x.shape[2]))


def sampled_candidates(choose, scores, sampling, numbers):
    """One random continuation for each hypothesis.

    Args:
        choose: as for `best_candidates`.
        scores: float32 tensor `(batch, beam)`, log-probabilities of the live hypotheses.
        sampling: `temperature`, `top_k` and `top_p`.
        numbers: float32 tensor `(batch, beam)`, uniform in [0, 1).

    Returns:
        `Candidates`, as many as the beam.
    """
    beam = scores.shape[1]
    values, tokens = choose(sampling.top_k)
    size = values.shape[-1]
    values = ops.reshape(values, (-1, size))
    if sampling.top_k is None and sampling.top_p is None:
        index = place = _drawn(values, sampling, numbers)
    else:
        values, order = top_k(values, min(sampling.top_k or size, size))
        place = _drawn(values, sampling, numbers)
        index = ops.take_along_axis(order, place, axis=-1)
    values = ops.take_along_axis(values, place, axis=-1)
    if len(tokens.shape) == 1:
        tokens = ops.take(tokens, index, axis=0)
    else:
        tokens = ops.take_along_axis(ops.reshape(tokens, (-1, size)), index, axis=-1)
    parents = ops.broadcast_to(ops.arange(beam, dtype="int32"), ops.shape(scores))
    return Candidates(
        parents,
        ops.cast(ops.reshape(tokens, (-1, beam)), "int32"),
        scores + ops.reshape(values, (-1, beam)),
    )


def _drawn(values, sampling, numbers):
    """Where the random numbers fall: int32 `(rows, 1)`.

    It is the first value whose cumulated probability is beyond the number.
    """
    probabilities = ops.softmax(values / sampling.temperature)
    cumulated = ops.cumsum(probabilities, axis=-1)
    if sampling.top_p is not None:
        is_kept = cumulated - probabilities < sampling.top_p
        most = ops.max(ops.where(is_kept, cumulated, 0.0), axis=-1, keepdims=True)
        cumulated = ops.where(is_kept, cumulated, most)
    drawn = ops.reshape(numbers, (-1, 1)) * cumulated[:, -1:]
    place = ops.sum(ops.cast(cumulated <= drawn, "int32"), axis=-1, keepdims=True)
    return ops.minimum(place, cumulated.shape[-1] - 1)  # where no value may come


def sentence_keys(encoder_token_ids, numbers, seed):
    """Return a hash of each sentence and its number, whatever its place in the batch and its
    padding.

    It is the sum, modulo 2^32, of a hash of the number and hashes of the tokens, each with its
    position.

    Args:
        encoder_token_ids: int32 tensor `(batch, source)`.
        numbers: int32 tensor `(batch, 1)`: which sentence of the call each is.
        seed: int32 scalar.

    Returns:
        Int32 tensor `(batch, 1)`.
    """
    seed = ops.reshape(seed, (1,))
    positions = ops.arange(ops.shape(encoder_token_ids)[1], dtype="int32")
    no_step = ops.zeros((1,), "int32")
    words = hash_bits(
        hash_bits(encoder_token_ids, ops.concatenate([seed, no_step])) + positions,
        ops.concatenate([seed, no_step + 1]),
    )
    words = ops.where(encoder_token_ids == PAD_ID, 0, words)
    number_words = hash_bits(numbers, ops.concatenate([seed, no_step + 2]))
    return ops.cast(ops.sum(words, axis=1, keepdims=True), "int32") + number_words


def uniform_numbers(keys, count, seed, step):
    """Return random numbers that depend on a sentence's key and not on its place in the batch.

    Args:
        keys: int32 tensor `(batch, 1)`, from `sentence_keys`.
        count: how many for each sentence.
        seed: int32 scalar.
        step: int32 scalar; each step has its own numbers.

    Returns:
        Float32 tensor `(batch, count)`, uniform in [0, 1).
    """
    # 0, 1 and 2 made the keys.
    words = ops.concatenate([ops.reshape(seed, (1,)), ops.reshape(step, (1,)) + 3])
    bits = hash_bits(keys + ops.arange(count, dtype="int32"), words)
    # 23 bits, so that the product with a float32 sum stays below that sum.
    return ops.cast(ops.bitwise_and(ops.right_shift(bits, 9), 2**23 - 1), "float32") * 2.0**-23
