"""Constraints on the outputs of a search, which combine: `BeamSearch(constraints=(...,))`.

- `MinLength`, `MaxLength`: the smallest and the largest length of an output.
- `BannedTokens`, `NoUnknownToken`: tokens that an output must not contain.
- `NoRepeatedNgrams`, `RepetitionPenalty`: against repetitions in an output.
- `WordPenalty`: against long outputs.
- `ForcedPrefix`: the beginning of each output.
- `Constraint`: the base class of new constraints.

Probabilities are the model's own, except under a `RepetitionPenalty`: they are not normalized again
over the allowed tokens.
"""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.candidates import (
    Constraint,
    Progress,
    Sizes,
    columns_of,
    gather_rows,
)
from keras_transformer.decoding.static_fields import (
    hashable_rows,
    known_values,
    per_example,
    traced,
    validate_padding,
)
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID, UNKNOWN_ID
from keras_transformer.validation import integer, positive_integer, real_number

__all__ = [
    "BannedTokens",
    "Constraint",
    "ForcedPrefix",
    "MaxLength",
    "MinLength",
    "NoRepeatedNgrams",
    "NoUnknownToken",
    "RepetitionPenalty",
    "WordPenalty",
]

_register = keras.saving.register_keras_serializable(package="keras_transformer")

# A larger number of banned tokens is applied to the whole vocabulary.
_MOST_FEW = 64


@_register
@dataclass(frozen=True, repr=False)
class MinLength(Constraint):
    """Outputs have at least `min_length` tokens, the end token included.

    Args:
        min_length: a number of tokens.

    Raises:
        UserError: if `min_length` is not an integer or is negative; in a call, if it is larger than
            the length limit of an output.
    """

    min_length: int = traced("int32")
    num_forbidden = 1

    def __post_init__(self) -> None:
        value = integer("min_length", self.min_length, 0, "an integer, 0 or larger")
        object.__setattr__(self, "min_length", value)

    def validate_inputs(
        self, model: keras.Model, encoder_token_ids: Tensor, limits: np.ndarray | None
    ) -> None:
        if limits is None:
            return
        is_short = (0 < limits) & (limits < self.min_length)
        if is_short.any():
            row = is_short.argmax()
            raise UserError(
                f"`min_length` must be at most {limits[row]}, the length limit of row {row}. "
                f"Received: min_length={self.min_length}. Pass a larger `extra_length`."
            )

    def allowed(
        self, log_probs: Tensor, token_ids: Tensor, state: Any, progress: Progress
    ) -> Tensor:
        is_early = progress.step + 1 < self.min_length
        is_early_end = ops.logical_and(token_ids == END_ID, is_early)
        return ops.where(is_early_end, -np.inf, log_probs)


@_register
@dataclass(frozen=True, repr=False)
class MaxLength(Constraint):
    """Outputs have at most `max_length` tokens, the end token included.

    A longer output is cut off: its last token becomes the end token, which is not scored. The
    search's own limit, which depends on the source, remains in force.

    Args:
        max_length: a number of tokens.

    Raises:
        UserError: if `max_length` is not a positive integer.
    """

    max_length: int = traced("int32")
    num_forbidden = 0
    scores_forced = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_length", positive_integer("max_length", self.max_length))

    def forced(self, state: Any, progress: Progress) -> Tensor:
        is_last = progress.step + 1 >= self.max_length
        return ops.where(is_last, ops.cast(END_ID, "int32"), ops.cast(PAD_ID, "int32"))


