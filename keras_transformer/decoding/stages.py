"""A search in stages, each with a batch and a cache of one size.

All steps compute on the whole batch and attend to all that the cache has room for. So the cache is
small at first, and grows where outputs are long; and when half of the sentences have ended, the
others go on without them.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.data.tokenizer import PAD_ID
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.decoding.search_loop import SearchLoop
from keras_transformer.decoding.search_state import (
    Sentences,
    State,
    has_hypotheses,
    with_batch_size,
    with_capacity,
)

# The cache begins with room for so many steps, and grows by a factor when more than three quarters
# of it are in use: most outputs end long before their limit.
_FIRST_STEPS = 32
_GROWTH = 4

# No batch is made smaller than this: with fewer, reading the weights is what takes the time.
FEWEST_HYPOTHESES = 64


class Stage(NamedTuple):
    """What a stage leaves."""

    sentences: Sentences
    state: State
    num_live: object  # int32: how many of these sentences have not ended
    token_ids: object  # int32 (all sentences, num_results, length): their results so far
    scores: object  # float32 (all sentences, num_results)


def search_in_stages(model, encoder_token_ids, seed, *start, options):
    """Search for the best outputs.

    TensorFlow has one program for all stages of all sizes. JAX compiles one for each combination
    of sizes, when a search first gets there; within a program that is being traced, where it cannot
    know what ends, the cache grows and the batch stays as it is.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int32 tensor `(batch, source)`.
        seed: int32 tensor `(1, 1)`, for sampling.
        *start: what the outputs begin from. With a grammar its `Words`: int32 `(batch, 1)` and
            `(batch, words)`; without one, if anything, int32 `(batch, prefix)`, forced tokens.
        options: `SearchOptions`.

    Returns:
        The pair `(token_ids, scores)` that `beam_search` returns.
    """
    tensors = (encoder_token_ids, seed, *start)
    if is_traced(encoder_token_ids):
        stage = _stages_of_one_batch_size(model, *tensors, options=options)
    elif keras.backend.backend() == "tensorflow":
        stage = run_compiled(_stages_in_one_program, model, *tensors, options=options)
    else:
        stage = _stages_one_by_one(model, *tensors, options=options)
    return stage.token_ids, stage.scores


def is_traced(tensor):
    """Whether the tensor is in a JAX program that is being traced, and so has no values yet."""
    if keras.backend.backend() != "jax":
        return False
    import jax

    return isinstance(tensor, jax.core.Tracer)


def _stages_one_by_one(model, encoder_token_ids, seed, *start, options):
    """The last stage, where Python sees the values."""
    stage = run_compiled(_first_stage, model, encoder_token_ids, seed, *start, options=options)
    while stage.num_live > 0:
        size, capacity = map(int, _next_sizes(stage, options))
        stage = run_compiled(
            _next_stage, model, stage, seed, size=size, capacity=capacity, options=options
        )
    return stage


def _stages_in_one_program(model, encoder_token_ids, seed, *start, options):
    """The last stage, where a loop may change the sizes."""

    def next_stage(stage):
        return (_next_stage(model, stage, seed, *_next_sizes(stage, options), options),)

    stage = _first_stage(model, encoder_token_ids, seed, *start, options=options)
    (stage,) = ops.while_loop(lambda stage: stage.num_live > 0, next_stage, (stage,))
    return stage


def _stages_of_one_batch_size(model, encoder_token_ids, seed, *start, options):
    """The last stage, where sizes are fixed and values unknown."""
    stage = _first_stage(model, encoder_token_ids, seed, *start, options=options, shrinks=False)
    size, capacity = _sizes(stage)
    while capacity < _largest_capacity(stage, options):
        capacity = min(capacity * _GROWTH, _largest_capacity(stage, options))
        stage = _next_stage(model, stage, seed, size, capacity, options, shrinks=False)
    return stage


def _first_stage(model, encoder_token_ids, seed, *start, options, shrinks=True):
    batch, source = ops.shape(encoder_token_ids)
    steps = _least(_FIRST_STEPS, source + options.extra_length)
    cache = model.make_cache(model.encode(encoder_token_ids), steps, options.beam_size)
    sentences = Sentences(
        places=ops.arange(batch, dtype="int32"),
        token_ids=encoder_token_ids,
        start=start,
        caches=[layer["cross"] for layer in cache],
    )
    loop = SearchLoop(model, sentences, seed, options)
    state = loop.first_state([layer["self"] for layer in cache])
    return _run(loop, state, state.finished_tokens, state.finished_scores, shrinks)


def _next_stage(model, stage, seed, size, capacity, options, shrinks=True):
    """The stage after `stage`, with `size` sentences and a cache of `capacity` positions."""
    sentences, state = with_batch_size(stage.sentences, stage.state, size)
    loop = SearchLoop(model, sentences, seed, options)
    return _run(loop, with_capacity(state, capacity), stage.token_ids, stage.scores, shrinks)


def _run(loop, state, token_ids, scores, shrinks):
    """Search on, and put the results where they belong among all sentences'."""

    def goes_on(state):
        num_live = _num_live(state)
        is_large = ops.logical_not(_can_be_halved(num_live, state)) if shrinks else True
        return ops.logical_and(num_live > 0, is_large)

    state = loop.run_while(state, goes_on)
    places = ops.expand_dims(loop.sentences.places, 1)
    is_there = ops.expand_dims(state.finished_scores > -np.inf, -1)
    results = ops.where(is_there, state.finished_tokens, PAD_ID)
    return Stage(
        loop.sentences,
        state,
        _num_live(state),
        ops.scatter_update(token_ids, places, results),
        ops.scatter_update(scores, places, state.finished_scores),
    )


def _next_sizes(stage, options):
    """How many sentences and cached positions the next stage has."""
    size, capacity = _sizes(stage)
    is_halved = _can_be_halved(stage.num_live, stage.state)
    larger = _least(capacity * _GROWTH, _largest_capacity(stage, options))
    return ops.where(is_halved, size - size // 2, size), ops.where(is_halved, capacity, larger)


def _can_be_halved(num_live, state):
    """Whether half of the batch has room for all sentences that have not ended."""
    size, beam = ops.shape(state.scores)
    return ops.logical_and(2 * num_live <= size, size * beam >= 2 * FEWEST_HYPOTHESES)


def _num_live(state):
    return ops.sum(ops.cast(has_hypotheses(state), "int32"))


def _sizes(stage):
    return ops.shape(stage.state.scores)[0], ops.shape(stage.state.ancestors)[-1]


def _largest_capacity(stage, options):
    """Room for the longest output."""
    source = ops.shape(stage.sentences.token_ids)[1]
    return (source + options.extra_length) * options.beam_size


def _least(a, b):
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else ops.minimum(a, b)
