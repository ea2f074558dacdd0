"""The loop of the word-synchronous beam search."""

import functools
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.decoding.candidates import Candidates, together
from keras_transformer.decoding.constraint import Progress, Sizes
from keras_transformer.decoding.next_token_filter import choose
from keras_transformer.decoding.search_loop import SearchLoop
from keras_transformer.decoding.top_k import gather_rows, top_k
from keras_transformer.layers.token_sets import is_one_of
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID


class WordState(NamedTuple):
    """What a step changes.

    The places of a beam are first those of the hypotheses that live between two words, then those
    of the ones that wait after the next word. Where there is no hypothesis, the score is minus
    infinity. Each has a length of its own, and its tokens beside it: so many steps are made that
    those of all, of which most are given up, would be more.
    """

    last_tokens: object  # int32 (batch, beam)
    lengths: object  # int32 (batch, beam): how many tokens each has
    scores: object  # float32 (batch, beam): log-probabilities, the best first of each kind
    tokens: object  # int32 (batch, beam, length): the tokens of each, 0 after them
    next_words: object  # int32 (batch, beam): the word each comes to; () if unused
    ancestors: object  # bool (batch, beam, capacity): the cached positions each descends from
    used: object  # int32: how many positions of the cache are in use
    finished_scores: object  # float32 (batch, num_results): penalised, the best first
    finished_tokens: object  # int32 (batch, num_results, length)
    constraints: object  # a state each
    caches: object  # a layer's (key, value) each, of the outputs, as `make_cache` has them


