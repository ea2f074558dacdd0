"""Sampling: outputs that are drawn at random."""

import random as python_random
from dataclasses import dataclass
from typing import Self

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.candidates import Candidates, Choose, Constraint, top_k
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.search_policy import RandomStep
from keras_transformer.decoding.static_fields import traced
from keras_transformer.layers.dropout import hash_bits
from keras_transformer.reserved_ids import PAD_ID
from keras_transformer.validation import integer, positive_integer, real_number


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class Sampling(Search):
    """Draw outputs at random, token by token, from `softmax(logits / temperature)`.

    The random numbers are a hash of `seed`, the sentence and its number in the call, counted from
    0. They are the same on every backend and do not depend on the rest of the batch; equal
    sentences of a call get different outputs. Scores are the model's log-probabilities, at
    temperature 1.

    ```python
    search = Sampling(temperature=0.8, top_p=0.9, seed=None)
    token_ids, scores = search(model, encoder_token_ids, num_results=5)
    ```

    See `Search` for the call arguments and results. Some results of a sentence may be equal.

    Args:
        temperature: higher values give more random outputs.
        top_k: if given, only the `top_k` most probable tokens can be drawn.
        top_p: if given, only the most probable tokens whose probabilities sum up to `top_p` can be
            drawn (nucleus sampling, Holtzman et al., 2020). It is applied after `top_k`.
        seed: integer; each seed gives different outputs. None draws a new seed from Python's
            `random` in each call.
        extra_length: the number of tokens, including the end token, by which an output may exceed
            the tokens of its source.
        constraints: tuple of `keras_transformer.constraints.Constraint`.

    Raises:
        UserError: if an argument is out of its range.
    """

    temperature: float = traced("float32", 1.0)
    top_k: int | None = None
    top_p: float | None = traced("float32", None)
    seed: int | None = 0
    extra_length: int = traced("int32", 50)
    constraints: tuple[Constraint, ...] = ()

    is_stochastic = True

    def __post_init__(self) -> None:
        top_k, top_p, seed = self.top_k, self.top_p, self.seed
        if top_k is not None:
            top_k = positive_integer("top_k", top_k)
        if top_p is not None:
            top_p = real_number("top_p", top_p, lambda x: 0 < x <= 1, "above 0 and at most 1")
        if seed is not None:
            seed = integer("seed", seed, -np.inf, "an integer, or None")
        temperature = real_number(
            "temperature", self.temperature, lambda x: 0 < x < np.inf, "positive"
        )
        self._set_fields(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)

    def __str__(self) -> str:
        limits = {"top_k": self.top_k, "top_p": self.top_p, "seed": self.seed}
        given = [f"{name} {value}" for name, value in limits.items() if value is not None]
        return ", ".join([f"samples, temperature {self.temperature}", *given])

    def beam_width(self, num_results: int) -> int:
        return num_results

    def candidates(self, choose: Choose, scores: Tensor, random: RandomStep) -> Candidates:
        numbers = uniform_numbers(random.keys, scores.shape[1], random.seed, random.step)
        return sampled_candidates(choose, scores, self, numbers)

    def sentence_keys(self, encoder_token_ids: Tensor, numbers: Tensor, seed: Tensor) -> Tensor:
        return sentence_keys(encoder_token_ids, numbers, seed)

    def seed_value(self) -> Tensor:
        if self.seed is not None:
            return np.array(self.seed % 2**32).astype("uint32").astype("int32")
        if _is_in_tensorflow_graph():
            import tensorflow as tf

            # The compiled program draws a seed each time it runs.
            return tf.random.uniform((), -(2**31), 2**31 - 1, "int32")
        return np.int32(python_random.getrandbits(32) - 2**31)

    def static_part(self) -> Self:
        return super().static_part()._with({"seed": None})


