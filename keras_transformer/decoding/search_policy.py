"""The rules of a search: its options, how it ranks hypotheses, and how it continues them."""

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.candidates import Candidates, Choose, Constraint
from keras_transformer.decoding.static_fields import StaticFields, deserialize, serialize
from keras_transformer.errors import UserError
from keras_transformer.validation import positive_integer


class RandomStep(NamedTuple):
    """The keys of a step's random numbers."""

    keys: Tensor  # `SearchPolicy.sentence_keys`
    seed: Tensor  # int32 scalar
    step: Tensor  # int32 scalar


class SearchPolicy(StaticFields, abc.ABC):
    """The rules that the loop of a search follows; a base class of frozen dataclasses.

    Each subclass has the fields `extra_length` and `constraints`. Policies compare by value and are
    hashable; `get_config` and `from_config` convert them to JSON values and back.
    """

    extra_length: int
    constraints: tuple[Constraint, ...]

    # The largest number of outputs per sentence, or None.
    most_results: int | None = None
    # β of the coverage penalty, if the search has one.
    coverage_penalty = 0.0
    # Whether hypotheses are drawn at random. They then do not compete for places.
    is_stochastic = False

    def limits(self, lengths: Tensor) -> Tensor:
        """Return the largest numbers of tokens of outputs, the end token included.

        Args:
            lengths: int32 tensor `(batch,)`: the tokens of the sources, the end token included.

        Returns:
            Int32 tensor `(batch,)`.
        """
        return lengths - 1 + self.extra_length

    @abc.abstractmethod
    def beam_width(self, num_results: int) -> int:
        """Return the number of live hypotheses per sentence, an integer.

        Args:
            num_results: the number of outputs per sentence.
        """

    @abc.abstractmethod
    def candidates(self, choose: Choose, scores: Tensor, random: RandomStep | None) -> Candidates:
        """Return the continuations of the live hypotheses, the best first.

        Args:
            choose: function of a number of tokens, or None for all: see `candidates.choose`.
            scores: float32 tensor `(batch, beam)`: log-probabilities of the live hypotheses.
            random: `RandomStep`; None for a search that is not stochastic.

        Returns:
            `Candidates`.
        """

    def penalized(self, scores: Tensor, length: Tensor) -> Tensor:
        """Return the scores that rank finished hypotheses.

        Args:
            scores: float32 tensor of any shape: log-probabilities.
            length: int32 tensor of a shape that broadcasts to it: numbers of tokens, including the
                end token.

        Returns:
            Float32 tensor. It increases with the log-probability, and does not decrease with the
            length.
        """
        return scores

    def sentence_keys(self, encoder_token_ids: Tensor, numbers: Tensor, seed: Tensor) -> Tensor:
        """Return the keys of each sentence's random numbers; `()` without random numbers.

        Args:
            encoder_token_ids: int32 tensor `(batch, source)`.
            numbers: int32 tensor `(batch, 1)`: the number of each sentence in the call.
            seed: int32 scalar.
        """
        return ()

    def seed_value(self) -> Tensor:
        """Return the seed of the random numbers: int32 scalar."""
        return np.int32(0)

    def static_part(self) -> Self:
        return (
            super()
            .static_part()
            ._with(
                {"constraints": tuple(constraint.static_part() for constraint in self.constraints)}
            )
        )

    def traced_tensors(self) -> dict[str, Any]:
        constraints = [constraint.traced_tensors() for constraint in self.constraints]
        return {**super().traced_tensors(), "constraints": constraints}

    def per_example_tensors(self) -> list[dict[str, Tensor]]:
        return [constraint.per_example_tensors() for constraint in self.constraints]

    def bind(
        self, tensors: Mapping[str, Any], per_example: Sequence[dict[str, Tensor]] | None = None
    ) -> Self:
        """Return a copy of the search and its constraints with tensors in their fields."""
        per_example = per_example or [{}] * len(self.constraints)
        fields = zip(self.constraints, tensors["constraints"], per_example)
        constraints = tuple(
            constraint.bind({**traced, **per_example}) for constraint, traced, per_example in fields
        )
        return super().bind({**tensors, "constraints": constraints})

    def get_config(self) -> dict[str, Any]:
        constraints = [serialize(constraint) for constraint in self.constraints]
        return {**super().get_config(), "constraints": constraints}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        constraints = tuple(map(deserialize, config.get("constraints", ())))
        return cls(**{**config, "constraints": constraints})

    def _set_fields(self, **values: Any) -> None:
        """Set the fields to valid values, and validate the fields that all searches have."""
        values["extra_length"] = positive_integer("extra_length", self.extra_length)
        values["constraints"] = validate_constraints(self.constraints)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def validate_num_results(self, num_results: int) -> int:
        """Return the number of results as a Python integer.

        Args:
            num_results: a number.

        Raises:
            UserError: if the search cannot return that many outputs per sentence.
        """
        num_results = positive_integer("num_results", num_results)
        if self.most_results is not None and num_results > self.most_results:
            raise UserError(
                "`num_results` must be no larger than `beam_size`. "
                f"Received: num_results={num_results}, beam_size={self.most_results}"
            )
        return num_results


def validate_constraints(
    constraints: Constraint | Iterable[Constraint],
) -> tuple[Constraint, ...]:
    """Return the constraints as a tuple.

    Raises:
        UserError: if one of them is not a `Constraint`.
    """
    if isinstance(constraints, Constraint):
        return (constraints,)
    constraints = tuple(constraints)
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise UserError(
                "`constraints` must be a tuple of `keras_transformer.constraints.Constraint`. "
                f"Received: {constraint!r}"
            )
    return constraints