class WordLoop(SearchLoop):
    """The loop of one `WordSynchronousBeamSearch`; its arguments are those of `SearchLoop`."""

    def __init__(self, search, num_results, model, sentences, seed):
        super().__init__(search, num_results, model, sentences, seed)
        self.num_actions = search.num_actions
        self.num_waiting = search.beam_size

    def first_state(self, caches, length):
        batch, num_results = ops.shape(self.sentences.token_ids)[0], self.num_results
        beam = self.beam_size
        has_source = ops.expand_dims(self.source_lengths > 0, 1)
        is_start = ops.arange(beam, dtype="int32") < self.search.num_starts(num_results)
        nothing = ops.full((batch, beam), -np.inf, "float32")
        no_results = ops.full((batch, num_results), -np.inf, "float32")
        return WordState(
            last_tokens=ops.full((batch, beam), START_ID, "int32"),
            lengths=ops.zeros((batch, beam), "int32"),
            scores=ops.where(has_source & is_start, ops.zeros_like(nothing), nothing),
            tokens=ops.zeros((batch, beam, length), "int32"),
            next_words=ops.zeros((batch, beam), "int32") if self.deterministic_attention else (),
            ancestors=ops.zeros((batch, beam, ops.shape(caches[0][0])[-1]), "bool"),
            used=ops.convert_to_tensor(0, "int32"),
            finished_scores=ops.where(has_source, no_results, ops.zeros_like(no_results)),
            finished_tokens=ops.zeros((batch, num_results, length), "int32"),
            constraints=tuple(
                constraint.first_state(Sizes(batch, beam, length))
                for constraint in self.search.constraints
            ),
            caches=caches,
        )

    def finished_tokens(self, state):
        return state.finished_tokens

    def next_state(self, state):
        state, logits = self._decode(state)
        candidates = self.search.candidates(
            functools.partial(self._choose, state, logits),
            state.scores[:, : self.num_actions],
            None,
        )
        lengths = ops.take_along_axis(state.lengths, candidates.parents, axis=1) + 1
        ends = (candidates.tokens == END_ID) | (lengths >= self.limits[:, None])
        consumes = is_one_of(candidates.tokens, self.search.word_ids) & ~ends
        state = self._finish(state, candidates.only(ends), lengths)
        waiting = together(self._waiting(state), candidates.only(consumes))
        live = candidates.only(~(ends | consumes))
        return self._grow(state, self._synchronised(live, waiting))

    def _decode(self, state):
        """One step of the decoder, for all that live between words."""
        count = self.num_actions
        places = ops.expand_dims(ops.arange(self.beam_size, dtype="int32"), -1)
        is_new = ops.arange(ops.shape(state.ancestors)[-1], dtype="int32") == state.used + places
        ancestors = ops.logical_or(state.ancestors, is_new & (places < count))
        pairs = zip(state.caches, self.sentences.caches)
        logits, cache = self.model.decode(
            state.last_tokens[:, :count],
            self.sentences.token_ids,
            cache=[{"self": outputs, "cross": source} for outputs, source in pairs],
            cache_index=state.used,
            positions=state.lengths[:, :count],
            self_attention_mask=ancestors[:, :count],
            **self._counts(state.next_words[:, :count] if self.deterministic_attention else ()),
        )
        state = state._replace(
            ancestors=ancestors,
            used=state.used + count,
            caches=[layer["self"] for layer in cache],
        )
        return state, logits

    def _choose(self, state, logits, count):
        """The tokens that may come next of those that live: see `choices.choose`."""
        # Constraints have states of all places; what waits needs no logits.
        logits = ops.pad(logits, ((0, 0), (0, self.num_waiting), (0, 0)))
        progress = Progress(state.lengths, ops.expand_dims(self.limits, 1) - state.lengths)
        constraints = self.search.constraints
        values, token_ids = choose(logits, constraints, state.constraints, progress, count)
        if len(token_ids.shape) > 1:
            token_ids = token_ids[:, : self.num_actions]
        return values[:, : self.num_actions], token_ids

    def _waiting(self, state):
        """Those that wait, as they are."""
        scores = state.scores[:, self.num_actions :]
        places = self.num_actions + ops.arange(self.num_waiting, dtype="int32")
        places = ops.broadcast_to(places, ops.shape(scores))
        return Candidates(places, ops.zeros_like(places), scores)

    def _finish(self, state, ends, lengths):
        """Merge the best that end into the finished."""
        ends = ends._replace(scores=self.search.penalised(ends.scores, lengths))
        ends = ends.best(min(self.num_results, ends.scores.shape[1]))
        scores = ops.concatenate([state.finished_scores, ends.scores], axis=1)
        tokens = ops.concatenate(
            [state.finished_tokens, _tokens_of(state, ends.parents, ends.tokens)], axis=1
        )
        scores, places = top_k(scores, self.num_results)
        return state._replace(finished_scores=scores, finished_tokens=gather_rows(tokens, places))

    def _synchronised(self, live, waiting):
        """The hypotheses of all places. Those that wait go on when none that lives can come among
        them any more.
        """
        live, waiting = live.best(self.num_actions), waiting.best(self.num_waiting)
        none = Candidates(*map(ops.zeros_like, live)).only(False)
        is_next_word = live.scores[:, :1] <= waiting.scores[:, -1:]
        pairs = zip(together(waiting, none), together(live, waiting))
        return Candidates(*(ops.where(is_next_word, *pair) for pair in pairs))

    def _grow(self, state, beam):
        """Let these be the hypotheses of the next step."""
        parents, tokens, scores = beam
        # Log-probabilities only fall, and no length is divided by more than the limit is.
        can_win = self.search.penalised(ops.max(scores, axis=1), self.limits)
        scores = ops.where((can_win > state.finished_scores[:, -1])[:, None], scores, -np.inf)
        # What is no hypothesis must not grow beyond the model's positions.
        tokens = ops.where(scores > -np.inf, tokens, PAD_ID)
        is_longer = tokens != PAD_ID
        last_tokens = ops.take_along_axis(state.last_tokens, parents, axis=1)
        lengths = ops.take_along_axis(state.lengths, parents, axis=1)
        return state._replace(
            last_tokens=ops.where(is_longer, tokens, last_tokens),
            lengths=lengths + ops.cast(is_longer, "int32"),
            scores=scores,
            tokens=_tokens_of(state, parents, tokens),
            next_words=self._next_words(state, parents, tokens),
            ancestors=gather_rows(state.ancestors, parents),
            constraints=tuple(
                constraint.next_state(constraint_state, parents, tokens)
                for constraint, constraint_state in zip(self.search.constraints, state.constraints)
            ),
        )


def _tokens_of(state, parents, tokens):
    """All tokens of hypotheses, each made of one of a state's: int32 `(batch, n, length)`."""
    earlier = gather_rows(state.tokens, parents)
    lengths = ops.take_along_axis(state.lengths, parents, axis=1)
    is_new = ops.arange(ops.shape(earlier)[-1], dtype="int32") == lengths[..., None]
    tokens = tokens[..., None]
    return ops.where(is_new & (tokens != PAD_ID), tokens, earlier)
