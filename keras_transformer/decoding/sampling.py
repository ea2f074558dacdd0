"""Outputs drawn at random."""

import random
from dataclasses import dataclass

import keras
import numpy as np

from keras_transformer.decoding.beam_search import with_constraints
from keras_transformer.decoding.candidates import sampled_candidates
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.static_fields import shared
from keras_transformer.validation import integer, positive_integer, real_number


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class Sampling(Search):
    """Draw outputs at random, token by token, from `softmax(logits / temperature)`.

    The random numbers are a hash of `seed`, the sentence and its number in the call, from 0 on: the
    same on every backend, whatever else is in the batch. So equal sentences of a call have
    different outputs. Scores are the model's log-probabilities, as of temperature 1.

    ```python
    search = Sampling(temperature=0.8, top_p=0.9, seed=None)
    token_ids, scores = search(model, encoder_token_ids, num_results=5)
    ```

    Call arguments and results are those of every `Search`. Of the results of a sentence some may be
    equal.

    Args:
        temperature: the higher, the more random.
        top_k: if given, only the `top_k` likeliest tokens are drawn from.
        top_p: if given, only the likeliest tokens whose probabilities sum up to `top_p` are drawn
            from (nucleus sampling, Holtzman et al., 2020); of those that `top_k` leaves.
        seed: integer; another seed gives other outputs. With None each call draws anew, by a seed
            from Python's `random`.
        extra_length: how many tokens, the end token included, an output may have beyond the tokens
            of its source.
        constraints: tuple of `keras_transformer.constraints.Constraint`.

    Raises:
        UserError: if an argument is out of its range.
    """

    temperature: float = shared("float32", 1.0)
    top_k: int | None = None
    top_p: float | None = shared("float32", None)
    seed: int | None = 0
    extra_length: int = shared("int32", 50)
    constraints: tuple = ()

    drops = False  # samples are independent from the beginning
    draws = True

    def __post_init__(self):
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
        self._check_fields(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)

    def __str__(self):
        limits = {"top_k": self.top_k, "top_p": self.top_p, "seed": self.seed}
        given = [f"{name} {value}" for name, value in limits.items() if value is not None]
        return ", ".join([f"samples, temperature {self.temperature}", *given])

    def num_live(self, num_results):
        return num_results

    def num_starts(self, num_results):
        return num_results

    def candidates(self, choose, scores, numbers):
        return sampled_candidates(choose, scores, self, numbers())

    def seed_value(self):
        if self.seed is not None:
            return np.array(self.seed % 2**32).astype("uint32").astype("int32")
        if _is_in_tensorflow_graph():
            import tensorflow as tf

            # The program draws, each time that it runs.
            return tf.random.uniform((), -(2**31), 2**31 - 1, "int32")
        return np.int32(random.getrandbits(32) - 2**31)

    def template(self):
        return super().template()._with({"seed": None})


def sample(
    model,
    encoder_token_ids,
    num_results=1,
    temperature=1.0,
    top_k=None,
    top_p=None,
    seed=0,
    extra_length=50,
    min_length=0,
    prefix_token_ids=None,
    banned_token_ids=(),
    return_attention=False,
    constraints=(),
):
    """Call a `Sampling` of these options.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, as every `Search` takes it.
        num_results: how many outputs to draw for each sentence.
        temperature: see `Sampling`.
        top_k: see `Sampling`.
        top_p: see `Sampling`.
        seed: see `Sampling`.
        extra_length: see `Sampling`.
        min_length: see `constraints.MinLength`.
        prefix_token_ids: see `constraints.ForcedPrefix`.
        banned_token_ids: see `constraints.BannedTokens`.
        return_attention: whether to return the attention of the outputs to the source.
        constraints: further constraints.

    Returns:
        The tuple `(token_ids, scores)`, or `(token_ids, scores, attention)`: see `Search`.

    Raises:
        UserError: if an argument is out of its range or does not fit the model or the sentences.
    """
    search = Sampling(temperature, top_k, top_p, seed, extra_length)
    constraints = with_constraints(constraints, min_length, prefix_token_ids, banned_token_ids)
    return search(model, encoder_token_ids, num_results, constraints, return_attention)


def _is_in_tensorflow_graph():
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()
