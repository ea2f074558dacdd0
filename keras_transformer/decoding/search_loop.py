"""The loop of every search: live hypotheses grow, finished hypotheses are kept apart."""

import functools
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.decoding.candidates import choose, gather_rows, top_k
from keras_transformer.decoding.constraints import Progress, Sizes
from keras_transformer.decoding.search_state import (
    Ends,
    State,
    finished_tokens,
    largest_capacity,
    without_unused,
)
from keras_transformer.layers.tensor_ops import slice_update
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID

# The smallest attention to a source token, summed over an output, in the coverage penalty.
_SMALLEST_COVERAGE = 1e-9


class RandomStep(NamedTuple):
    """What the random numbers of a step depend on."""

    keys: object  # `Search.sentence_keys`
    seed: object  # int32 scalar
    step: object  # int32 scalar


class StepInputs:
    """Further inputs of a model's decoder at each step: none.

    A model whose `decode` needs more than tokens, positions and a cache has an attribute
    `step_inputs`, an object with these methods. It defines the data that a search keeps for the
    sentences, which is constant, and for their hypotheses, which changes at each step.
    """

    def of_source(self, encoder_sequence, encoder_token_ids):
        """Return the constant data of sentences: tensors whose first axis is the batch.

        Args:
            encoder_sequence: float tensor `(batch, source, hidden_dim)`.
            encoder_token_ids: int32 tensor `(batch, source)`.
        """
        return ()

    def first(self, batch, beam):
        """Return the data of hypotheses without tokens: tensors `(batch, beam, ...)`.

        Args:
            batch: the number of sentences.
            beam: the number of hypotheses per sentence.
        """
        return ()

    def arguments(self, source, state):
        """Return a dict of further arguments of the model's `decode`.

        Args:
            source: the result of `of_source`.
            state: the data of the hypotheses that are decoded.
        """
        return {}

    def advance(self, state, parents, tokens):
        """Return the data of hypotheses with one more token.

        Args:
            state: the data of the hypotheses before.
            parents: int32 tensor `(batch, beam)`: the hypotheses that are continued.
            tokens: int32 tensor `(batch, beam)`: the new tokens; 0 for an unchanged hypothesis.
        """
        return state


def step_inputs_of(model):
    """Return the `step_inputs` of a model, or the `StepInputs` without data."""
    return getattr(model, "step_inputs", None) or StepInputs()


class SearchLoop:
    """The loop of one search.

    Args:
        search: a `Search` with bound tensors.
        num_results: the number of outputs per sentence.
        model: a `Transformer`.
        sentences: `Sentences`.
        seed: int32 scalar, the seed of random numbers.
    """

    def __init__(self, search, num_results, model, sentences, seed):
        self.search = search
        self.num_results = num_results
        self.model = model
        self.sentences = sentences
        self.seed = seed
        self.beam_size = search.beam_width(num_results)
        self.has_coverage = not isinstance(search.coverage_penalty, float)
        self.step_inputs = step_inputs_of(model)
        self.source_mask = sentences.token_ids != PAD_ID
        self.source_lengths = ops.sum(ops.cast(self.source_mask, "int32"), axis=1)
        # The length limit of outputs: the source's tokens without the end token, plus the extra.
        self.limits = self.source_lengths - 1 + search.extra_length

    def first_state(self, caches, length):
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
        is_start = ops.arange(beam, dtype="int32") < self.search.initial_beams(num_results)
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

    def run(self, state, goes_on):
        """Make steps until the cache is too small, or `goes_on` is false.

        Args:
            state: `State`.
            goes_on: function of a `State`; returns a bool scalar.

        Returns:
            `State`.
        """
        beam = self.beam_size
        prunes = beam > 1 and self.search.prunes
        capacity = ops.shape(state.ancestors)[-1]
        is_largest = capacity >= largest_capacity(state)

        def has_room(state):
            return goes_on(state) & (state.used + beam <= capacity)

        def is_large_enough(state):
            return has_room(state) & (is_largest | (4 * state.used <= 3 * capacity))

        def step_until_full(state):
            return ops.while_loop(has_room, lambda state: (self.next_state(state),), (state,))

        def step_and_compact(state):
            (state,) = step_until_full(state)
            return (without_unused(state),)

        if prunes:
            (state,) = ops.while_loop(is_large_enough, step_and_compact, (state,))
        else:
            (state,) = step_until_full(state)
        return state

    def finished_tokens(self, state):
        """Return the finished hypotheses: int32 `(batch, num_results, length)`."""
        return finished_tokens(state)

    @staticmethod
    def live_tokens(state, before):
        """Return the tokens of the hypothesis in each place of the beam of one sentence.

        Args:
            state: `State` of one sentence, with values.
            before: the result of one step before: a list of tuples of token ids.

        Returns:
            A list of tuples of token ids.
        """
        step = int(state.step) - 1
        before = before + [()] * (state.scores.shape[1] - len(before))
        columns = (ops.convert_to_numpy(x)[0, step] for x in (state.parents, state.tokens))
        pairs = zip(*(column.tolist() for column in columns))
        return [(*before[parent], token) for parent, token in pairs]

    def next_state(self, state):
        """Return the state one step later."""
        state, logits = self._decode(state)
        progress = Progress(state.step, ops.expand_dims(self.limits - state.step, 1))
        candidates = self.search.candidates(
            functools.partial(choose, logits, self.search.constraints, state.constraints, progress),
            state.scores,
            RandomStep(self.sentences.keys, self.seed, state.step),
        )
        is_at_limit = ops.expand_dims(state.step + 1 >= self.limits, 1)
        is_end = ops.logical_or(candidates.tokens == END_ID, is_at_limit)
        return self._grow(self._finish(state, candidates, is_end), candidates, is_end)

    def _decode(self, state):
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

    def _finish(self, state, candidates, is_end):
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

    def _grow(self, state, candidates, is_end):
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

    def _coverage(self, state):
        """Return β Σ_i log(min(Σ_j p_ij, 1)), `(batch, beam)`: Wu et al. (2016), Eq. 14."""
        covered = ops.log(ops.clip(state.coverage, _SMALLEST_COVERAGE, 1.0))
        covered = ops.where(ops.expand_dims(self.source_mask, 1), covered, 0.0)
        return self.search.coverage_penalty * ops.sum(covered, axis=-1)
