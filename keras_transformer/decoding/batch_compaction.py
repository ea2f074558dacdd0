"""A search in stages, each with one batch size and one cache size.

All steps compute on the whole batch and attend to the whole cache. So the cache is small at first
and grows if outputs are long; and when half of the sentences have ended, they leave the batch.
"""

from contextvars import ContextVar
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.compilation import XlaChoice, is_traced, run_compiled
from keras_transformer.decoding.search_loop import (
    SearchLoop,
    Sentences,
    State,
    get_step_inputs,
    largest_capacity,
    true_first,
)
from keras_transformer.decoding.search_policy import SearchPolicy
from keras_transformer.reserved_ids import PAD_ID

# The cache begins with room for 32 steps, and grows by a factor when more than three quarters of it
# are used: most outputs end long before their limit.
_FIRST_STEPS = 32
_GROWTH = 4

_xla = XlaChoice()
# Whether XLA compiles the stages of a program that TensorFlow traces for all sizes: in an export.
stages_for_xla: ContextVar[bool] = ContextVar("stages_for_xla", default=False)

# Batches are not made smaller than this: then reading the weights takes most of the time.
FEWEST_HYPOTHESES = 64


class Inputs(NamedTuple):
    """The inputs of a search."""

    encoder_token_ids: Tensor  # int32 (batch, source)
    per_example: list[dict[str, Tensor]]  # per constraint, int32 tensors (batch, ...) by name
    numbers: Tensor  # int32 (batch, 1): numbers of the sentences; () if unused
    traced: dict[str, Any]  # of the search and its constraints, tensors for all sentences by name
    seed: Tensor  # int32
    is_candidate: Tensor = ()  # bool (batch, n): see `Sentences`
    candidate_ids: Tensor = ()  # int32 (1, n): see `SearchLoop`


class Stage(NamedTuple):
    """The result of a stage."""

    sentences: Sentences
    state: State
    num_unfinished: Tensor  # int32: the number of sentences with live hypotheses
    token_ids: Tensor  # int32 (all sentences, num_results, length): their results so far
    scores: Tensor  # float32 (all sentences, num_results)


def search_in_stages(
    model: keras.Model,
    inputs: Inputs,
    static_part: SearchPolicy,
    num_results: int,
    extra_length: int,
) -> tuple[Tensor, Tensor]:
    """Search for the best outputs.

    TensorFlow traces one program for all stages of all sizes; if a shape occurs often enough, XLA
    compiles its stages, as on JAX. JAX compiles one program per
    combination of sizes, when a search first needs it. Inside a program that is being traced, JAX
    has no values: there one stage has a cache for all steps.

    Args:
        model: a `Transformer`.
        inputs: `Inputs`.
        static_part: the `SearchPolicy` that programs are compiled for: `StaticFields.static_part`.
        num_results: the number of outputs per sentence.
        extra_length: the number of tokens by which an output may exceed its source: an integer.

    Returns:
        The pair `(token_ids, scores)` that a `Search` returns.
    """
    length = ops.shape(inputs.encoder_token_ids)[1] + extra_length
    options: dict[str, Any] = {"static_part": static_part, "num_results": num_results}
    if keras.backend.backend() == "tensorflow":
        given = keras.tree.flatten((inputs.encoder_token_ids, inputs.candidate_ids))
        key = (*(tuple(x.shape) for x in given), *options.values())
        if _xla.pays(model, key):
            options["xla"] = True
            stage = _stages_one_by_one(model, inputs, length=_room(length), **options)
        else:
            options["compiles_stages"] = stages_for_xla.get()
            stage = _xla.run(
                model, key, lambda: run_compiled(_stages_in_one_program, model, inputs, **options)
            )
    elif is_traced(inputs.encoder_token_ids):
        room = _room(length)
        stage = _first_stage(model, inputs, length=room, steps=room, shrinks=False, **options)
    else:
        stage = _stages_one_by_one(model, inputs, length=_room(length), **options)
    return stage.token_ids[..., :length], stage.scores


