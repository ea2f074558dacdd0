"""The loop of every search: live hypotheses grow, finished ones are kept apart."""

from dataclasses import dataclass

import numpy as np
from keras import ops

from keras_transformer.data.tokenizer import END_ID, PAD_ID, START_ID
from keras_transformer.decoding.candidates import (
    best_candidates,
    sampled_candidates,
    sentence_keys,
    uniform_numbers,
)
from keras_transformer.decoding.length_penalty import length_penalties
from keras_transformer.decoding.search_state import State, without_unused
from keras_transformer.decoding.top_k import gather_rows, top_k
from keras_transformer.decoding.tree_grammar import TreeGrammar, Words

# In the coverage penalty, attention to a source token summed over an output is at least this.
_LEAST_COVERAGE = 1e-9


@dataclass(frozen=True)
class Sampling:
    """How to draw tokens: see `sample`."""

    temperature: float
    top_k: int | None
    top_p: float | None


@dataclass(frozen=True)
class SearchOptions:
    """What a search is compiled for: see `beam_search`."""

    beam_size: int
    num_results: int
    extra_length: int
    alpha: float = 0.0
    length_penalty: str = "gnmt"
    coverage_penalty: float = 0.0
    min_length: int = 0
    banned_token_ids: tuple = ()
    sampling: Sampling | None = None  # if given, the beam's hypotheses are independent samples
    grammar: TreeGrammar | None = None


