"""The tokens that live hypotheses may be continued with."""

import numpy as np
from keras import ops

from keras_transformer.decoding.top_k import top_k
from keras_transformer.reserved_ids import PAD_ID, START_ID


def choose(logits, constraints, states, progress, count=None):
    """The likeliest tokens that may come next of each live hypothesis, and their log-probabilities.

    Padding and the start token never come. Constraints that forbid few tokens are asked of the
    likeliest alone, of which there are so many more.

    Args:
        logits: float32 tensor `(batch, beam, vocabulary_size)`.
        constraints: list of `Constraint`.
        states: their states.
        progress: `Progress`.
        count: how many tokens of each hypothesis are needed. Defaults to all.

    Returns:
        The pair of float32 `(batch, beam, n)`, minus infinity where a token may not come, and of
        the tokens' ids: int32 `(batch, beam, n)`, or `(n,)` where they are the same for all. Tokens
        that may come are in falling order if `count` is given, else in the order of their ids.
    """
    for constraint, state in zip(constraints, states):
        logits = constraint.adjust_logits(logits, state, progress)
    token_ids = _only_token_ids(constraints, logits.shape[-1])
    normalizer = ops.logsumexp(logits, axis=-1, keepdims=True)
    of_few = [c.num_forbidden is not None and count is not None for c in constraints]
    values = logits
    if len(token_ids) < logits.shape[-1]:
        values = ops.take(logits, token_ids, axis=-1)
    # Subtracted early only for whom it concerns: it is a pass over the vocabulary.
    is_early = count is None or not all(of_few)
    if is_early:
        values = values - normalizer
    for constraint, state, is_of_few in zip(constraints, states, of_few):
        if not is_of_few:
            values = constraint.allowed(values, token_ids, state, progress)
    if count is not None:
        more = sum(c.num_forbidden for c, is_of_few in zip(constraints, of_few) if is_of_few)
        values, token_ids = _likeliest(values, token_ids, logits.shape[1], count + more)
        values = values if is_early else values - normalizer
        for constraint, state, is_of_few in zip(constraints, states, of_few):
            if is_of_few:
                values = constraint.allowed(values, token_ids, state, progress)
    values = ops.where(token_ids > START_ID, values, -np.inf)
    forced, is_scored = _forced(constraints, states, progress)
    if forced is not None:
        values, token_ids = _with_forced(values, token_ids, forced, is_scored, logits, normalizer)
    # What is no number, as of weights that are none, must not come: backends sort it differently.
    return ops.where(values > -np.inf, values, -np.inf), token_ids


def _only_token_ids(constraints, vocabulary_size):
    """The ids that all constraints leave: a sorted int array."""
    token_ids = np.arange(vocabulary_size, dtype="int32")
    for constraint in constraints:
        if (only := constraint.token_ids()) is not None:
            token_ids = token_ids[np.isin(token_ids, only)]
    return token_ids


def _likeliest(values, token_ids, beam, count):
    """So many of the largest values, and as many more as there are tokens that never come."""
    size = len(token_ids)
    never = int((token_ids <= START_ID).sum())
    count = min(count + never, size)
    values, indices = top_k(ops.reshape(values, (-1, size)), count)
    if token_ids[-1] >= size:
        indices = ops.take(token_ids, indices, axis=0)
    return ops.reshape(values, (-1, beam, count)), ops.reshape(indices, (-1, beam, count))


def _forced(constraints, states, progress):
    """The token that must come next, by the first constraint that has one; else 0, or None. And
    whether it is scored.
    """
    forced, is_scored = None, True
    for constraint, state in zip(constraints, states):
        new = constraint.forced(state, progress)
        if new is None:
            continue
        is_new = new != PAD_ID
        if forced is not None:
            is_new = is_new & (forced == PAD_ID)
            new = ops.where(is_new, new, forced)
        forced = new
        if not constraint.scores_forced:
            is_scored = ~is_new & is_scored
    return forced, is_scored


def _with_forced(values, token_ids, forced, is_scored, logits, normalizer):
    """The choices with one more: the forced token, and then nothing but that."""
    forced = ops.broadcast_to(forced, ops.shape(logits)[:2])[..., None]
    forced_values = ops.take_along_axis(logits, forced, axis=-1) - normalizer
    if is_scored is not True:
        is_scored = ops.broadcast_to(is_scored, ops.shape(logits)[:2])[..., None]
        forced_values = ops.where(is_scored, forced_values, 0.0)
    values = ops.where(forced == PAD_ID, values, -np.inf)
    forced_values = ops.where(forced == PAD_ID, -np.inf, forced_values)
    token_ids = ops.broadcast_to(ops.convert_to_tensor(token_ids, "int32"), ops.shape(values))
    return ops.concatenate([values, forced_values], axis=-1), ops.concatenate(
        [token_ids, forced], axis=-1
    )
