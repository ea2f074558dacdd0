"""Which tokens the live hypotheses may be continued with."""

from typing import NamedTuple

from keras import ops

from keras_transformer.data.tokenizer import PAD_ID
from keras_transformer.decoding.top_k import top_k
from keras_transformer.layers.dropout import hash_bits


class Candidates(NamedTuple):
    """Continuations, the best first."""

    parents: object  # int32 (batch, n): the live hypotheses that they continue
    tokens: object  # int32 (batch, n)
    scores: object  # float32 (batch, n): log-probabilities of the hypotheses, this token included


def best_candidates(logits, allowed, scores):
    """The best two continuations for each place in the beam, so that one of them goes on.

    Args:
        logits: float32 tensor `(batch, beam, vocabulary_size)`.
        allowed: float32 tensor `(batch, beam, tokens)`, the logits of all tokens or of some, minus
            infinity where one may not come next.
        scores: float32 tensor `(batch, beam)`, log-probabilities of the live hypotheses.

    Returns:
        `Candidates`, twice as many as the beam. Their tokens are numbered as in `allowed`. Of equal
        ones the earlier hypothesis, then the lower token, comes first.
    """
    beam, size = logits.shape[1], allowed.shape[-1]
    count = min(2 * beam, size)
    # Two continuations for each place are among as many of each hypothesis.
    values, tokens = top_k(ops.reshape(allowed, (-1, size)), count)
    values = ops.reshape(values, (-1, beam, count))
    totals = ops.expand_dims(scores - ops.logsumexp(logits, axis=-1), -1) + values
    scores, flat = top_k(ops.reshape(totals, (-1, beam * count)), 2 * beam)
    tokens = ops.take_along_axis(ops.reshape(tokens, (-1, beam * count)), flat, axis=1)
    return Candidates(flat // count, tokens, scores)


def sampled_candidates(logits, allowed, scores, sampling, numbers):
    """One random continuation for each hypothesis.

    Args:
        logits: float32 tensor `(batch, beam, vocabulary_size)`.
        allowed: as in `best_candidates`.
        scores: float32 tensor `(batch, beam)`, log-probabilities of the live hypotheses.
        sampling: `temperature`, `top_k` and `top_p`.
        numbers: float32 tensor `(batch, beam)`, uniform in [0, 1).

    Returns:
        `Candidates`, as many as the beam.
    """
    beam, size = logits.shape[1], allowed.shape[-1]
    values, tokens = ops.reshape(allowed, (-1, size)), None
    if sampling.top_k is not None or sampling.top_p is not None:
        values, tokens = top_k(values, min(sampling.top_k or size, size))
    # The first value whose cumulated probability is beyond the number drawn.
    probabilities = ops.softmax(values / sampling.temperature)
    cumulated = ops.cumsum(probabilities, axis=-1)
    if sampling.top_p is not None:
        is_kept = cumulated - probabilities < sampling.top_p
        cumulated = ops.where(
            is_kept, cumulated, ops.max(ops.where(is_kept, cumulated, 0), -1, keepdims=True)
        )
    drawn = ops.reshape(numbers, (-1, 1)) * cumulated[:, -1:]
    index = ops.sum(ops.cast(cumulated <= drawn, "int32"), axis=-1, keepdims=True)
    values = ops.take_along_axis(values, index, axis=-1)
    tokens = index if tokens is None else ops.take_along_axis(tokens, index, axis=-1)
    scores = scores - ops.logsumexp(logits, axis=-1) + ops.reshape(values, (-1, beam))
    parents = ops.broadcast_to(ops.arange(beam, dtype="int32"), ops.shape(scores))
    return Candidates(parents, ops.cast(ops.reshape(tokens, (-1, beam)), "int32"), scores)


def sentence_keys(encoder_token_ids, seed):
    """A hash of each sentence, whatever its place in the batch and its padding.

    It is the sum, modulo 2^32, of hashes of the tokens, each with its position.

    Args:
        encoder_token_ids: int32 tensor `(batch, source)`.
        seed: int32 tensor `(1, 1)`.

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
    return ops.cast(ops.sum(words, axis=1, keepdims=True), "int32")


def uniform_numbers(keys, count, seed, step):
    """Random numbers that depend on the sentence and not on its place in the batch.

    Args:
        keys: int32 tensor `(batch, 1)`, from `sentence_keys`.
        count: how many for each sentence.
        seed: int32 tensor `(1, 1)`.
        step: int32 scalar; each step has its own numbers.

    Returns:
        Float32 tensor `(batch, count)`, uniform in [0, 1).
    """
    # 0 and 1 made the keys.
    words = ops.concatenate([ops.reshape(seed, (1,)), ops.reshape(step, (1,)) + 2])
    bits = hash_bits(keys + ops.arange(count, dtype="int32"), words)
    # 23 bits, so that the product with a float32 sum stays below that sum.
    return ops.cast(ops.bitwise_and(ops.right_shift(bits, 9), 2**23 - 1), "float32") * 2.0**-23
