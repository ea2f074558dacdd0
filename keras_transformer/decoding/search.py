"""The base class of searches: options, call, validation of the inputs, results."""

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.candidates import Candidates, Choose, Constraint
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.decoding.cpu_parallel import search_on_all_cores
from keras_transformer.decoding.search_loop import RandomStep, SearchLoop
from keras_transformer.decoding.static_fields import (
    StaticFields,
    check_padding,
    deserialize,
    integers,
    serialize,
    values_of,
)
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import PAD_ID, START_ID
from keras_transformer.validation import positive_integer


class Search(StaticFields, abc.ABC):
    """A way to search for outputs; a base class of frozen dataclasses.

    Each subclass has the fields `extra_length` and `constraints`. Searches compare by value and are
    hashable; `get_config` and `from_config` convert them to JSON values and back.

    Call arguments:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, each row ending with the end token, padded
            with 0 at the end only. A row of padding alone gives empty outputs of score 0.
        num_results: the number of outputs to return per sentence.
        constraints: further constraints, such as constraints that differ by sentence.
        return_attention: whether to return the attention of the outputs to the source.
        sentence_numbers: int array `(batch,)`. The random numbers of a stochastic search depend on
            the sentence and its number, so pass different numbers for each batch of a longer text.
            Defaults to 0, 1, ...

    Returns:
        The tuple `(token_ids, scores)`, or `(token_ids, scores, attention)`:
        `token_ids`: int32 tensor `(batch, num_results, source + extra_length)`, without the start
        token, with the end token, 0 after it;
        `scores`: float32 tensor `(batch, num_results)`, the best first. If fewer than `num_results`
        outputs are found, because of constraints or NaN weights, the missing ones have the score
        minus infinity and tokens 0;
        `attention`: float32 tensor `(batch, num_results, num_layers, num_heads, source +
        extra_length, source)`, the encoder-decoder attention weights that predicted each output
        token; 0 after the output's end.

    Raises:
        UserError: if an argument is out of its range or does not fit the model or the sentences.
            Within `tf.function` and `jax.jit`, token ids have no values yet and are not checked.
    """

    extra_length: int
    constraints: tuple[Constraint, ...]

    loop_class = SearchLoop
    # The largest number of outputs per sentence, or None.
    most_results: int | None = None
    # β of the coverage penalty, if the search has one.
    coverage_penalty = 0.0
    # Whether low-scoring hypotheses are pruned.
    prunes = True
    # Whether the search draws random numbers.
    is_stochastic = False

    def __call__(
        self,
        model: keras.Model,
        encoder_token_ids: Tensor,
        num_results: int = 1,
        constraints: Constraint | Iterable[Constraint] = (),
        return_attention: bool = False,
        sentence_numbers: Tensor = None,
    ) -> tuple[Tensor, ...]:
        search, encoder_token_ids, num_results, _ = self.checked(
            model, encoder_token_ids, num_results, constraints
        )
        if encoder_token_ids.shape[0] == 0:
            token_ids, scores = _nothing(encoder_token_ids, num_results, self.extra_length)
        else:
            numbers = _numbers(encoder_token_ids, sentence_numbers) if self.is_stochastic else ()
            token_ids, scores = search_on_all_cores(
                search, model, encoder_token_ids, num_results, numbers
            )
        if not return_attention:
            return token_ids, scores
        return token_ids, scores, _attention(model, encoder_token_ids, token_ids)

    def checked(
        self,
        model: keras.Model,
        encoder_token_ids: Tensor,
        num_results: int,
        constraints: Constraint | Iterable[Constraint],
    ) -> tuple[Self, Tensor, int, np.ndarray | None]:
        """Validate the arguments of a call.

        Args:
            model: a `Transformer`.
            encoder_token_ids: int array `(batch, source)`.
            num_results: the number of outputs per sentence.
            constraints: further constraints.

        Returns:
            The search with all constraints, the sentences as an int32 tensor, the number of results
            as a Python integer, and the length limits of the outputs: int array `(batch,)`,
            0 for a source without tokens; None in a program that is being compiled.

        Raises:
            UserError: if an argument is out of its range or does not fit the model or the
                sentences.
        """
        search = self._with({"constraints": (*self.constraints, *check_constraints(constraints))})
        encoder_token_ids = integers("encoder_token_ids", encoder_token_ids)
        encoder_token_ids = ops.convert_to_tensor(encoder_token_ids, "int32")
        num_results = self.check_num_results(num_results)
        lengths = check_source(model, encoder_token_ids, self.extra_length)
        limits = None if lengths is None else values_of(self.limits(lengths))
        if lengths is not None and limits is not None:
            limits = np.where(lengths, limits, 0)
        most_tokens = limits
        for constraint in search.constraints:
            if most_tokens is not None and constraint.max_length is not None:
                most_tokens = np.minimum(most_tokens, constraint.max_length)
        for constraint in search.constraints:
            constraint.check(model, encoder_token_ids, most_tokens)
        return search, encoder_token_ids, num_results, limits

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
    def initial_beams(self, num_results: int) -> int:
        """Return the number of live hypotheses before the first step, an integer.

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

    def _check_fields(self, **values):
        """Set the fields to checked values, and check the fields that all searches have."""
        values["extra_length"] = positive_integer("extra_length", self.extra_length)
        values["constraints"] = check_constraints(self.constraints)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def check_num_results(self, num_results: int) -> int:
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


def check_constraints(constraints: Constraint | Iterable[Constraint]) -> tuple[Constraint, ...]:
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


def check_source(
    model: keras.Model, encoder_token_ids: Tensor, extra_length: int
) -> np.ndarray | None:
    """Validate the sources of a search.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int tensor `(batch, source)`.
        extra_length: the number of tokens by which an output may exceed its source.

    Returns:
        Int32 array `(batch,)`: the number of tokens of each source; None in a program that is being
        compiled.

    Raises:
        UserError: if the tensor does not have two axes or has no columns, contains an invalid token
            id, has padding before a token, or is too long for the model's learned positions.
    """
    shape = tuple(encoder_token_ids.shape)
    if len(shape) != 2 or shape[1] == 0:
        raise UserError(
            "`encoder_token_ids` must have the shape (batch, source), with one column at least. "
            f"Received: shape={shape}"
        )
    length, max_length = shape[1], model.config.max_length
    if max_length is not None and length is not None and length + extra_length > max_length:
        raise UserError(
            f"The source has {length} positions and its translation up to {length + extra_length}, "
            f"but the model learned only max_length={max_length}. Shorten the source, or pass a "
            "smaller `extra_length`."
        )
    token_ids, size = values_of(encoder_token_ids), model.encoder.token_embedding.input_dim
    if token_ids is None:
        return None
    wrong = token_ids[(token_ids < 0) | (token_ids >= size)]
    if len(wrong):
        raise UserError(
            f"`encoder_token_ids` must be from 0 to {size - 1}, the vocabulary's last. "
            f"Received: the id {wrong[0]}"
        )
    check_padding("encoder_token_ids", token_ids)
    return (token_ids != PAD_ID).sum(axis=1, dtype="int32")


def check_logits(model: keras.Model, source_ids: Sequence[int]) -> None:
    """Raise a `UserError` if a model's logits are infinite or NaN, so that searches find nothing.

    Args:
        model: a `Transformer`.
        source_ids: list of the token ids of a sentence.
    """
    inputs = {
        "encoder_token_ids": np.array([source_ids], "int32"),
        "decoder_token_ids": np.array([[START_ID]], "int32"),
    }
    largest = ops.convert_to_numpy(model(inputs)).max(axis=-1)
    if np.isnan(largest).any() or np.isposinf(largest).any():
        raise UserError(
            "The model's logits are infinite or not a number. Expected finite weights, and a "
            f"`dtype` that can hold what it computes. Received: {model!r}"
        )


def _numbers(encoder_token_ids, numbers):
    """Return the number of each sentence in the call: int32 tensor `(batch, 1)`."""
    if numbers is None:
        numbers = ops.arange(ops.shape(encoder_token_ids)[0], dtype="int32")
    numbers = ops.convert_to_tensor(integers("sentence_numbers", numbers), "int32")
    batch, shape = encoder_token_ids.shape[0], tuple(numbers.shape)
    if len(shape) != 1 or (None not in (shape[0], batch) and shape[0] != batch):
        raise UserError(
            "`sentence_numbers` must have the shape (batch,), one integer for each source. "
            f"Received: shape={shape} for {batch} sources"
        )
    return ops.expand_dims(numbers, 1)


def _nothing(encoder_token_ids, num_results, extra_length):
    """Return the results of an empty batch, which JAX cannot put through the loop."""
    shape = (0, num_results)
    length = encoder_token_ids.shape[1] + extra_length
    return ops.zeros((*shape, length), "int32"), ops.zeros(shape, "float32")


def _attention(model, encoder_token_ids, token_ids):
    """Return the encoder-decoder attention of the outputs, from one pass over the results only."""
    batch, num_results, length = ops.shape(token_ids)
    flat_ids = ops.reshape(token_ids, (batch * num_results, length))
    encoder_token_ids = ops.repeat(encoder_token_ids, num_results, axis=0)
    weights = run_compiled(_attention_program, model, flat_ids, encoder_token_ids)
    return ops.reshape(weights, (batch, num_results, *ops.shape(weights)[1:]))


def _attention_program(model, token_ids, encoder_token_ids):
    start = ops.full((ops.shape(token_ids)[0], 1), START_ID, "int32")
    decoder_token_ids = ops.concatenate([start, token_ids[:, :-1]], axis=1)
    weights = model.cross_attention(decoder_token_ids, encoder_token_ids)
    is_token = ops.cast(token_ids != PAD_ID, "float32")[:, None, None, :, None]
    return ops.cast(weights, "float32") * is_token
