"""The tokens that live hypotheses may be continued with, and the best continuations.

The model's logits and the constraints determine them: see `choose`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.static_fields import StaticFields
from keras_transformer.reserved_ids import PAD_ID, START_ID

# Returns the given number of next tokens per hypothesis, or all: see `choose`.
Choose: TypeAlias = Callable[[int | None], tuple[Tensor, Tensor]]


class Sizes(NamedTuple):
    """The sizes of a search."""

    batch: Tensor  # int, or int32 scalar: the number of sentences
    beam: int  # the number of live hypotheses per sentence
    length: Tensor  # int, or int32 scalar: the largest length of an output


class Progress(NamedTuple):
    """The progress of a search."""

    step: Tensor  # int32 scalar: the number of tokens of the live hypotheses
    tokens_left: Tensor  # int32 (batch, 1): the most tokens to come, the end token included


class Constraint(StaticFields):
    """A rule for the contents of outputs; a base class of frozen dataclasses.

    At each step, a search asks each of its constraints which tokens may follow each live
    hypothesis. A constraint that depends on earlier tokens keeps a state: a tensor, or a structure
    of tensors, whose first axis is the batch. The methods compute with tensors alone: on every
    backend they may be called once for all steps. A field declared with `static_fields.traced` or
    `static_fields.per_example` is a tensor inside the search, so other values do not need a new
    program.

    ```python
    @keras.saving.register_keras_serializable(package="mine")
    @dataclasses.dataclass(frozen=True)
    class OnlyEvenTokens(kt.constraints.Constraint):
        def allowed(self, log_probs, token_ids, state, progress):
            return ops.where(token_ids % 2 == 0, log_probs, -np.inf)
    ```

    Attributes:
        num_forbidden: the largest number of tokens that it forbids at a step; None if there is no
            limit, or if it lowers log-probabilities. If known, the search examines only this number
            of additional tokens, the most probable ones, and not the whole vocabulary.
        scores_forced: whether the log-probabilities of tokens that it forces count in the score.
        max_length: the largest length of an output, the end token included; None for no limit.
    """

    num_forbidden: int | None = None
    scores_forced: bool = True
    max_length: int | None = None

    def validate_inputs(
        self, model: keras.Model, encoder_token_ids: Tensor, limits: np.ndarray | None
    ) -> None:
        """Raise a `UserError` if the constraint does not fit the model or the sentences.

        Args:
            model: a `Transformer`.
            encoder_token_ids: int array `(batch, source)`; a tensor in a program that is being
                compiled.
            limits: int array `(batch,)`: the largest length of each output, 0 for a source without
                tokens; None in a program that is being compiled.

        Raises:
            UserError: if the constraint does not fit.
        """

    def token_ids(self) -> np.ndarray | None:
        """Return the ids of all tokens that outputs may contain, sorted; None for all tokens."""
        return None

    def forced_token_ids(self) -> Tensor | None:
        """Return the ids of the tokens that each output must contain, for a shortlist to include:
        int tensor `(batch, n)`, padded with 0; None if it forces none but the end token."""
        return None

    def first_state(self, sizes: Sizes) -> Any:
        """Return the state of hypotheses without tokens.

        Args:
            sizes: `Sizes`.

        Returns:
            The state.
        """
        return ()

    def forced(self, state: Any, progress: Progress) -> Tensor:
        """Return the token that must come next. It overrides the other constraints.

        Args:
            state: the state.
            progress: `Progress`.

        Returns:
            None, or an int32 tensor that broadcasts to `(batch, beam)`: 0 where no token is forced.
        """
        return None

    def adjust_logits(
        self, logits: Tensor, token_ids: Tensor, state: Any, progress: Progress
    ) -> Tensor:
        """Adjust the logits before the softmax.

        Args:
            logits: float32 tensor `(batch, beam, n)`: logits of all tokens, or with a shortlist of
                its candidates.
            token_ids: ids of the tokens: a sorted int array or tensor `(n,)`.
            state: the state.
            progress: `Progress`.

        Returns:
            Float32 tensor `(batch, beam, n)`.
        """
        return logits

    def allowed(
        self, log_probs: Tensor, token_ids: Tensor, state: Any, progress: Progress
    ) -> Tensor:
        """Return the log-probabilities, minus infinity for forbidden tokens.

        Args:
            log_probs: float32 tensor `(batch, beam, n)`: log-probabilities of tokens.
            token_ids: ids of the tokens: a sorted int array `(n,)`, or with a shortlist a tensor;
                with `num_forbidden`, it may also be an int32 tensor `(batch, beam, n)`.
            state: the state.
            progress: `Progress`.

        Returns:
            Float32 tensor `(batch, beam, n)`: minus infinity for tokens that may not come next.
            Other log-probabilities may be lowered, but not raised.
        """
        return log_probs

    def next_state(self, state: Any, parents: Tensor, tokens: Tensor) -> Any:
        """Return the state after a step.

        Args:
            state: the state.
            parents: int32 tensor `(batch, beam)`: the hypotheses that are continued.
            tokens: int32 tensor `(batch, beam)`: their next tokens.

        Returns:
            The state.
        """
        return state


class Candidates(NamedTuple):
    """Continuations, the best first."""

    parents: Tensor  # int32 (batch, n): the live hypotheses that they continue
    tokens: Tensor  # int32 (batch, n)
    scores: Tensor  # float32 (batch, n): log-probabilities of the hypotheses, this token included


def best_candidates(choose: Choose, scores: Tensor) -> Candidates:
    """Return the best two continuations per place in the beam: at least one of two does not end.

    Args:
        choose: function of a number of tokens; see `choose` for its results.
        scores: float32 tensor `(batch, beam)`, log-probabilities of the live hypotheses.

    Returns:
        `Candidates` `(batch, 2 * beam)`. Equal scores are ordered by hypothesis, then by token id.
    """
    beam = scores.shape[1]
    # The best 2 * beam continuations are among the best 2 * beam of each hypothesis.
    values, tokens = choose(2 * beam)
    size = values.shape[-1]
    totals = ops.reshape(ops.expand_dims(scores, -1) + values, (-1, beam * size))
    scores, flat = top_k(totals, 2 * beam)
    tokens = ops.take_along_axis(ops.reshape(tokens, (-1, beam * size)), flat, axis=1)
    return Candidates(flat // size, tokens, scores)


def choose(
    logits: Tensor,
    constraints: Sequence[Constraint],
    states: Sequence,
    progress: Progress,
    candidate_ids: Tensor | None = None,
    count: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the most probable allowed next tokens per hypothesis, and their log-probabilities.

    Padding and the start token are never allowed. A constraint that forbids at most n tokens is
    applied to the `count + n` most probable tokens only, not to the whole vocabulary.

    Args:
        logits: float32 tensor `(batch, beam, vocabulary_size)`; with a shortlist `(batch, beam,
            n)`, minus infinity for the candidates of other sentences.
        constraints: list of `Constraint`.
        states: the states of the constraints.
        progress: `Progress`.
        candidate_ids: sorted int32 tensor `(n,)`: the ids of a shortlist's candidates, padded with
            0 at the beginning; None for all tokens.
        count: the number of tokens needed per hypothesis. Defaults to all.

    Returns:
        A pair: float32 log-probabilities `(batch, beam, n)`, minus infinity for tokens that are
        not allowed; and int32 token ids `(batch, beam, n)`, or `(n,)` if all hypotheses have the
        same ones. Allowed tokens are in descending order if `count` is given, else in the order of
        their ids.
    """
    all_ids = candidate_ids
    if candidate_ids is None:
        all_ids = np.arange(logits.shape[-1], dtype="int32")
    for constraint, state in zip(constraints, states):
        logits = constraint.adjust_logits(logits, all_ids, state, progress)
    normalizer = ops.logsumexp(logits, axis=-1, keepdims=True)
    values, token_ids = _among(constraints, logits, all_ids)
    early, late = _by_order(constraints, states, count)
    # The early subtraction is a pass over the whole vocabulary: only some constraints need it.
    is_early = count is None or bool(early)
    if is_early:
        values = values - normalizer
    for constraint, state in early:
        values = constraint.allowed(values, token_ids, state, progress)
    if count is not None:
        more = sum(constraint.num_forbidden or 0 for constraint, _ in late)
        values, token_ids = _likeliest(values, token_ids, logits.shape[1], count + more)
        values = values if is_early else values - normalizer
    for constraint, state in late:
        values = constraint.allowed(values, token_ids, state, progress)
    values = ops.where(token_ids > START_ID, values, -np.inf)
    forced, is_scored = _forced(constraints, states, progress)
    if forced is not None:
        forced = ops.broadcast_to(forced, ops.shape(logits)[:2])[..., None]
        columns = forced if candidate_ids is None else columns_of(forced, candidate_ids)
        log_probs = ops.take_along_axis(logits, columns, axis=-1) - normalizer
        values, token_ids = _with_forced(values, token_ids, forced, is_scored, log_probs)
    # NaN logits must never win: backends sort NaN differently.
    return ops.where(values > -np.inf, values, -np.inf), token_ids