def _room(length: Any) -> Any:
    """Return the room for outputs of a length: for XLA one of few sizes, so few programs."""
    if keras.backend.backend() == "torch":
        return length
    return max(_FIRST_STEPS, 1 << (length - 1).bit_length())


def _stages_one_by_one(model: keras.Model, inputs: Inputs, length: int, **options: Any) -> Stage:
    """Return the last stage, if Python can read the values."""
    stage = run_compiled(_first_stage, model, inputs, length=length, **options)
    inputs = _of_later_stages(inputs)
    while stage.num_unfinished > 0:
        size, capacity = map(int, _next_sizes(stage))
        stage = run_compiled(
            _next_stage, model, stage, inputs, size=size, capacity=capacity, **options
        )
    return stage


def _stages_in_one_program(
    model: keras.Model, inputs: Inputs, compiles_stages: bool, **options: Any
) -> Stage:
    """Return the last stage, if a loop may change the sizes."""
    later = _of_later_stages(inputs)

    def run(function: Any, *tensors: Any) -> Stage:
        if compiles_stages:
            return run_compiled(function, model, *tensors, xla=True, **options)
        return function(model, *tensors, **options)

    def next_stage(stage: Stage) -> tuple[Stage]:
        return (run(_next_stage, stage, later, *_next_sizes(stage)),)

    length = ops.shape(inputs.encoder_token_ids)[1] + inputs.traced["extra_length"]
    stage = run(_first_stage, inputs, length)
    (stage,) = ops.while_loop(lambda stage: stage.num_unfinished > 0, next_stage, (stage,))
    return stage


def _of_later_stages(inputs: Inputs) -> Inputs:
    """Return the inputs without the tensors that the first stage has put into its state."""
    return inputs._replace(encoder_token_ids=(), per_example=(), numbers=(), is_candidate=())


def begin(
    model: keras.Model,
    inputs: Inputs,
    static_part: SearchPolicy,
    num_results: int,
    length: int | Tensor,
    steps: int | Tensor,
) -> tuple[SearchLoop, State]:
    """Return the loop of a search, and the `State` before the first step.

    Args:
        model: a `Transformer`.
        inputs: `Inputs`.
        static_part: see `search_in_stages`.
        num_results: the number of outputs per sentence.
        length: the largest length of an output.
        steps: the number of steps for which the cache has room.

    Returns:
        The pair of a `SearchLoop` and its state.
    """
    search = static_part.bind(inputs.traced, inputs.per_example)
    token_ids = inputs.encoder_token_ids
    encoded = model.encode(token_ids)
    cache = model.make_cache(encoded, steps, search.beam_width(num_results))
    sentences = Sentences(
        rows=ops.arange(ops.shape(token_ids)[0], dtype="int32"),
        token_ids=token_ids,
        caches=[layer["cross"] for layer in cache],
        step_inputs=get_step_inputs(model).of_source(encoded, token_ids),
        keys=search.sentence_keys(token_ids, inputs.numbers, inputs.seed),
        is_candidate=inputs.is_candidate,
    )
    loop = SearchLoop(search, num_results, model, sentences, inputs.seed, inputs.candidate_ids)
    return loop, loop.first_state([layer["self"] for layer in cache], length)


def _first_stage(
    model: keras.Model,
    inputs: Inputs,
    length: int | Tensor,
    static_part: SearchPolicy,
    num_results: int,
    steps: int | Tensor | None = None,
    shrinks: bool = True,
) -> Stage:
    steps = _smaller(_FIRST_STEPS if steps is None else steps, length)
    if model.config.max_length is not None:
        steps = _smaller(steps, model.config.max_length)
    loop, state = begin(model, inputs, static_part, num_results, length, steps)
    all_token_ids = ops.zeros((*ops.shape(state.finished_scores), length), "int32")
    return _run(loop, state, all_token_ids, state.finished_scores, shrinks)