class SearchLoop:
    """The loop of one search.

    Args:
        model: a `Transformer`.
        sentences: `Sentences`.
        seed: int32 tensor `(1, 1)`, for sampling.
        options: `SearchOptions`.
    """

    def __init__(self, model, sentences, seed, options):
        self.model = model
        self.sentences = sentences
        self.seed = seed
        self.options = options
        start = sentences.start
        if options.sampling is not None:
            self.keys = sentence_keys(sentences.token_ids, seed)
        self.words = Words(*start) if options.grammar else None
        self.prefix_token_ids = start[0] if start and not options.grammar else None
        self.source_mask = sentences.token_ids != PAD_ID
        self.source_lengths = ops.sum(ops.cast(self.source_mask, "int32"), axis=1)
        # Where each sentence stops at the latest: its tokens, less the end token, plus the extra.
        self.limits = self.source_lengths - 1 + options.extra_length
        self.length = ops.shape(sentences.token_ids)[1] + options.extra_length
        self.never = np.zeros(model.hyperparameters["vocabulary_size"], "float32")
        self.never[[PAD_ID, START_ID, *options.banned_token_ids]] = -np.inf

    def first_state(self, caches):
        """One live hypothesis, the empty one; for a source without tokens, nothing to do."""
        batch, source = ops.shape(self.sentences.token_ids)
        beam, num_results = self.options.beam_size, self.options.num_results
        has_source = ops.expand_dims(self.source_lengths > 0, 1)
        only_first = ops.where(ops.arange(beam) < self._num_starts(), 0.0, -np.inf)
        return State(
            step=ops.convert_to_tensor(0, "int32"),
            tokens=ops.zeros((batch, beam, self.length), "int32"),
            last_tokens=ops.full((batch, beam), START_ID, "int32"),
            scores=ops.where(has_source, ops.expand_dims(only_first, 0), -np.inf),
            ancestors=ops.zeros((batch, beam, ops.shape(caches[0][0])[-1]), "bool"),
            used=ops.convert_to_tensor(0, "int32"),
            coverage=ops.zeros((batch, beam, source)),
            finished_tokens=ops.zeros((batch, num_results, self.length), "int32"),
            finished_scores=ops.where(has_source, ops.full((batch, num_results), -np.inf), 0.0),
            trees=self._first_trees(),
            caches=caches,
        )

    def run_while(self, state, goes_on):
        """Search on, until the cache is too small, or `goes_on` says no.

        Args:
            state: `State`.
            goes_on: function of a `State`.

        Returns:
            `State`.
        """
        beam = self.options.beam_size
        # Samples, and a beam of one, drop nothing.
        drops = beam > 1 and self.options.sampling is None
        capacity = ops.shape(state.ancestors)[-1]
        is_largest = capacity >= self.length * beam

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

    def _num_starts(self):
        """Samples are independent from the beginning; a beam grows out of one hypothesis."""
        return 1 if self.options.sampling is None else self.options.beam_size

    def _first_trees(self):
        grammar = self.options.grammar
        return grammar.first_state(self.words, self.options.beam_size) if grammar else ()

    def next_state(self, state):
        state, logits = self._decode(state)
        allowed = self._allowed(state, logits)
        if self.options.sampling is None:
            candidates = best_candidates(logits, allowed, state.scores)
        else:
            numbers = uniform_numbers(self.keys, self.options.beam_size, self.seed, state.step)
            candidates = sampled_candidates(
                logits, allowed, state.scores, self.options.sampling, numbers
            )
        if self.options.grammar:
            candidates = candidates._replace(tokens=self.options.grammar.ids_of(candidates.tokens))
        is_at_limit = ops.expand_dims(state.step + 1 >= self.limits, 1)
        is_end = ops.logical_or(candidates.tokens == END_ID, is_at_limit)
        return self._grow(self._finish(state, candidates, is_end), candidates, is_end)

    def _decode(self, state):
        """One step of the decoder, for all live hypotheses."""
        beam = self.options.beam_size
        own = state.used + ops.expand_dims(ops.arange(beam, dtype="int32"), -1)
        is_own = ops.arange(ops.shape(state.ancestors)[-1], dtype="int32") == own
        ancestors = ops.logical_or(state.ancestors, is_own)
        pairs = zip(state.caches, self.sentences.caches)
        logits, cache, *attention_scores = self.model.decode(
            state.last_tokens,
            self.sentences.token_ids,
            cache=[{"self": own, "cross": cross} for own, cross in pairs],
            cache_index=state.used,
            positions=ops.reshape(state.step, (1,)),
            self_attention_mask=ancestors,
            return_attention_scores=self.options.coverage_penalty > 0,
        )
        coverage = state.coverage
        for weights in attention_scores:
            coverage = coverage + ops.cast(ops.mean(weights, axis=1), "float32")
        caches = [layer["self"] for layer in cache]
        state = state._replace(
            ancestors=ancestors, used=state.used + beam, coverage=coverage, caches=caches
        )
        return state, logits

    def _allowed(self, state, logits):
        """The logits, minus infinity for tokens that may not come next; of a grammar's tokens only,
        if there is one.
        """
        grammar = self.options.grammar
        if grammar is None:
            return logits + self._forbidden(state.step)
        tokens_left = ops.expand_dims(self.limits - state.step, 1)
        return grammar.allowed(logits, state.trees, self.words, tokens_left)

    def _forbidden(self, step):
        """To add to logits: minus infinity for the tokens that may not come next, else 0."""
        token_ids = ops.arange(len(self.never), dtype="int32")
        is_early_end = ops.logical_and(token_ids == END_ID, step + 1 < self.options.min_length)
        bias = ops.where(is_early_end, -np.inf, self.never)
        if self.prefix_token_ids is None:
            return bias
        prefix_length = ops.shape(self.prefix_token_ids)[1]
        index = ops.reshape(ops.minimum(step, prefix_length - 1), (1,))
        forced = ops.take(self.prefix_token_ids, index, axis=1)
        forced = ops.where(step < prefix_length, forced, PAD_ID)
        only_forced = ops.where(token_ids == forced, 0.0, -np.inf)
        return ops.expand_dims(ops.where(forced == PAD_ID, bias, only_forced), 1)

    def _finish(self, state, candidates, is_end):
        """Merge the candidates that end, among the best of the beam's number, into the finished."""
        beam = self.options.beam_size
        parents, tokens = candidates.parents[:, :beam], candidates.tokens[:, :beam]
        scores = self._penalised(candidates.scores[:, :beam], state.step + 1)
        if self.options.coverage_penalty > 0:
            scores = scores + ops.take_along_axis(self._coverage(state), parents, axis=1)
        scores = ops.where(is_end[:, :beam], scores, -np.inf)
        scores, best = top_k(
            ops.concatenate([state.finished_scores, scores], axis=1), self.options.num_results
        )
        token_ids = ops.concatenate(
            [state.finished_tokens, _append(state, parents, tokens)], axis=1
        )
        return state._replace(finished_tokens=gather_rows(token_ids, best), finished_scores=scores)

    def _grow(self, state, candidates, is_end):
        """Let the best candidates that go on be the live hypotheses of the next step."""
        scores = ops.where(is_end, -np.inf, candidates.scores)
        scores, best = top_k(scores, self.options.beam_size)
        parents = ops.take_along_axis(candidates.parents, best, axis=1)
        tokens = ops.take_along_axis(candidates.tokens, best, axis=1)
        # Log-probabilities only fall, and no length is divided by more than the limit is.
        can_win = self._penalised(scores[:, 0], self.limits) > state.finished_scores[:, -1]
        grammar, trees = self.options.grammar, state.trees
        if grammar:
            trees = grammar.next_state(trees, parents, tokens)
        return state._replace(
            step=state.step + 1,
            tokens=_append(state, parents, tokens),
            last_tokens=tokens,
            scores=ops.where(can_win[:, None], scores, -np.inf),
            ancestors=gather_rows(state.ancestors, parents),
            coverage=gather_rows(state.coverage, parents),
            trees=trees,
        )

    def _penalised(self, scores, length):
        if self.options.alpha == 0:
            return scores
        penalty = length_penalties[self.options.length_penalty]
        return scores / penalty(ops.cast(length, "float32"), self.options.alpha)

    def _coverage(self, state):
        """Wu et al. (2016), Eq. 14: β Σ_i log(min(Σ_j p_ij, 1)), `(batch, beam)`."""
        covered = ops.log(ops.clip(state.coverage, _LEAST_COVERAGE, 1.0))
        covered = ops.where(ops.expand_dims(self.source_mask, 1), covered, 0.0)
        return self.options.coverage_penalty * ops.sum(covered, axis=-1)


def _append(state, parents, tokens):
    """The hypotheses `parents`, each with its next token: `(batch, n, length)`."""
    is_next = ops.arange(ops.shape(state.tokens)[-1], dtype="int32") == state.step
    return ops.where(is_next, ops.expand_dims(tokens, -1), gather_rows(state.tokens, parents))