def sampled_candidates(
    choose: Choose, scores: Tensor, sampling: Sampling, numbers: Tensor
) -> Candidates:
    """Draw one random continuation per hypothesis.

    Args:
        choose: as for `best_candidates`.
        scores: float32 tensor `(batch, beam)`, log-probabilities of the live hypotheses.
        sampling: `temperature`, `top_k` and `top_p`.
        numbers: float32 tensor `(batch, beam)`, uniform in [0, 1).

    Returns:
        `Candidates`, one per place in the beam.
    """
    beam = scores.shape[1]
    values, tokens = choose(sampling.top_k)
    size = ops.shape(values)[-1]
    values = ops.reshape(values, (-1, size))
    if sampling.top_k is None and sampling.top_p is None:
        index = place = _drawn(values, sampling, numbers)
    else:
        count = sampling.top_k or size
        values, order = top_k(values, min(count, size) if isinstance(size, int) else count)
        place = _drawn(values, sampling, numbers)
        index = ops.take_along_axis(order, place, axis=-1)
    values = ops.take_along_axis(values, place, axis=-1)
    if len(tokens.shape) == 1:
        tokens = ops.take(tokens, index, axis=0)
    else:
        tokens = ops.take_along_axis(ops.reshape(tokens, (-1, size)), index, axis=-1)
    parents = ops.broadcast_to(ops.arange(beam, dtype="int32"), ops.shape(scores))
    return Candidates(
        parents,
        ops.cast(ops.reshape(tokens, (-1, beam)), "int32"),
        scores + ops.reshape(values, (-1, beam)),
    )


def _drawn(values: Tensor, sampling: Sampling, numbers: Tensor) -> Tensor:
    """Return the index of the first value whose cumulated probability exceeds the random number:
    int32 `(rows, 1)`.
    """
    probabilities = ops.softmax(values / sampling.temperature)
    cumulated = ops.cumsum(probabilities, axis=-1)
    if sampling.top_p is not None:
        is_kept = cumulated - probabilities < sampling.top_p
        most = ops.max(ops.where(is_kept, cumulated, 0.0), axis=-1, keepdims=True)
        cumulated = ops.where(is_kept, cumulated, most)
    drawn = ops.reshape(numbers, (-1, 1)) * cumulated[:, -1:]
    place = ops.sum(ops.cast(cumulated <= drawn, "int32"), axis=-1, keepdims=True)
    return ops.minimum(place, ops.shape(cumulated)[-1] - 1)  # if no token is allowed


def sentence_keys(encoder_token_ids: Tensor, numbers: Tensor, seed: Tensor) -> Tensor:
    """Return a hash of each sentence and its number in the call.

    It is the sum, modulo 2^32, of a hash of the number and hashes of the tokens with their
    positions. It does not depend on the sentence's row in the batch or on its padding.

    Args:
        encoder_token_ids: int32 tensor `(batch, source)`.
        numbers: int32 tensor `(batch, 1)`: the number of each sentence in the call.
        seed: int32 scalar.

    Returns:
        Int32 tensor `(batch, 1)`.
    """
    seed = ops.reshape(seed, (1,))
    positions = ops.arange(ops.shape(encoder_token_ids)[1], dtype="int32")
    no_step = ops.zeros((1,), "int32")
    words = hash_bits(
        hash_bits(encoder_token_ids, ops.concatenate([seed, no_step])) + positions,
        ops.concatenate([seed, no_step + 1]),
    )
    words = ops.where(encoder_token_ids == PAD_ID, 0, words)
    number_words = hash_bits(numbers, ops.concatenate([seed, no_step + 2]))
    return ops.cast(ops.sum(words, axis=1, keepdims=True), "int32") + number_words


def uniform_numbers(keys: Tensor, count: int, seed: Tensor, step: Tensor) -> Tensor:
    """Return random numbers that depend on the sentence's key and not on its row in the batch.

    Args:
        keys: int32 tensor `(batch, 1)`, from `sentence_keys`.
        count: the number of random numbers per sentence.
        seed: int32 scalar.
        step: int32 scalar; each step has its own numbers.

    Returns:
        Float32 tensor `(batch, count)`, uniform in [0, 1).
    """
    # `sentence_keys` used 0, 1 and 2.
    words = ops.concatenate([ops.reshape(seed, (1,)), ops.reshape(step, (1,)) + 3])
    bits = hash_bits(keys + ops.arange(count, dtype="int32"), words)
    # 23 bits, so that the product with a float32 sum stays below that sum.
    return ops.cast(ops.bitwise_and(ops.right_shift(bits, 9), 2**23 - 1), "float32") * 2.0**-23


def _is_in_tensorflow_graph() -> bool:
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()
