"""What a search knows of its sentences and hypotheses, and how it is made smaller or larger.

The hypotheses of a sentence lie in the decoder's batch as if they were consecutive positions of one
target. So they share their source's keys and values, and the cache of their own is not reordered
with the beam: whatever becomes of a hypothesis, its keys and values stay where they were written,
and a mask says which of them each live hypothesis descends from. When the cache is full, those that
no live hypothesis descends from are dropped. Some steps back all descend from few: the cache of a
wide beam is hardly longer than its outputs.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding.top_k import gather_rows
from keras_transformer.layers.slice_update import slice_update
from keras_transformer.reserved_ids import PAD_ID


class Sentences(NamedTuple):
    """What no step changes of the sentences in the batch."""

    rows: object  # int32 (batch,): where each stands among all sentences of the search
    token_ids: object  # int32 (batch, source)
    caches: object  # a layer's (key, value) each, of the source, as `make_cache` has them
    words: object  # what the model's `word_vectors` gives
    keys: object  # int32 (batch, 1): of random numbers; () if unused


class State(NamedTuple):
    """What a step changes. Where there is no hypothesis, the score is minus infinity."""

    step: object  # int32: how many tokens the live hypotheses have
    last_tokens: object  # int32 (batch, beam)
    scores: object  # float32 (batch, beam): their log-probabilities, the best first
    tokens: object  # int32 (batch, length, beam): the tokens that each step has added
    parents: object  # int32 (batch, length, beam): to which hypotheses of the step before
    ancestors: object  # bool (batch, beam, capacity): the cached positions each descends from
    used: object  # int32: how many positions of the cache are in use
    next_words: object  # int32 (batch, beam): the word each comes to; () if unused
    coverage: object  # float32 (batch, beam, source): attention to each source token; () if unused
    ends: object  # `Ends` (batch, num_results)
    finished_scores: object  # float32 (batch, num_results): penalised, the best first
    constraints: object  # a state each
    caches: object  # a layer's (key, value) each, of the outputs, as `make_cache` has them


class Ends(NamedTuple):
    """Where finished hypotheses end: int32 tensors `(batch, n)`."""

    steps: object  # when, -1 if they have no tokens
    parents: object  # which hypothesis of the step before
    tokens: object  # the last token


def finished_tokens(state):
    """The finished hypotheses, read from their ends back: int32 `(batch, num_results, length)`."""
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
    """Whether any hypothesis of a sentence lives: bool `(batch,)`."""
    return ops.any(state.scores > -np.inf, axis=1)


def largest_capacity(state):
    """Room in a cache for all hypotheses of a sentence, each as long as an output may be."""
    _, *sizes = ops.shape(state.tokens)  # a hypothesis and a length, in one order or the other
    return sizes[0] * sizes[1]


def with_batch_size(sentences, state, size):
    """The first so many sentences, counting those first that have live hypotheses."""
    if isinstance(size, int) and size == state.scores.shape[0]:
        return sentences, state
    rows = _true_first(has_hypotheses(state))[:size]

    def of_rows(x):
        # A number is of all sentences.
        return ops.take(x, rows, axis=0) if len(x.shape) > 0 else x

    return keras.tree.map_structure(of_rows, (sentences, state))


def with_capacity(state, capacity):
    """The state with a cache that has more positions."""
    caches = [
        (_padded(key, 3, capacity), _padded(value, 2, capacity)) for key, value in state.caches
    ]
    return state._replace(ancestors=_padded(state.ancestors, 2, capacity), caches=caches)


def without_unused(state):
    """The state with a cache that begins with what live hypotheses descend from."""
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
    """The indices of the last axis, those where `mask` is true before the others."""
    size = ops.shape(mask)[-1]
    indices = ops.arange(size, dtype="int32")
    return ops.cast(ops.argsort(ops.where(mask, indices, indices + size)), "int32")


def _with_positions(x, positions):
    """The vectors `(batch, num_heads, capacity, dim)` at positions `(batch, n)`."""
    batch, num_heads, capacity, dim = ops.shape(x)
    rows = ops.reshape(x, (batch * num_heads, capacity, dim))
    rows = gather_rows(rows, ops.repeat(positions, num_heads, axis=0))
    return ops.reshape(rows, (batch, num_heads, ops.shape(positions)[1], dim))


def _swap(x):
    return ops.swapaxes(x, -1, -2)


def _padded(x, axis, size):
    """`x` with zeros after its end, so that an axis has the size given."""
    shape = list(ops.shape(x))
    shape[axis] = size - shape[axis]
    return ops.concatenate([x, ops.zeros(shape, x.dtype)], axis=axis)
