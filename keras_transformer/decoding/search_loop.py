"""The loop of every search, and its state.

Live hypotheses grow, and finished hypotheses are kept apart. The live hypotheses of a sentence lie
in the decoder's batch as if they were consecutive positions of one target. So they share their
source's keys and values, and the cache is not reordered with the beam: keys and values stay where
they were written, and a mask marks the cached positions that each live hypothesis descends from.
When the cache is full, positions without a live descendant are removed. All hypotheses usually
share their first tokens, so the cache of a wide beam is hardly longer than its outputs.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.candidates import (
    Candidates,
    Progress,
    Sizes,
    choose,
    gather_rows,
    top_k,
)
from keras_transformer.decoding.search_policy import RandomStep, SearchPolicy
from keras_transformer.layers.multi_head_attention import Cache
from keras_transformer.layers.tensor_ops import slice_update
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID

# The smallest attention to a source token, summed over an output, in the coverage penalty.
SMALLEST_COVERAGE = 1e-9


class Sentences(NamedTuple):
    """The constant data of the sentences in the batch."""

    rows: Tensor  # int32 (batch,): the row of each among all sentences of the search
    token_ids: Tensor  # int32 (batch, source)
    caches: list[Cache]  # one (key, value) per layer, of the source, as in `make_cache`
    step_inputs: Any  # further inputs of the model's decoder: see `StepInputs.of_source`
    keys: Tensor  # int32 (batch, 1): keys of random numbers; () if unused
    is_candidate: Tensor  # bool (batch, n): its candidates of a shortlist; () if unused


class Ends(NamedTuple):
    """The ends of finished hypotheses: int32 tensors `(batch, n)`."""

    steps: Tensor  # the step, -1 without tokens
    parents: Tensor  # the hypothesis of the previous step
    tokens: Tensor  # the last token


class State(NamedTuple):
    """The data that a step changes. A place without a hypothesis has the score minus infinity."""

    step: Tensor  # int32: the number of tokens of the live hypotheses
    last_tokens: Tensor  # int32 (batch, beam)
    scores: Tensor  # float32 (batch, beam): their log-probabilities, the best first
    tokens: Tensor  # int32 (batch, length, beam): the tokens that each step added
    parents: Tensor  # int32 (batch, length, beam): the hypotheses of the previous step
    ancestors: Tensor  # bool (batch, beam, capacity): the cached positions each descends from
    used: Tensor  # int32: the number of used positions of the cache
    step_inputs: Any  # their state: see `StepInputs.first`
    coverage: Tensor  # float32 (batch, beam, source): attention to each source token; () if unused
    ends: Ends  # (batch, num_results)
    finished_scores: Tensor  # float32 (batch, num_results): penalized, the best first
    constraints: tuple[Any, ...]  # one state per constraint
    caches: list[Cache]  # one (key, value) per layer, of the outputs, as in `make_cache`


class StepInputs:
    """The interface for further inputs of a model's decoder at each step, here without any.

    A model whose `decode` needs more than tokens, positions and a cache has an attribute
    `step_inputs`, an object with these methods. It defines the data that a search keeps for the
    sentences, which is constant, and for their hypotheses, which changes at each step.
    """

    def of_source(self, encoder_sequence: Tensor, encoder_token_ids: Tensor) -> Any:
        """Return the constant data of sentences: tensors whose first axis is the batch.

        Args:
            encoder_sequence: float tensor `(batch, source, hidden_dim)`.
            encoder_token_ids: int32 tensor `(batch, source)`.
        """
        return ()

    def first(self, batch: int | Tensor, beam: int) -> Any:
        """Return the data of hypotheses without tokens: tensors `(batch, beam, ...)`.

        Args:
            batch: the number of sentences.
            beam: the number of hypotheses per sentence.
        """
        return ()

    def arguments(self, source: Any, state: Any) -> dict[str, Any]:
        """Return a dict of further arguments of the model's `decode`.

        Args:
            source: the result of `of_source`.
            state: the data of the hypotheses that are decoded.
        """
        return {}

    def advance(self, state: Any, parents: Tensor, tokens: Tensor) -> Any:
        """Return the data of hypotheses with one more token.

        Args:
            state: the data of the hypotheses before.
            parents: int32 tensor `(batch, beam)`: the hypotheses that are continued.
            tokens: int32 tensor `(batch, beam)`: the new tokens.
        """
        return state


def get_step_inputs(model: keras.Model) -> StepInputs:
    """Return the `step_inputs` of a model, or the `StepInputs` without data."""
    return getattr(model, "step_inputs", None) or StepInputs()


class SearchLoop:
    """The loop of one search.

    Args:
        search: a `SearchPolicy` with bound tensors.
        num_results: the number of outputs per sentence.
        model: a `Transformer`.
        sentences: `Sentences`.
        seed: int32 scalar, the seed of random numbers.
        candidate_ids: sorted int32 tensor `(1, n)`: the ids of a shortlist's candidates, padded
            with 0 at the beginning; () for all tokens.
    """

    def __init__(
        self,
        search: SearchPolicy,
        num_results: int,
        model: keras.Model,
        sentences: Sentences,
        seed: Tensor,
        candidate_ids: Tensor = (),
    ) -> None:
        self.search = search
        self.num_results = num_results
        self.model = model
        self.sentences = sentences
        self.seed = seed
        self.beam_size = search.beam_width(num_results)
        self.has_coverage = not isinstance(search.coverage_penalty, float)
        self.step_inputs = get_step_inputs(model)
        self.source_mask = sentences.token_ids != PAD_ID
        self.source_lengths = ops.sum(ops.cast(self.source_mask, "int32"), axis=1)
        self.limits = search.limits(self.source_lengths)
        self.candidate_ids, self.decode_options = None, {}
        if not isinstance(candidate_ids, tuple):
            self.candidate_ids = candidate_ids[0]
            # Gathered here once, not at each step.
            self.decode_options["output_rows"] = model.decoder.output_rows(self.candidate_ids)

    def first_state(self, caches: list[Cache], length: int | Tensor) -> State:
        """Return the state before the first step: live hypotheses without tokens.

        A source without tokens has no live hypotheses.

        Args:
            caches: one empty (key, value) per layer.
            length: the largest length of an output.

        Returns:
            `State`.
        """
        batch, source = ops.shape(self.sentences.token_ids)
        beam, num_results = self.beam_size, self.num_results
        has_source = ops.expand_dims(self.source_lengths > 0, 1)
        # Samples begin apart; a beam grows out of one hypothesis.
        num_starts = beam if self.search.is_stochastic else 1
        is_start = ops.arange(beam, dtype="int32") < num_starts
        nothing = ops.full((batch, beam), -np.inf, "float32")
        no_results = ops.full((batch, num_results), -np.inf, "float32")
        return State(
            step=ops.convert_to_tensor(0, "int32"),
            last_tokens=ops.full((batch, beam), START_ID, "int32"),
            scores=ops.where(has_source & is_start, ops.zeros_like(nothing), nothing),
            tokens=ops.zeros((batch, length, beam), "int32"),
            parents=ops.zeros((batch, length, beam), "int32"),
            ancestors=ops.zeros((batch, beam, ops.shape(caches[0][0])[-1]), "bool"),
            used=ops.convert_to_tensor(0, "int32"),
            step_inputs=self.step_inputs.first(batch, beam),
            coverage=ops.zeros((batch, beam, source), "float32") if self.has_coverage else (),
            ends=Ends(
                steps=ops.full((batch, num_results), -1, "int32"),
                parents=ops.zeros((batch, num_results), "int32"),
                tokens=ops.zeros((batch, num_results), "int32"),
            ),
            finished_scores=ops.where(has_source, no_results, ops.zeros_like(no_results)),
            constraints=tuple(
                constraint.first_state(Sizes(batch, beam, length))
                for constraint in self.search.constraints
            ),
            caches=caches,
        )

    def run(self, state: State, goes_on: Callable[[State], Tensor]) -> State:
        """Make steps until the cache is too small, or `goes_on` is false.

        Args:
            state: `State`.
            goes_on: function of a `State`; returns a bool scalar.

        Returns:
            `State`.
        """
        beam = self.beam_size
        prunes = beam > 1 and not self.search.is_stochastic
        capacity = ops.shape(state.ancestors)[-1]
        is_largest = capacity >= largest_capacity(state)

        def has_room(state: State) -> Tensor:
            return goes_on(state) & (state.used + beam <= capacity)

        def is_large_enough(state: State) -> Tensor:
            return has_room(state) & (is_largest | (4 * state.used <= 3 * capacity))

        def step_until_full(state: State) -> State:
            return _while_loop(has_room, self.next_state, state)

        def step_and_compact(state: State) -> State:
            return without_unused(step_until_full(state))

        if not prunes:
            return step_until_full(state)
        return _while_loop(is_large_enough, step_and_compact, state)

    def finished_tokens(self, state: State) -> Tensor:
        """Return the finished hypotheses, read backwards: int32 `(batch, num_results, length)`."""
        last = ops.maximum(ops.max(state.ends.steps), 0)

        def read_one(reading: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            step, hypotheses, outputs = reading
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
        first = last, ops.zeros_like(state.ends.parents), outputs
        _, _, outputs = _while_loop(lambda reading: reading[0] >= 0, read_one, first)
        return outputs

    def next_state(self, state: State) -> State:
        """Return the state one step later."""
        state, logits = self._decode(state)
        if self.candidate_ids is not None:
            is_candidate = ops.expand_dims(self.sentences.is_candidate, 1)
            logits = ops.where(is_candidate, logits, -np.inf)
        progress = Progress(state.step, ops.expand_dims(self.limits - state.step, 1))
        candidates = self.search.candidates(
            functools.partial(
                choose,
                logits,
                self.search.constraints,
                state.constraints,
                progress,
                self.candidate_ids,
            ),
            state.scores,
            RandomStep(self.sentences.keys, self.seed, state.step),
        )
        is_at_limit = ops.expand_dims(state.step + 1 >= self.limits, 1)
        is_end = ops.logical_or(candidates.tokens == END_ID, is_at_limit)
        return self._grow(self._finish(state, candidates, is_end), candidates, is_end)

    def _decode(self, state: State) -> tuple[State, Tensor]:
        """Make one step of the decoder, for all live hypotheses."""
        positions = state.used + ops.expand_dims(ops.arange(self.beam_size, dtype="int32"), -1)
        is_new = ops.arange(ops.shape(state.ancestors)[-1], dtype="int32") == positions
        ancestors = ops.logical_or(state.ancestors, is_new)
        pairs = zip(state.caches, self.sentences.caches)
        logits, cache, *attention_scores = self.model.decode(
            state.last_tokens,
            self.sentences.token_ids,
            cache=[{"self": outputs, "cross": source} for outputs, source in pairs],
            cache_index=state.used,
            positions=ops.reshape(state.step, (1,)),
            self_attention_mask=ancestors,
            return_attention_scores=self.has_coverage,
            **self.step_inputs.arguments(self.sentences.step_inputs, state.step_inputs),
            **self.decode_options,
        )
        coverage = state.coverage
        for weights in attention_scores:
            coverage = coverage + ops.mean(ops.cast(weights, "float32"), axis=1)
        state = state._replace(
            ancestors=ancestors,
            used=state.used + self.beam_size,
            coverage=coverage,
            caches=[layer["self"] for layer in cache],
        )
        return state, logits

    def _finish(self, state: State, candidates: Candidates, is_end: Tensor) -> State:
        """Merge the candidates that end, among the best `beam_size`, into the finished."""
        beam = self.beam_size
        parents, tokens = candidates.parents[:, :beam], candidates.tokens[:, :beam]
        scores = self.search.penalized(candidates.scores[:, :beam], state.step + 1)
        if self.has_coverage:
            scores = scores + ops.take_along_axis(self._coverage(state), parents, axis=1)
        scores = ops.where(is_end[:, :beam], scores, -np.inf)
        scores, best = top_k(
            ops.concatenate([state.finished_scores, scores], axis=1), self.num_results
        )
        new = Ends(ops.broadcast_to(state.step, ops.shape(tokens)), parents, tokens)
        ends = Ends(
            *(
                ops.take_along_axis(ops.concatenate(pair, axis=1), best, axis=1)
                for pair in zip(state.ends, new)
            )
        )
        return state._replace(ends=ends, finished_scores=scores)

    def _grow(self, state: State, candidates: Candidates, is_end: Tensor) -> State:
        """Make the best candidates that do not end the next live hypotheses."""
        scores, best = top_k(ops.where(is_end, -np.inf, candidates.scores), self.beam_size)
        parents = ops.take_along_axis(candidates.parents, best, axis=1)
        tokens = ops.take_along_axis(candidates.tokens, best, axis=1)
        # Log-probabilities only fall, and the penalty of the length limit is the largest.
        can_win = self.search.penalized(scores[:, 0], self.limits) > state.finished_scores[:, -1]
        start = (0, state.step, 0)
        return state._replace(
            step=state.step + 1,
            last_tokens=tokens,
            scores=ops.where(can_win[:, None], scores, -np.inf),
            tokens=slice_update(state.tokens, start, ops.expand_dims(tokens, 1)),
            parents=slice_update(state.parents, start, ops.expand_dims(parents, 1)),
            ancestors=gather_rows(state.ancestors, parents),
            step_inputs=self.step_inputs.advance(state.step_inputs, parents, tokens),
            coverage=gather_rows(state.coverage, parents) if self.has_coverage else (),
            constraints=tuple(
                constraint.next_state(constraint_state, parents, tokens)
                for constraint, constraint_state in zip(self.search.constraints, state.constraints)
            ),
        )

    def _coverage(self, state: State) -> Tensor:
        """Return β Σ_i log(min(Σ_j p_ij, 1)), `(batch, beam)`: Wu et al. (2016), Eq. 14."""
        covered = ops.log(ops.clip(state.coverage, SMALLEST_COVERAGE, 1.0))
        covered = ops.where(ops.expand_dims(self.source_mask, 1), covered, 0.0)
        return self.search.coverage_penalty * ops.sum(covered, axis=-1)


def _while_loop(goes_on: Callable[[Any], Tensor], step: Callable[[Any], Any], state: Any) -> Any:
    """Apply `step` to a state, a structure of tensors, while `goes_on` is true."""
    if keras.backend.backend() == "torch":
        from keras_transformer.decoding.recorded_loop import recorded_loop

        return recorded_loop(goes_on, step, state)
    (state,) = ops.while_loop(goes_on, lambda state: (step(state),), (state,))
    return state


def largest_capacity(state: State) -> int | Tensor:
    """Return the cache size for all hypotheses of a sentence at the largest output length."""
    _, length, beam = ops.shape(state.tokens)
    return length * beam


def without_unused(state: State) -> State:
    """Return the state with a cache that begins with the ancestors of live hypotheses."""
    ancestors = state.ancestors & (state.scores > -np.inf)[..., None]
    is_used = ops.any(ancestors, axis=1)
    order = true_first(is_used)
    caches = [
        (_swap(_gather_positions(_swap(key), order)), _gather_positions(value, order))
        for key, value in state.caches
    ]
    return state._replace(
        ancestors=ops.take_along_axis(ancestors, order[:, None, :], axis=2),
        used=ops.max(ops.sum(ops.cast(is_used, "int32"), axis=1)),
        caches=caches,
    )


def true_first(mask: Tensor) -> Tensor:
    """Return the indices of the last axis, those with a true mask first."""
    size = ops.shape(mask)[-1]
    indices = ops.arange(size, dtype="int32")
    return ops.cast(ops.argsort(ops.where(mask, indices, indices + size)), "int32")


def _gather_positions(x: Tensor, positions: Tensor) -> Tensor:
    """Return the vectors `(batch, num_heads, capacity, dim)` at positions `(batch, n)`."""
    batch, num_heads, capacity, dim = ops.shape(x)
    rows = ops.reshape(x, (batch * num_heads, capacity, dim))
    rows = gather_rows(rows, ops.repeat(positions, num_heads, axis=0))
    return ops.reshape(rows, (batch, num_heads, ops.shape(positions)[1], dim))


def _swap(x: Tensor) -> Tensor:
    return ops.swapaxes(x, -1, -2)
