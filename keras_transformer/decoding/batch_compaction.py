"""A search in stages, each with a batch and a cache of one size.

All steps compute on the whole batch and attend to all that the cache has room for. So the cache is
small at first, and grows where outputs are long; and when half of the sentences have ended, the
others go on without them.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding.candidates import sentence_keys
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.decoding.search_state import (
    Sentences,
    State,
    has_hypotheses,
    largest_capacity,
    with_batch_size,
    with_capacity,
)
from keras_transformer.reserved_ids import PAD_ID

# The cache begins with room for so many steps, and grows by a factor when more than three quarters
# of it are in use: most outputs end long before their limit.
_FIRST_STEPS = 32
_GROWTH = 4

# No batch is made smaller than this: with fewer, reading the weights is what takes the time.
FEWEST_HYPOTHESES = 64


class Inputs(NamedTuple):
    """What a search is given."""

    encoder_token_ids: object  # int32 (batch, source)
    rows: object  # of each constraint, int32 tensors (batch, ...) by name
    shared: object  # of the search and its constraints, tensors of all sentences by name
    seed: object  # int32
    numbers: object = ()  # int32 (batch, 1): which sentence of the call each is; () if unused


class Stage(NamedTuple):
    """What a stage leaves."""

    sentences: Sentences
    state: State
    num_live: object  # int32: how many of these sentences have not ended
    token_ids: object  # int32 (all sentences, num_results, length): their results so far
    scores: object  # float32 (all sentences, num_results)


def search_in_stages(model, inputs, template, num_results, extra_length):
    """Search for the best outputs.

    TensorFlow has one program for all stages of all sizes. JAX compiles one for each combination
    of sizes, when a search first gets there; within a program that is being traced, where it cannot
    know what ends, the cache grows and the batch stays as it is.

    Args:
        model: a `Transformer`.
        inputs: `Inputs`.
        template: the `Search` that programs are compiled for: `Settings.template`.
        num_results: how many outputs of each sentence.
        extra_length: how many tokens longer than its source an output may be: an integer.

    Returns:
        The pair `(token_ids, scores)` that a `Search` returns.
    """
    length = ops.shape(inputs.encoder_token_ids)[1] + extra_length
    options = {"template": template, "num_results": num_results}
    if keras.backend.backend() == "tensorflow":
        stage = run_compiled(_stages_in_one_program, model, inputs, **options)
    elif is_traced(inputs.encoder_token_ids):
        stage = _stages_of_one_batch_size(model, inputs, length=_room(length), **options)
    else:
        stage = _stages_one_by_one(model, inputs, length=_room(length), **options)
    return stage.token_ids[..., :length], stage.scores


def _room(length):
    """Room for outputs of a length; on JAX of few sizes, each of which has its own programs."""
    if keras.backend.backend() != "jax":
        return length
    return max(_FIRST_STEPS, 1 << (length - 1).bit_length())


def is_traced(tensor):
    """Whether the tensor is in a JAX program that is being traced, and so has no values yet."""
    if keras.backend.backend() != "jax":
        return False
    import jax

    return isinstance(tensor, jax.core.Tracer)


def _stages_one_by_one(model, inputs, length, **options):
    """The last stage, where Python sees the values."""
    stage = run_compiled(_first_stage, model, inputs, length=length, **options)
    inputs = _of_later_stages(inputs)
    while stage.num_live > 0:
        size, capacity = map(int, _next_sizes(stage))
        stage = run_compiled(
            _next_stage, model, stage, inputs, size=size, capacity=capacity, **options
        )
    return stage


def _stages_in_one_program(model, inputs, template, num_results):
    """The last stage, where a loop may change the sizes."""
    length = ops.shape(inputs.encoder_token_ids)[1] + inputs.shared["extra_length"]
    stage = _first_stage(model, inputs, template, num_results, length)

    def next_stage(stage):
        return (_next_stage(model, stage, inputs, *_next_sizes(stage), template, num_results),)

    (stage,) = ops.while_loop(lambda stage: stage.num_live > 0, next_stage, (stage,))
    return stage


def _stages_of_one_batch_size(model, inputs, template, num_results, length):
    """The last stage, where sizes are fixed and values unknown."""
    stage = _first_stage(model, inputs, template, num_results, length, shrinks=False)
    size, capacity = _sizes(stage)
    while capacity < largest_capacity(stage.state):
        capacity = min(capacity * _GROWTH, largest_capacity(stage.state))
        stage = _next_stage(
            model, stage, inputs, size, capacity, template, num_results, shrinks=False
        )
    return stage


def _of_later_stages(inputs):
    """The inputs without what the first stage has put into its state."""
    return inputs._replace(encoder_token_ids=(), rows=(), numbers=())


def begin(model, inputs, template, num_results, length, steps):
    """The loop of a search, and the `State` before the first step.

    Args:
        model: a `Transformer`.
        inputs: `Inputs`.
        template: see `search_in_stages`.
        num_results: how many outputs of each sentence.
        length: no output is longer.
        steps: for how many steps the cache has room.

    Returns:
        The pair of a `SearchLoop` and its state.
    """
    search = template.filled(inputs.shared, inputs.rows)
    token_ids = inputs.encoder_token_ids
    encoded = model.encode(token_ids)
    cache = model.make_cache(encoded, steps, search.num_live(num_results))
    sentences = Sentences(
        rows=ops.arange(ops.shape(token_ids)[0], dtype="int32"),
        token_ids=token_ids,
        caches=[layer["cross"] for layer in cache],
        words=model.word_vectors(encoded, token_ids) if hasattr(model, "word_vectors") else (),
        keys=sentence_keys(token_ids, inputs.numbers, inputs.seed) if search.draws else (),
    )
    loop = search.loop_class(search, num_results, model, sentences, inputs.seed)
    return loop, loop.first_state([layer["self"] for layer in cache], length)


def _first_stage(model, inputs, template, num_results, length, shrinks=True):
    steps = _smaller(_FIRST_STEPS, length)
    if model.hyperparameters["max_length"] is not None:
        steps = _smaller(steps, model.hyperparameters["max_length"])
    loop, state = begin(model, inputs, template, num_results, length, steps)
    all_token_ids = ops.zeros((*ops.shape(state.finished_scores), length), "int32")
    return _run(loop, state, all_token_ids, state.finished_scores, shrinks)


def _next_stage(model, stage, inputs, size, capacity, template, num_results, shrinks=True):
    """The stage after `stage`, with `size` sentences and a cache of `capacity` positions."""
    search = template.filled(inputs.shared)
    sentences, state = with_batch_size(stage.sentences, stage.state, size)
    loop = search.loop_class(search, num_results, model, sentences, inputs.seed)
    return _run(loop, with_capacity(state, capacity), stage.token_ids, stage.scores, shrinks)


def _run(loop, state, token_ids, scores, shrinks):
    """Search on, and put the results where they belong among all sentences'."""

    def goes_on(state):
        num_live = _num_live(state)
        is_large = ops.logical_not(_can_be_halved(num_live, state)) if shrinks else True
        return ops.logical_and(num_live > 0, is_large)

    state = loop.run(state, goes_on)
    rows = ops.expand_dims(loop.sentences.rows, 1)
    is_there = state.finished_scores > -np.inf
    results = ops.where(ops.expand_dims(is_there, -1), loop.finished_tokens(state), PAD_ID)
    # A score that is not a number is of no output.
    result_scores = ops.where(is_there, state.finished_scores, -np.inf)
    return Stage(
        loop.sentences,
        state,
        _num_live(state),
        ops.scatter_update(token_ids, rows, results),
        ops.scatter_update(scores, rows, result_scores),
    )


def _next_sizes(stage):
    """How many sentences and cached positions the next stage has."""
    size, capacity = _sizes(stage)
    is_halved = _can_be_halved(stage.num_live, stage.state)
    larger = _smaller(capacity * _GROWTH, largest_capacity(stage.state))
    return ops.where(is_halved, size - size // 2, size), ops.where(is_halved, capacity, larger)


def _can_be_halved(num_live, state):
    """Whether half of the batch has room for all sentences that have not ended."""
    size, beam = ops.shape(state.scores)
    return ops.logical_and(2 * num_live <= size, size * beam >= 2 * FEWEST_HYPOTHESES)


def _num_live(state):
    return ops.sum(ops.cast(has_hypotheses(state), "int32"))


def _sizes(stage):
    return ops.shape(stage.state.scores)[0], ops.shape(stage.state.ancestors)[-1]


def _smaller(a, b):
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else ops.minimum(a, b)
