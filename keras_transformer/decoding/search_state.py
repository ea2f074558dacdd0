"""The state of a search: sentences and hypotheses, and how batch and cache are resized.

The hypotheses of a sentence lie in the decoder's batch as if they were consecutive positions of one
target. So they share their source's keys and values, and the cache is not reordered with the beam:
keys and values stay where they were written, and a mask marks the cached positions that each live
hypothesis descends from. When the cache is full, positions without a live descendant are removed.
All hypotheses usually share their first tokens, so the cache of a wide beam is hardly longer than
its outputs.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding.candidates import gather_rows
from keras_transformer.layers.tensor_ops import slice_update
from keras_transformer.reserved_ids import PAD_ID


class Sentences(NamedTuple):
    """The constant data of the sentences in the batch."""

    rows: object  # int32 (batch,): the row of each among all sentences of the search
    token_ids: object  # int32 (batch, source)
    caches: object  # one (key, value) per layer, of the source, as in `make_cache`
    step_inputs: object  # `StepInputs.of_source`
    keys: object  # int32 (batch, 1): keys of random numbers; () if unused


class State(NamedTuple):
    """The data that a step changes. A place without a hypothesis has the score minus infinity."""

    step: object  # int32: the number of tokens of the live hypotheses
    last_tokens: object  # int32 (batch, beam)
    scores: object  # float32 (batch, beam): their log-probabilities, the best first
    tokens: object  # int32 (batch, length, beam): the tokens that each step added
    parents: object  # int32 (batch, length, beam): the hypotheses of the previous step
    ancestors: object  # bool (batch, beam, capacity): the cached positions each descends from
    used: object  # int32: the number of used positions of the cache
    step_inputs: object  # `StepInputs.first`
    coverage: object  # float32 (batch, beam, source): attention to each source token; () if unused
    ends: object  # `Ends` (batch, num_results)
    finished_scores: object  # float32 (batch, num_results): penalized, the best first
    constraints: object  # one state per constraint
    caches: object  # one (key, value) per layer, of the outputs, as in `make_cache`


class Ends(NamedTuple):
    """Where finished hypotheses end: int32 tensors `(batch, n)`."""

    steps: object  # the step, -1 without tokens
    parents: object  # the hypothesis of the previous step
    tokens: object  # the last token


def finished_tokens(state):
    """Return the finished hypotheses, read backwards: int32 `(batch, num_results, length)`."""
    last = ops.max(state.ends.steps)

    def read_one(step, hypotheses, outputs):
        tokens, parents = (
            ops.take_along_axis(ops.take(x, step, axis=1), hypotheses, axis=1)
            for x in (state.tokens, state.parents)
        )
        is_end = state.ends.steps == step
        is_inside = state.ends.steps > step
        tokens = ops.where(is_end, state.ends.tokens, ops.where(is_inside, tokens, PAD_ID))
        hypotheses = ops.where(
            is_end, state.ends.parents, ops.where(is_inside, parents, hypotheses)
        )
        outputs = slice_update(outputs, (0, 0, step), ops.expand_dims(tokens, -1))
        return step - 1, hypotheses, outputs

    batch, num_results = ops.shape(state.finished_scores)
    outputs = ops.zeros((batch, num_results, ops.shape(state.tokens)[1]), "int32")
    _, _, outputs = ops.while_loop(
        lambda step, hypotheses, outputs: step >= 0,
        read_one,
        (last, ops.zeros_like(state.ends.parents), outputs),
    )
    return outputs


def has_hypotheses(state):
    """Return whether each sentence has a live hypothesis: bool `(batch,)`."""
    return ops.any(state.scores > -np.inf, axis=1)


def largest_capacity(state):
    """Return the cache size for all hypotheses of a sentence at the largest output length."""
    _, *sizes = ops.shape(state.tokens)  # beam and length, in either order
    return sizes[0] * sizes[1]


def with_batch_size(sentences, state, size):
    """Keep `size` sentences, the ones with live hypotheses first."""
    if isinstance(size, int) and size == state.scores.shape[0]:
        return sentences, state
    rows = _true_first(has_hypotheses(state))[:size]

    def of_rows(x):
        # Scalars belong to all sentences.
        return ops.take(x, rows, axis=0) if len(x.shape) > 0 else x

    return keras.tree.map_structure(of_rows, (sentences, state))


def with_capacity(state, capacity):
    """Return the state with a larger cache."""
    caches = [
        (_padded(key, 3, capacity), _padded(value, 2, capacity)) for key, value in state.caches
    ]
    return state._replace(ancestors=_padded(state.ancestors, 2, capacity), caches=caches)


def without_unused(state):
    """Return the state with a cache that begins with the ancestors of live hypotheses."""
    ancestors = state.ancestors & (state.scores > -np.inf)[..., None]
    is_used = ops.any(ancestors, axis=1)
    order = _true_first(is_used)
    caches = [
        (_swap(_with_positions(_swap(key), order)), _with_positions(value, order))
        for key, value in state.caches
    ]
    return state._replace(
        ancestors=ops.take_along_axis(ancestors, order[:, None, :], axis=2),
        used=ops.max(ops.sum(ops.cast(is_used, "int32"), axis=1)),
        caches=caches,
    )


def _true_first(mask):
    """Return the indices of the last axis, those with a true mask first."""
    size = ops.shape(mask)[-1]
    indices = ops.arange(size, dtype="int32")
    return ops.cast(ops.argsort(ops.where(mask, indices, indices + size)), "int32")


def _with_positions(x, positions):
    """Return the vectors `(batch, num_heads, capacity, dim)` at positions `(batch, n)`."""
    batch, num_heads, capacity, dim = ops.shape(x)
    rows = ops.reshape(x, (batch * num_heads, capacity, dim))
    rows = gather_rows(rows, ops.repeat(positions, num_heads, axis=0))
    return ops.reshape(rows, (batch, num_heads, ops.shape(positions)[1], dim))


def _swap(x):
    return ops.swapaxes(x, -1, -2)


def _padded(x, axis, size):
    """Pad the end of an axis with zeros up to a size."""
    shape = list(ops.shape(x))
    shape[axis] = size - shape[axis]
    return ops.concatenate([x, ops.zeros(shape, x.dtype)], axis=axis)
