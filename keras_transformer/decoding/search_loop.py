"""The loop of every search: live hypotheses grow, finished ones are kept apart."""

import functools

import numpy as np
from keras import ops

from keras_transformer.decoding.candidates import uniform_numbers
from keras_transformer.decoding.constraint import Progress, Sizes
from keras_transformer.decoding.next_token_filter import choose
from keras_transformer.decoding.search_state import (
    Ends,
    State,
    finished_tokens,
    largest_capacity,
    without_unused,
)
from keras_transformer.decoding.top_k import gather_rows, top_k
from keras_transformer.layers.slice_update import slice_update
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID

# In the coverage penalty, attention to a source token summed over an output is at least this.
_SMALLEST_COVERAGE = 1e-9


class SearchLoop:
    """The loop of one search.

    Args:
        search: a `Search` with tensors in their places.
        num_results: how many outputs of each sentence are asked for.
        model: a `Transformer`.
        sentences: `Sentences`.
        seed: int32 scalar, of random numbers.
    """

    def __init__(self, search, num_results, model, sentences, seed):
        self.search = search
        self.num_results = num_results
        self.model = model
        self.sentences = sentences
        self.seed = seed
        self.beam_size = search.num_live(num_results)
        self.has_coverage = not isinstance(search.coverage_penalty, float)
        self.deterministic_attention = getattr(model, "deterministic_attention", None)
        self.source_mask = sentences.token_ids != PAD_ID
        self.source_lengths = ops.sum(ops.cast(self.source_mask, "int32"), axis=1)
        # Where each sentence stops at the latest: its tokens, less the end token, plus the extra.
        self.limits = self.source_lengths - 1 + search.extra_length

    def first_state(self, caches, length):
        """Live hypotheses without tokens; for a source without tokens, nothing to do.

        Args:
            caches: a layer's (key, value) each, empty.
            length: no output is longer.

        Returns:
            `State`.
        """
        batch, source = ops.shape(self.sentences.token_ids)
        beam, num_results = self.beam_size, self.num_results
        has_source = ops.expand_dims(self.source_lengths > 0, 1)
        is_start = ops.arange(beam, dtype="int32") < self.search.num_starts(num_results)
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
            next_words=ops.zeros((batch, beam), "int32") if self.deterministic_attention else (),
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
        """Search on, until the cache is too small, or `goes_on` says no.

        Args:
            state: `State`.
            goes_on: function of a `State`.

        Returns:
            `State`.
        """
        beam = self.beam_size
        drops = beam > 1 and self.search.drops
        capacity = ops.shape(state.ancestors)[-1]
        is_largest = capacity >= largest_capacity(state)

        def has_room(state):
            return goes_on(state) & (state.used + beam <= capacity)

        def is_large_enough(state):
            return has_room(state) & (is_largest | (4 * state.used <= 3 * capacity))

        def step_until_full(state):
            return ops.while_loop(has_room, lambda state: (self.next_state(state),), (state,))

        def step_and_drop(state):
            (state,) = step_until_full(state)
            return (without_unused(state),)

        if drops:
            (state,) = ops.while_loop(is_large_enough, step_and_drop, (state,))
        else:
            (state,) = step_until_full(state)
        return state

    def finished_tokens(self, state):
        """The finished hypotheses: int32 `(batch, num_results, length)`."""
        return finished_tokens(state)

    def next_state(self, state):
        """The state one step later."""
        state, logits = self._decode(state)
        progress = Progress(state.step, ops.expand_dims(self.limits - state.step, 1))
        candidates = self.search.candidates(
            functools.partial(choose, logits, self.search.constraints, state.constraints, progress),
            state.scores,
            lambda: uniform_numbers(self.sentences.keys, self.beam_size, self.seed, state.step),
        )
        is_at_limit = ops.expand_dims(state.step + 1 >= self.limits, 1)
        is_end = ops.logical_or(candidates.tokens == END_ID, is_at_limit)
        return self._grow(self._finish(state, candidates, is_end), candidates, is_end)

    def _decode(self, state):
        """One step of the decoder, for all live hypotheses."""
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
            **self._counts(state.next_words),
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
        """Merge the candidates that end, among the best of the beam's number, into the finished."""
        beam = self.beam_size
        parents, tokens = candidates.parents[:, :beam], candidates.tokens[:, :beam]
        scores = self.search.penalised(candidates.scores[:, :beam], state.step + 1)
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
        """Let the best candidates that go on be the live hypotheses of the next step."""
        scores, best = top_k(ops.where(is_end, -np.inf, candidates.scores), self.beam_size)
        parents = ops.take_along_axis(candidates.parents, best, axis=1)
        tokens = ops.take_along_axis(candidates.tokens, best, axis=1)
        # Log-probabilities only fall, and no length is divided by more than the limit is.
        can_win = self.search.penalised(scores[:, 0], self.limits) > state.finished_scores[:, -1]
        start = (0, state.step, 0)
        return state._replace(
            step=state.step + 1,
            last_tokens=tokens,
            scores=ops.where(can_win[:, None], scores, -np.inf),
            tokens=slice_update(state.tokens, start, ops.expand_dims(tokens, 1)),
            parents=slice_update(state.parents, start, ops.expand_dims(parents, 1)),
            ancestors=gather_rows(state.ancestors, parents),
            next_words=self._next_words(state, parents, tokens),
            coverage=gather_rows(state.coverage, parents) if self.has_coverage else (),
            constraints=tuple(
                constraint.next_state(constraint_state, parents, tokens)
                for constraint, constraint_state in zip(self.search.constraints, state.constraints)
            ),
        )

    def _counts(self, next_words):
        """Return the further arguments of `decode` of a model that counts words."""
        if self.deterministic_attention is None:
            return {}
        return {"word_vectors": self.sentences.words, "next_words": next_words}

    def _next_words(self, state, parents, tokens):
        """The word that each hypothesis comes to after one more token."""
        if self.deterministic_attention is None:
            return ()
        is_leaf = ops.cast(self.deterministic_attention.is_leaf(tokens), "int32")
        return ops.take_along_axis(state.next_words, parents, axis=1) + is_leaf

    def _coverage(self, state):
        """Wu et al. (2016), Eq. 14: β Σ_i log(min(Σ_j p_ij, 1)), `(batch, beam)`."""
        covered = ops.log(ops.clip(state.coverage, _SMALLEST_COVERAGE, 1.0))
        covered = ops.where(ops.expand_dims(self.source_mask, 1), covered, 0.0)
        return self.search.coverage_penalty * ops.sum(covered, axis=-1)