def _by_order(
    constraints: Sequence[Constraint], states: Sequence, count: int | None
) -> tuple[list, list]:
    """Return the pairs of constraint and state to apply to all tokens, and to the likeliest."""
    early, late = [], []
    for pair in zip(constraints, states):
        is_late = count is not None and pair[0].num_forbidden is not None
        (late if is_late else early).append(pair)
    return early, late


def _among(
    constraints: Sequence[Constraint], values: Tensor, token_ids: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the values and ids of the tokens that all constraints allow at some step."""
    all_ids = token_ids
    for constraint in constraints:
        if (only := constraint.token_ids()) is None:
            continue
        if isinstance(token_ids, np.ndarray):
            token_ids = token_ids[np.isin(token_ids, only)]
        else:
            values = ops.where(columns_of(token_ids, only) < len(only), values, -np.inf)
    if token_ids is not all_ids:
        values = ops.take(values, token_ids, axis=-1)
    return values, token_ids


def _likeliest(values: Tensor, token_ids: Tensor, beam: int, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest values, plus one for each token that is never allowed."""
    size, never = ops.shape(values)[-1], START_ID + 1
    if isinstance(token_ids, np.ndarray):
        never = int((token_ids <= START_ID).sum())
    count = count + never if values.shape[-1] is None else min(count + never, size)
    values, indices = top_k(ops.reshape(values, (-1, size)), count)
    if not isinstance(token_ids, np.ndarray) or token_ids[-1] >= size:
        indices = ops.take(token_ids, indices, axis=0)
    return ops.reshape(values, (-1, beam, count)), ops.reshape(indices, (-1, beam, count))


def _forced(
    constraints: Sequence[Constraint], states: Sequence, progress: Progress
) -> tuple[Tensor | None, Any]:
    """Return the token that the first forcing constraint requires next (0 if none does, None if
    no constraint ever forces a token), and whether it is scored.
    """
    forced, is_scored = None, True
    for constraint, state in zip(constraints, states):
        new = constraint.forced(state, progress)
        if new is None:
            continue
        is_new = new != PAD_ID
        if forced is not None:
            is_new = is_new & (forced == PAD_ID)
            new = ops.where(is_new, new, forced)
        forced = new
        if not constraint.scores_forced:
            is_scored = ~is_new & is_scored
    return forced, is_scored


def _with_forced(
    values: Tensor, token_ids: Tensor, forced: Tensor, is_scored: Any, forced_values: Tensor
) -> tuple[Tensor, Tensor]:
    """Append the forced token, and forbid all other tokens where there is one."""
    if is_scored is not True:
        is_scored = ops.broadcast_to(is_scored, ops.shape(forced)[:2])[..., None]
        forced_values = ops.where(is_scored, forced_values, 0.0)
    values = ops.where(forced == PAD_ID, values, -np.inf)
    forced_values = ops.where(forced == PAD_ID, -np.inf, forced_values)
    token_ids = ops.broadcast_to(ops.convert_to_tensor(token_ids, "int32"), ops.shape(values))
    return ops.concatenate([values, forced_values], axis=-1), ops.concatenate(
        [token_ids, forced], axis=-1
    )


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` largest numbers along the last axis, in descending order.

    Equal numbers are ordered by their index, on every backend. One pass over `x` finds the maximum
    of each block of numbers; the `k` largest are then all in the `k` blocks with the largest
    maxima, or among the few numbers after the last whole block.

    Args:
        x: float tensor `(rows, size)`, with a size of at least `k`.
        k: the number of values to return.

    Returns:
        A pair: the numbers and their int32 indices, both `(rows, k)`.
    """
    size = x.shape[-1]
    if size is None or (block := _block_size(size, k)) is None:
        return _sorted_top_k(x, k)
    num_blocks = size // block
    whole = num_blocks * block
    blocks = ops.reshape(x[:, :whole], (-1, num_blocks, block))
    _, best = _sorted_top_k(ops.max(blocks, axis=-1), k)
    best = ops.sort(best, axis=-1)  # equal numbers keep their order
    candidates = ops.reshape(gather_rows(blocks, best), (-1, k * block))
    if whole < size:
        candidates = ops.concatenate([candidates, x[:, whole:]], axis=-1)
    values, inner = _sorted_top_k(candidates, k)
    place = ops.minimum(inner // block, k - 1)  # after the last block, any block
    in_block = ops.take_along_axis(best, place, axis=-1) * block + inner % block
    after = inner - k * block + whole
    return values, ops.where(inner < k * block, in_block, after)


def gather_rows(x: Tensor, indices: Tensor) -> Tensor:
    """Return `x[b, indices[b, i]]` for all b and i: `(batch, rows, ...)` to `(batch, n, ...)`."""
    batch, rows, *shape = ops.shape(x)
    first = ops.expand_dims(ops.arange(batch, dtype="int32") * rows, 1)
    return ops.take(ops.reshape(x, (batch * rows, *shape)), first + indices, axis=0)


def columns_of(tokens: Tensor, token_ids: Tensor) -> Tensor:
    """Return the index of each token in a sorted list of ids, or the list's length if it is not in
    it.

    Args:
        tokens: int32 tensor of any shape.
        token_ids: sorted int array or tensor `(n,)`.

    Returns:
        Int32 tensor of the shape of `tokens`.
    """
    if isinstance(token_ids, np.ndarray):
        table = np.full(token_ids[-1] + 2, len(token_ids), "int32")
        table[token_ids] = np.arange(len(token_ids))
        return ops.take(table, ops.minimum(tokens, len(table) - 1), axis=0)
    count = ops.shape(token_ids)[0]
    index = ops.searchsorted(token_ids, ops.reshape(tokens, (-1,)))
    index = ops.reshape(ops.cast(index, "int32"), ops.shape(tokens))
    found = ops.take(token_ids, ops.minimum(index, count - 1), axis=0)
    return ops.where(found == tokens, index, count)


def _block_size(size: int, k: int) -> int | None:
    """Return the block size b that minimizes size / b + k b, or None if blocks save little."""
    cost = {b: size // b + k * b + size % b for b in range(2, size // k)}
    best = min(cost, key=lambda block: cost[block], default=None)
    return best if best is not None and cost[best] < size / 2 else None


def _sorted_top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    if keras.backend.backend() == "torch":
        # torch.topk returns equal numbers in any order.
        indices = ops.cast(ops.argsort(-x, axis=-1)[:, :k], "int32")
        return ops.take_along_axis(x, indices, axis=-1), indices
    values, indices = ops.top_k(x, k)
    return values, ops.cast(indices, "int32")
