"""Beam search in which hypotheses with the same number of consumed words compete."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.beam_search import check_alpha, penalize_length
from keras_transformer.decoding.candidates import (
    Candidates,
    Constraint,
    Progress,
    Sizes,
    choose,
    gather_rows,
    top_k,
)
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.search_loop import SearchLoop
from keras_transformer.decoding.static_fields import traced
from keras_transformer.errors import UserError
from keras_transformer.layers.tensor_ops import is_one_of
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID
from keras_transformer.validation import integer, positive_integer

if TYPE_CHECKING:
    from keras_transformer.models.transformer import Transformer


class WordState(NamedTuple):
    """The data that a step changes.

    The first places of a beam hold the live hypotheses between two words, the others the waiting
    hypotheses, which have consumed the next word. A place without a hypothesis has the score minus
    infinity. Hypotheses differ in length, and each is stored with all its tokens: there are more
    steps than tokens, so a history of all steps would be larger.
    """

    last_tokens: Tensor  # int32 (batch, beam)
    lengths: Tensor  # int32 (batch, beam): the number of tokens
    scores: Tensor  # float32 (batch, beam): log-probabilities, the best first of each kind
    tokens: Tensor  # int32 (batch, beam, length): the tokens, 0 after them
    step_inputs: Any  # `StepInputs.first`
    ancestors: Tensor  # bool (batch, beam, capacity): the cached positions it descends from
    used: Tensor  # int32: the number of used positions of the cache
    finished_scores: Tensor  # float32 (batch, num_results): penalized, the best first
    finished_tokens: Tensor  # int32 (batch, num_results, length)
    constraints: tuple[Any, ...]  # one state per constraint
    caches: list[Any]  # one (key, value) of the outputs per layer, as in `make_cache`


class WordLoop(SearchLoop):
    """The loop of one `WordSynchronousBeamSearch`, with the arguments of `SearchLoop`."""

    search: "WordSynchronousBeamSearch"

    def __init__(
        self,
        search: "WordSynchronousBeamSearch",
        num_results: int,
        model: "Transformer",
        sentences: Any,
        seed: Tensor,
    ):
        super().__init__(search, num_results, model, sentences, seed)
        self.num_actions = search.num_actions
        self.num_waiting = search.beam_size

    def first_state(self, caches: list[Any], length: Any) -> WordState:
        batch, num_results = ops.shape(self.sentences.token_ids)[0], self.num_results
        beam = self.beam_size
        has_source = ops.expand_dims(self.source_lengths > 0, 1)
        is_start = ops.arange(beam, dtype="int32") < self.search.initial_beams(num_results)
        nothing = ops.full((batch, beam), -np.inf, "float32")
        no_results = ops.full((batch, num_results), -np.inf, "float32")
        return WordState(
            last_tokens=ops.full((batch, beam), START_ID, "int32"),
            lengths=ops.zeros((batch, beam), "int32"),
            scores=ops.where(has_source & is_start, ops.zeros_like(nothing), nothing),
            tokens=ops.zeros((batch, beam, length), "int32"),
            step_inputs=self.step_inputs.first(batch, beam),
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

    def finished_tokens(self, state: WordState) -> Tensor:
        return state.finished_tokens

    @staticmethod
    def live_tokens(state: WordState, before: Any) -> list[tuple[int, ...]]:
        rows = ops.convert_to_numpy(state.tokens)[0].tolist()
        return [tuple(token for token in row if token != PAD_ID) for row in rows]

    def next_state(self, state: WordState) -> WordState:
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
        return self._grow(state, self._synchronized(live, waiting))

    def _decode(self, state: WordState) -> tuple[WordState, Tensor]:
        """Run one step of the decoder for the live hypotheses."""
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
            **self.step_inputs.arguments(
                self.sentences.step_inputs,
                keras.tree.map_structure(lambda x: x[:, :count], state.step_inputs),
            ),
        )
        state = state._replace(
            ancestors=ancestors,
            used=state.used + count,
            caches=[layer["self"] for layer in cache],
        )
        return state, logits

    def _choose(self, state: WordState, logits: Tensor, count: int | None) -> tuple[Tensor, Tensor]:
        """Return the next tokens of the live hypotheses: see `candidates.choose`."""
        # Constraints have states for all places, but waiting hypotheses need no logits.
        logits = ops.pad(logits, ((0, 0), (0, self.num_waiting), (0, 0)))
        progress = Progress(state.lengths, ops.expand_dims(self.limits, 1) - state.lengths)
        constraints = self.search.constraints
        values, token_ids = choose(logits, constraints, state.constraints, progress, count)
        if len(token_ids.shape) > 1:
            token_ids = token_ids[:, : self.num_actions]
        return values[:, : self.num_actions], token_ids

    def _waiting(self, state: WordState) -> Candidates:
        """Return the waiting hypotheses as candidates without a new token."""
        scores = state.scores[:, self.num_actions :]
        places = self.num_actions + ops.arange(self.num_waiting, dtype="int32")
        places = ops.broadcast_to(places, ops.shape(scores))
        return Candidates(places, ops.zeros_like(places), scores)

    def _finish(self, state: WordState, ends: Candidates, lengths: Tensor) -> WordState:
        """Merge the best ended hypotheses into the finished ones."""
        ends = ends._replace(scores=self.search.penalized(ends.scores, lengths))
        ends = ends.best(min(self.num_results, ends.scores.shape[1]))
        scores = ops.concatenate([state.finished_scores, ends.scores], axis=1)
        tokens = ops.concatenate(
            [state.finished_tokens, _tokens_of(state, ends.parents, ends.tokens)], axis=1
        )
        scores, places = top_k(scores, self.num_results)
        return state._replace(finished_scores=scores, finished_tokens=gather_rows(tokens, places))

    def _synchronized(self, live: Candidates, waiting: Candidates) -> Candidates:
        """Return the hypotheses of all places. The waiting hypotheses become live when no live
        hypothesis can join them any more.
        """
        live, waiting = live.best(self.num_actions), waiting.best(self.num_waiting)
        none = Candidates(*map(ops.zeros_like, live)).only(False)
        is_next_word = live.scores[:, :1] <= waiting.scores[:, -1:]
        pairs = zip(together(waiting, none), together(live, waiting))
        return Candidates(*(ops.where(is_next_word, *pair) for pair in pairs))

    def _grow(self, state: WordState, beam: Candidates) -> WordState:
        """Return the state with these hypotheses for the next step."""
        parents, tokens, scores = beam
        # Log-probabilities only fall, and the length penalty is largest at the limit.
        can_win = self.search.penalized(ops.max(scores, axis=1), self.limits)
        scores = ops.where((can_win > state.finished_scores[:, -1])[:, None], scores, -np.inf)
        # Places without a hypothesis must not grow beyond the model's positions.
        tokens = ops.where(scores > -np.inf, tokens, PAD_ID)
        is_longer = tokens != PAD_ID
        last_tokens = ops.take_along_axis(state.last_tokens, parents, axis=1)
        lengths = ops.take_along_axis(state.lengths, parents, axis=1)
        return state._replace(
            last_tokens=ops.where(is_longer, tokens, last_tokens),
            lengths=lengths + ops.cast(is_longer, "int32"),
            scores=scores,
            tokens=_tokens_of(state, parents, tokens),
            step_inputs=self.step_inputs.advance(state.step_inputs, parents, tokens),
            ancestors=gather_rows(state.ancestors, parents),
            constraints=tuple(
                constraint.next_state(constraint_state, parents, tokens)
                for constraint, constraint_state in zip(self.search.constraints, state.constraints)
            ),
        )


def _tokens_of(state: WordState, parents: Tensor, tokens: Tensor) -> Tensor:
    """Return the tokens of continued hypotheses of a state: int32 `(batch, n, length)`."""
    earlier = gather_rows(state.tokens, parents)
    lengths = ops.take_along_axis(state.lengths, parents, axis=1)
    is_new = ops.arange(ops.shape(earlier)[-1], dtype="int32") == lengths[..., None]
    tokens = tokens[..., None]
    return ops.where(is_new & (tokens != PAD_ID), tokens, earlier)


def fast_tracked_candidates(
    choose: Callable[[int | None], tuple[Tensor, Tensor]],
    scores: Tensor,
    fast_ids: Sequence[int],
    count: int,
) -> Candidates:
    """Return the best continuations with some tokens, of any rank, and then the best others
    (Stern, Fried and Klein, 2017).

    Args:
        choose: as for `best_candidates`.
        scores: float32 tensor `(batch, beam)`, log-probabilities of the live hypotheses.
        fast_ids: ids of these tokens.
        count: the number of continuations with one of these tokens.

    Returns:
        `Candidates`: `count` with these tokens, and then `beam` others. Equal scores
        are ordered by hypothesis, then by token id.
    """
    beam = scores.shape[1]
    values, token_ids = choose(None)
    size = values.shape[-1]
    token_ids = ops.convert_to_tensor(token_ids, "int32")
    totals = ops.expand_dims(scores, -1) + values

    def candidates(scores: Tensor, places: Tensor) -> Candidates:
        if len(token_ids.shape) == 1:
            tokens = ops.take(token_ids, places % size, axis=0)
        else:
            tokens = ops.reshape(token_ids, (-1, beam * size))
            tokens = ops.take_along_axis(tokens, places, axis=1)
        return Candidates(places // size, tokens, scores)

    ranked_scores, ranked = top_k(_flat(totals), min(beam + count, beam * size))
    if not count:
        return candidates(ranked_scores, ranked)
    totals = ops.where(is_one_of(token_ids, fast_ids), totals, -np.inf)
    fast_scores, fast = top_k(_flat(totals), count)
    is_ahead = (ranked[..., None] == fast[:, None]) & (fast_scores > -np.inf)[:, None]
    others = candidates(ranked_scores, ranked).only(~ops.any(is_ahead, axis=-1)).best(beam)
    return together(candidates(fast_scores, fast), others)


def together(*candidates: Candidates) -> Candidates:
    """Concatenate several `Candidates`."""
    return Candidates(*(ops.concatenate(parts, axis=1) for parts in zip(*candidates)))


def _flat(x: Tensor) -> Tensor:
    """Reshape `(batch, beam, n)` to `(batch, beam * n)`."""
    return ops.reshape(x, (-1, x.shape[1] * x.shape[2]))


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class WordSynchronousBeamSearch(Search):
    """Beam search for outputs in which some tokens stand for a word of the source, such as
    linearized trees (Stern, Fried and Klein, 2017, "Effective Inference for Generative Neural
    Parsing", section 4).

    If tokens that stand for a word are less probable than others, hypotheses with fewer consumed
    words push the others out of a common beam. So here only hypotheses with the same number of
    consumed words compete. Between two words, live hypotheses are continued with every token. A
    continuation that consumes the next word waits. At each step:

    1. The best `fast_track` continuations with a word wait, even if others rank higher.
    2. The best `action_beam_size` of the other continuations are kept. Those with a word wait, the
       others stay live.
    3. The best `beam_size` waiting hypotheses are kept.

    When no live hypothesis can join the waiting ones any more, because log-probabilities only fall,
    the waiting hypotheses become live. The end token counts as one more word. A hypothesis that
    ends is finished: it is scored as in `BeamSearch` and stored separately. The search for a
    sentence stops when no hypothesis can score higher than the finished ones.

    An output ends with the end token, or when it is `extra_length` tokens longer than its source.
    A sentence's result does not depend on the other sentences of the batch. Hypotheses with equal
    scores are ordered, on every backend: first the one that has waited longer, then the one of the
    better rank, then the one of the lower token id.

    ```python
    search = kt.parsing.WordSynchronousBeamSearch(beam_size=4, word_ids=grammar.leaf_ids)
    token_ids, scores = search(model, encoder_token_ids, constraints=(grammar.over(num_words),))
    parser = kt.ConstituencyParser.from_preset(
        "saved_models/craft_parser", search=kt.parsing.WordSynchronousBeamSearch, beam_size=4
    )
    ```

    Call arguments and results are the same as for every `Search`.

    Args:
        beam_size: the number of hypotheses kept at each word, and the largest number of results.
        action_beam_size: the number of live hypotheses between two words, at least `beam_size`.
            Defaults to twice `beam_size`.
        fast_track: the number of continuations with a word that wait at each step, even if
            others rank higher; at most the number of live hypotheses.
        word_ids: ids of the tokens that consume a word. A `ConstituencyParser` sets its own.
        alpha: α, the strength of the length penalty among finished hypotheses, from 0 to 10.
        extra_length: the number of tokens, including the end token, that an output may have beyond
            the tokens of its source.
        constraints: tuple of `keras_transformer.constraints.Constraint`.

    Raises:
        UserError: if an argument is out of its range; in a call, if there are no `word_ids`, or
            they do not match the model.
    """

    loop_class = WordLoop

    beam_size: int = 4
    action_beam_size: int | None = None
    fast_track: int = 1
    word_ids: tuple[int, ...] = ()
    alpha: float = traced("float32", 0.3, off=0)
    extra_length: int = traced("int32", 300)
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self):
        beam_size = positive_integer("beam_size", self.beam_size)
        action_beam_size = self.action_beam_size
        if action_beam_size is not None:
            action_beam_size = integer(
                "action_beam_size",
                action_beam_size,
                beam_size,
                f"an integer, beam_size={beam_size} or larger",
            )
        self._check_fields(
            beam_size=beam_size,
            action_beam_size=action_beam_size,
            fast_track=integer("fast_track", self.fast_track, 0, "an integer, 0 or larger"),
            word_ids=tuple(_word_id(word_id) for word_id in self.word_ids),
            alpha=check_alpha(self.alpha),
        )
        if self.fast_track > self.num_actions:
            raise UserError(
                f"`fast_track` must be at most the number of live hypotheses, "
                f"{self.num_actions}. Received: fast_track={self.fast_track}"
            )

    def __str__(self):
        return (
            f"word-synchronous beam {self.beam_size}, {self.num_actions} between words, "
            f"fast track {self.fast_track}, alpha {self.alpha}"
        )

    def __call__(
        self, model: "Transformer", encoder_token_ids: Tensor, *args: Any, **options: Any
    ) -> tuple[Tensor, ...]:
        size = model.config.vocabulary_size
        if not self.word_ids or max(self.word_ids) >= size:
            raise UserError(
                "`word_ids` must be one or more ids of tokens that consume a word, below the "
                f"vocabulary size {size}. Received: word_ids={self.word_ids}"
            )
        return super().__call__(model, encoder_token_ids, *args, **options)

    @property
    def most_results(self) -> int:
        return self.beam_size

    @property
    def num_actions(self) -> int:
        """The number of live hypotheses of a sentence between two words."""
        return self.action_beam_size or 2 * self.beam_size

    def beam_width(self, num_results: int) -> int:
        return self.num_actions + self.beam_size  # waiting hypotheses have places of their own

    def initial_beams(self, num_results: int) -> int:
        return 1

    def candidates(
        self, choose: Callable[[int | None], tuple[Tensor, Tensor]], scores: Tensor, random: Any
    ) -> Candidates:
        fast_ids = (END_ID, *self.word_ids)
        return fast_tracked_candidates(choose, scores, fast_ids, self.fast_track)

    def penalized(self, scores: Tensor, length: Tensor) -> Tensor:
        return penalize_length(scores, length, self.alpha)


def _word_id(value: Any) -> int:
    return integer("word_ids", value, END_ID + 1, f"ids above the end token's {END_ID}")
