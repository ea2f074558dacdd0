"""Beam search with a length penalty, and greedy search, a beam search of one hypothesis (6.1)."""

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.candidates import Candidates, Choose, Constraint, best_candidates
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.search_policy import RandomStep
from keras_transformer.decoding.static_fields import traced
from keras_transformer.errors import UserError
from keras_transformer.validation import (
    not_negative,
    positive_integer,
    positive_number,
    real_number,
)

# A larger α makes the penalties of long outputs overflow float32, and all scores 0.
_LARGEST_ALPHA = 10


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class BeamSearch(Search):
    """Search for the output y of a source x that maximizes (section 6.1; Wu et al., 2016, Eq. 14)

    ```
    score(y, x) = log P(y | x) / lp(|y|) + β Σ_i log min(Σ_j p_ij, 1)
    lp(|y|)     = ((5 + |y|) / 6)^α    "gnmt"
                  |y|^α                "power"
    ```

    where |y| counts the end token, and p_ij is the attention to source token i when y_j is
    predicted: the mean over the heads of the last layer.

    At each step (`SearchLoop.next_state`), the live hypotheses, at most `beam_size`, are continued
    with every token. Of the best `beam_size` continuations, the ones that end are finished: they
    are scored once and kept apart. The best `beam_size` continuations that do not end are the next
    live hypotheses. The search for a sentence stops when no live hypothesis can score more than the
    finished ones, and the batch stops with its last sentence. An output ends with the end token, or
    when it is `extra_length` tokens longer than its source. A sentence's result does not depend on
    the other sentences in the batch. Equal scores are ordered by the rank of the hypothesis, then
    by the lower token id, on every backend.

    ```python
    search = BeamSearch(beam_size=8, alpha=1.0, constraints=(constraints.NoRepeatedNgrams(3),))
    token_ids, scores = search(model, encoder_token_ids, num_results=2)
    ```

    See `Search` for the call arguments and results.

    Args:
        beam_size: the number of live hypotheses per sentence, and the largest number of results.
        alpha: α, the strength of the length penalty, from 0 to 10. Larger values give longer
            outputs.
        length_penalty: lp, `"gnmt"` or `"power"`.
        coverage_penalty: β, the strength of the coverage penalty. It ranks finished hypotheses
            only; live hypotheses are ranked without it.
        extra_length: the number of tokens, including the end token, by which an output may exceed
            the tokens of its source.
        constraints: tuple of `keras_transformer.constraints.Constraint`.
        max_length_factor: if given, an output also has at most this number times the tokens of its
            source, the end tokens included (Marian's `max-length-factor`).

    Raises:
        UserError: if an argument is out of its range.
    """

    beam_size: int = 4
    alpha: float = traced("float32", 0.6, off=0)
    length_penalty: str = "gnmt"
    coverage_penalty: float = traced("float32", 0.0, off=0)
    extra_length: int = traced("int32", 50)
    constraints: tuple[Constraint, ...] = ()
    max_length_factor: float | None = traced("float32", None)

    def __post_init__(self) -> None:
        if self.length_penalty not in list(length_penalties):
            raise UserError(
                f"`length_penalty` must be one of {sorted(length_penalties)}. "
                f"Received: length_penalty={self.length_penalty!r}"
            )
        factor = self.max_length_factor
        if factor is not None:
            factor = positive_number("max_length_factor", factor)
        self._set_fields(
            beam_size=positive_integer("beam_size", self.beam_size),
            alpha=real_number(
                "alpha",
                self.alpha,
                lambda x: 0 <= x <= _LARGEST_ALPHA,
                f"a number from 0 to {_LARGEST_ALPHA}",
            ),
            coverage_penalty=not_negative("coverage_penalty", self.coverage_penalty),
            max_length_factor=factor,
        )

    def __str__(self) -> str:
        return f"beam {self.beam_size}, alpha {self.alpha}"

    @classmethod
    def greedy(cls, **options: Any) -> "BeamSearch":
        """Return the search that takes the most probable token at each step.

        Args:
            **options: fields of the search, such as `extra_length`.
        """
        return cls(**{"beam_size": 1, "alpha": 0.0, **options})

    @property
    def most_results(self) -> int:
        return self.beam_size

    def beam_width(self, num_results: int) -> int:
        return self.beam_size

    def limits(self, lengths: Tensor) -> Tensor:
        limits = super().limits(lengths)
        if self.max_length_factor is None:
            return limits
        factor = ops.cast(self.max_length_factor, "float32")  # Marian rounds as float32 does
        most = ops.ceil(factor * ops.cast(lengths, "float32"))
        return ops.minimum(limits, ops.cast(most, "int32"))

    def candidates(self, choose: Choose, scores: Tensor, random: RandomStep) -> Candidates:
        return best_candidates(choose, scores)

    def penalized(self, scores: Tensor, length: Tensor) -> Tensor:
        if isinstance(self.alpha, float) and self.alpha == 0:
            return scores
        penalty = length_penalties[self.length_penalty]
        return scores / penalty(ops.cast(length, "float32"), self.alpha)


def gnmt(length: Tensor, alpha: float | Tensor) -> Tensor:
    """((5 + |y|) / 6)^α: Wu et al. (2016), Eq. 14; the paper's section 6.1."""
    return ((5 + length) / 6) ** alpha


def power(length: Tensor, alpha: float | Tensor) -> Tensor:
    """|y|^α; with α = 1, scores are mean log-probabilities per token."""
    return length**alpha


# Each penalty grows with the length |y|, which counts the end token: the search relies on it.
length_penalties = {"gnmt": gnmt, "power": power}