@_register
@dataclass(frozen=True, repr=False)
class BannedTokens(Constraint):
    """Outputs do not contain the given tokens.

    Args:
        banned_token_ids: ids of tokens, in any order. The end token cannot be banned.

    Raises:
        UserError: if one of them is not a token id, or is the id of the end token.
    """

    banned_token_ids: tuple[int, ...] = traced("int32")

    def __post_init__(self) -> None:
        token_ids = np.asarray(self.banned_token_ids).ravel()
        is_id = token_ids.dtype.kind in "iu" or not len(token_ids)
        if not is_id or (token_ids < 0).any() or END_ID in token_ids:
            raise self._error("not negative")
        token_ids = tuple(sorted(set(token_ids.tolist())))
        object.__setattr__(self, "banned_token_ids", token_ids)

    @property
    def num_forbidden(self) -> int | None:
        token_ids: Any = self.banned_token_ids  # a tensor, inside the search
        count = token_ids.shape[0]
        return count if count <= _MOST_FEW else None

    def traced_tensors(self) -> dict[str, Any]:
        # Few sizes need few programs. -1 is not a token id.
        size = 1 << max(len(self.banned_token_ids) - 1, 0).bit_length()
        token_ids = np.full(size, -1, "int32")
        token_ids[: len(self.banned_token_ids)] = self.banned_token_ids
        return {"banned_token_ids": token_ids}

    def validate_inputs(
        self, model: keras.Model, encoder_token_ids: Tensor, limits: np.ndarray | None
    ) -> None:
        size = model.config.vocabulary_size
        if self.banned_token_ids and self.banned_token_ids[-1] >= size:
            raise self._error(f"below {size}, the vocabulary size")

    def allowed(
        self, log_probs: Tensor, token_ids: Tensor, state: Any, progress: Progress
    ) -> Tensor:
        if self.num_forbidden is None:
            banned = ops.maximum(self.banned_token_ids, PAD_ID)  # padding is never allowed
            is_banned = mark(banned[None], token_ids)[0]
        else:
            token_ids = ops.convert_to_tensor(token_ids, "int32")
            is_banned = ops.any(ops.expand_dims(token_ids, -1) == self.banned_token_ids, axis=-1)
        return ops.where(is_banned, -np.inf, log_probs)

    def _error(self, expected: str) -> UserError:
        return UserError(
            f"`banned_token_ids` must be token ids: integers, {expected}, and not the end token "
            f"{END_ID}. Received: banned_token_ids={self.banned_token_ids}"
        )


@_register
@dataclass(frozen=True, repr=False)
class NoUnknownToken(Constraint):
    """Outputs do not contain the unknown token."""

    num_forbidden = 1

    def allowed(
        self, log_probs: Tensor, token_ids: Tensor, state: Any, progress: Progress
    ) -> Tensor:
        return ops.where(token_ids == UNKNOWN_ID, -np.inf, log_probs)