def _next_stage(
    model: keras.Model,
    stage: Stage,
    inputs: Inputs,
    size: int | Tensor,
    capacity: int | Tensor,
    static_part: SearchPolicy,
    num_results: int,
) -> Stage:
    """Return the stage after `stage`, with `size` sentences and a cache of `capacity` positions."""
    search = static_part.bind(inputs.traced)
    sentences, state = with_batch_size(stage.sentences, stage.state, size)
    loop = SearchLoop(search, num_results, model, sentences, inputs.seed, inputs.candidate_ids)
    return _run(loop, with_capacity(state, capacity), stage.token_ids, stage.scores)


def _run(
    loop: SearchLoop, state: State, token_ids: Tensor, scores: Tensor, shrinks: bool = True
) -> Stage:
    """Run the loop, and write the results into the rows of the sentences."""

    def goes_on(state: State) -> Tensor:
        num_unfinished = _num_unfinished(state)
        is_large = ops.logical_not(_can_be_halved(num_unfinished, state)) if shrinks else True
        return ops.logical_and(num_unfinished > 0, is_large)

    state = loop.run(state, goes_on)
    rows = ops.expand_dims(loop.sentences.rows, 1)
    is_there = state.finished_scores > -np.inf
    results = ops.where(ops.expand_dims(is_there, -1), loop.finished_tokens(state), PAD_ID)
    # A place without an output may have the score NaN.
    result_scores = ops.where(is_there, state.finished_scores, -np.inf)
    return Stage(
        loop.sentences,
        state,
        _num_unfinished(state),
        ops.scatter_update(token_ids, rows, results),
        ops.scatter_update(scores, rows, result_scores),
    )


def _next_sizes(stage: Stage) -> tuple[Tensor, Tensor]:
    """Return the batch size and the cache size of the next stage."""
    size, capacity = ops.shape(stage.state.scores)[0], ops.shape(stage.state.ancestors)[-1]
    is_halved = _can_be_halved(stage.num_unfinished, stage.state)
    larger = _smaller(capacity * _GROWTH, largest_capacity(stage.state))
    return ops.where(is_halved, size - size // 2, size), ops.where(is_halved, capacity, larger)


def _can_be_halved(num_unfinished: Tensor, state: State) -> Tensor:
    """Return whether half of the batch has room for all unfinished sentences."""
    size, beam = ops.shape(state.scores)
    return ops.logical_and(2 * num_unfinished <= size, size * beam >= 2 * FEWEST_HYPOTHESES)


def _num_unfinished(state: State) -> Tensor:
    return ops.sum(ops.cast(_has_hypotheses(state), "int32"))


def _smaller(a: int | Tensor, b: int | Tensor) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else ops.minimum(a, b)


def _has_hypotheses(state: State) -> Tensor:
    """Return whether each sentence has a live hypothesis: bool `(batch,)`."""
    return ops.any(state.scores > -np.inf, axis=1)


def with_batch_size(
    sentences: Sentences, state: State, size: int | Tensor
) -> tuple[Sentences, State]:
    """Keep `size` sentences, the ones with live hypotheses first."""
    if isinstance(size, int) and size == state.scores.shape[0]:
        return sentences, state
    rows = true_first(_has_hypotheses(state))[:size]

    def of_rows(x: Tensor) -> Tensor:
        # Scalars belong to all sentences.
        return ops.take(x, rows, axis=0) if len(x.shape) > 0 else x

    return keras.tree.map_structure(of_rows, (sentences, state))


def with_capacity(state: State, capacity: int | Tensor) -> State:
    """Return the state with a larger cache."""
    caches = [
        (_padded(key, 3, capacity), _padded(value, 2, capacity)) for key, value in state.caches
    ]
    return state._replace(ancestors=_padded(state.ancestors, 2, capacity), caches=caches)


def _padded(x: Tensor, axis: int, size: int | Tensor) -> Tensor:
    """Pad the end of an axis with zeros up to a size."""
    shape = list(ops.shape(x))
    shape[axis] = size - shape[axis]
    return ops.concatenate([x, ops.zeros(shape, x.dtype)], axis=axis)