@_register
@dataclass(frozen=True, repr=False)
class NoRepeatedNgrams(Constraint):
    """Outputs do not contain the same n consecutive tokens twice.

    Args:
        size: n.

    Raises:
        UserError: if n is not a positive integer.
    """

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", positive_integer("size", self.size))

    def first_state(self, sizes: Sizes) -> Tensor:
        return ops.zeros(tuple(sizes), "int32")

    def allowed(
        self, log_probs: Tensor, token_ids: Tensor, state: Tensor, progress: Progress
    ) -> Tensor:
        is_forbidden = mark(followers(state, self.size - 1), token_ids)
        return ops.where(is_forbidden, -np.inf, log_probs)

    def next_state(self, state: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
        return longer(state, parents, tokens)


@_register
@dataclass(frozen=True, repr=False)
class RepetitionPenalty(Constraint):
    """Tokens that the output already contains become less probable (Keskar et al., 2019, 4.1).

    With `"logits"`, a positive logit of such a token is divided by the penalty, and a negative one
    is multiplied by it. CTranslate2 does the same, and so does HuggingFace's `generate` in greedy
    search and in sampling. The score of an output is the sum of the log-softmax of these logits.

    With `"log_probs"`, the log-probability of such a token is multiplied by the penalty, as
    HuggingFace's `generate` does in beam search. The score is the sum of these products. A token
    whose probability is nearly 1 keeps it for every penalty.

    Args:
        penalty: the factor, 1 or larger. 1 changes nothing.
        applies_to: `"logits"` or `"log_probs"`.

    Raises:
        UserError: if `penalty` is not a number or is less than 1, or if `applies_to` is not
            supported.
    """

    penalty: float = traced("float32")
    applies_to: str = "logits"

    def __post_init__(self) -> None:
        value = real_number(
            "penalty", self.penalty, lambda x: 1 <= x < np.inf, "a number, 1 or larger"
        )
        object.__setattr__(self, "penalty", value)
        if self.applies_to not in ("logits", "log_probs"):
            raise UserError(
                '`applies_to` must be "logits" or "log_probs". '
                f"Received: applies_to={self.applies_to!r}"
            )

    @property
    def num_forbidden(self) -> int | None:
        return 0 if self.applies_to == "logits" else None

    def first_state(self, sizes: Sizes) -> Tensor:
        return ops.zeros(tuple(sizes), "int32")

    def adjust_logits(
        self, logits: Tensor, token_ids: Tensor, state: Tensor, progress: Progress
    ) -> Tensor:
        if self.applies_to != "logits":
            return logits
        # 0 fills a short history: it is not a repeated token.
        is_repeated = ops.logical_and(mark(state, token_ids), token_ids != PAD_ID)
        lower = ops.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return ops.where(is_repeated, lower, logits)

    def allowed(
        self, log_probs: Tensor, token_ids: Tensor, state: Tensor, progress: Progress
    ) -> Tensor:
        if self.applies_to != "log_probs":
            return log_probs
        return ops.where(mark(state, token_ids), self.penalty * log_probs, log_probs)

    def next_state(self, state: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
        return longer(state, parents, tokens)


@_register
@dataclass(frozen=True, repr=False)
class WordPenalty(Constraint):
    """Each token costs a part of the score: Marian's option `word-penalty`.

    Args:
        penalty: the number that is subtracted from the log-probability of each token, 0 or larger.

    Raises:
        UserError: if `penalty` is not a number or is negative.
    """

    penalty: float = traced("float32")
    num_forbidden = 0

    def __post_init__(self) -> None:
        value = real_number("penalty", self.penalty, lambda x: 0 <= x < np.inf, "0 or larger")
        object.__setattr__(self, "penalty", value)

    def allowed(
        self, log_probs: Tensor, token_ids: Tensor, state: Any, progress: Progress
    ) -> Tensor:
        return log_probs - self.penalty


@_register
@dataclass(frozen=True, repr=False)
class ForcedPrefix(Constraint):
    """Each output begins with its own prefix, which overrides the other constraints.

    Its tokens count in length, and in score unless `is_scored` is false.

    Args:
        prefix_token_ids: int array `(batch, prefix)`, padded with 0.
        is_scored: whether the score includes the log-probabilities of these tokens. Without them
            it is the score of the rest of the output, given the prefix.

    Raises:
        UserError: if the prefixes are not integers, or differ in length; in a call, if they are
            not token ids, have padding before a token, or are longer than the outputs.
    """

    prefix_token_ids: Tensor = per_example()
    is_scored: bool = True
    num_forbidden = 0

    def __post_init__(self) -> None:
        prefix = hashable_rows("prefix_token_ids", self.prefix_token_ids)
        object.__setattr__(self, "prefix_token_ids", prefix)

    @property
    def scores_forced(self) -> bool:
        return self.is_scored

    def validate_inputs(
        self, model: keras.Model, encoder_token_ids: Tensor, limits: np.ndarray | None
    ) -> None:
        _validate_shape(self.prefix_token_ids, encoder_token_ids)
        prefix = known_values(self.prefix_token_ids)
        if prefix is None or limits is None:
            return
        _validate_ids(prefix, model.config.vocabulary_size)
        is_token = prefix != PAD_ID
        limits = np.where(limits, limits, prefix.shape[1])  # a source without tokens has no output
        if (is_token.sum(axis=1) > limits).any():
            row = (is_token.sum(axis=1) > limits).argmax()
            raise UserError(
                f"`prefix_token_ids` must not be longer than the outputs. Received: row {row} of "
                f"{is_token[row].sum()} tokens, for an output of at most {limits[row]}. Pass a "
                "larger `extra_length`."
            )

    def per_example_tensors(self) -> dict[str, Tensor]:
        tensors = super().per_example_tensors()
        # A column of padding marks the end of each prefix, and an empty prefix.
        return {name: ops.pad(x, ((0, 0), (0, 1))) for name, x in tensors.items()}

    def forced_token_ids(self) -> Tensor | None:
        return self.prefix_token_ids

    def first_state(self, sizes: Sizes) -> Tensor:
        return self.prefix_token_ids

    def forced(self, state: Tensor, progress: Progress) -> Tensor:
        index = ops.minimum(progress.step, ops.shape(state)[1] - 1)
        return ops.expand_dims(ops.take(state, index, axis=1), 1)


def _validate_shape(prefix: Any, encoder_token_ids: Tensor) -> None:
    shape = np.shape(prefix) if isinstance(prefix, tuple) else tuple(prefix.shape)
    batch = encoder_token_ids.shape[0]
    if batch == 0:
        return
    if len(shape) != 2 or (None not in (shape[0], batch) and shape[0] != batch):
        raise UserError(
            "`prefix_token_ids` must have the shape (batch, prefix), one row for each source. "
            f"Received: shape={shape} for {batch} sources"
        )


def _validate_ids(prefix: np.ndarray, vocabulary_size: int) -> None:
    wrong = prefix[(prefix < 0) | (prefix >= vocabulary_size) | (prefix == START_ID)]
    if len(wrong):
        raise UserError(
            f"`prefix_token_ids` must be token ids: below {vocabulary_size}, the vocabulary "
            f"size, and not the start token {START_ID}. Received: the id {wrong[0]}"
        )
    validate_padding("prefix_token_ids", prefix)


# Token histories, for constraints on repetitions: the tokens of each hypothesis, the last first.


def longer(history: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
    """Return the histories of the hypotheses `parents`, each with one more token.

    Args:
        history: int32 tensor `(batch, beam, length)`, the last token first, padded with 0.
        parents: int32 tensor `(batch, beam)`.
        tokens: int32 tensor `(batch, beam)`.

    Returns:
        Int32 tensor `(batch, beam, length)`.
    """
    earlier = gather_rows(history, parents)[..., :-1]
    return ops.concatenate([ops.expand_dims(tokens, -1), earlier], axis=-1)


def followers(history: Tensor, count: int) -> Tensor:
    """Return the tokens that followed an earlier occurrence of the last `count` tokens.

    Args:
        history: int32 tensor `(batch, beam, length)`.
        count: the number of tokens that must be equal.

    Returns:
        Int32 tensor `(batch, beam, length)`, 0 in other places.
    """
    # follower[i] came after history[i + 1], history[i + 2], ... Padding is only at the end, so a
    # history of fewer tokens than `count` does not occur again within itself.
    is_same = history != 0
    for i in range(count):
        is_same = is_same & (_shifted(history, i + 1) == history[..., i : i + 1])
    return ops.where(is_same, history, 0)


def mark(tokens: Tensor, token_ids: Tensor) -> Tensor:
    """Return which token ids occur in rows of tokens.

    Args:
        tokens: int32 tensor `(..., n)`. 0 stands for a missing token, but is marked too.
        token_ids: sorted int array or tensor `(m,)`.

    Returns:
        Boolean tensor `(..., m)`.
    """
    size, shape = ops.shape(token_ids)[0] + 1, ops.shape(tokens)
    # The last column is for tokens without an id.
    columns = ops.reshape(columns_of(tokens, token_ids), (-1, shape[-1]))
    row = ops.expand_dims(ops.arange(ops.shape(columns)[0], dtype="int32") * size, 1)
    indices = ops.reshape(columns + row, (-1, 1))
    marks = ops.zeros((ops.shape(columns)[0] * size,), "int32")
    marks = ops.scatter_update(marks, indices, ops.ones(ops.shape(indices)[:1], "int32"))
    return ops.reshape(marks, (*shape[:-1], size))[..., :-1] > 0


def _shifted(history: Tensor, count: int) -> Tensor:
    """Shift a history by `count` tokens, and pad it with 0."""
    return ops.pad(history[..., count:], ((0, 0), (0, 0), (0, count)))
