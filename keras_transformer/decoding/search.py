"""What the searches have in common: their checks, their constraints, and what they return."""

import abc

import numpy as np
from keras import ops

from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.decoding.constraint import Constraint
from keras_transformer.decoding.cpu_parallel import search_on_all_cores
from keras_transformer.decoding.search_loop import SearchLoop
from keras_transformer.decoding.source_validation import check_source, integers
from keras_transformer.decoding.static_fields import Settings, deserialize, serialize
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import PAD_ID, START_ID
from keras_transformer.validation import positive_integer


class Search(Settings, abc.ABC):
    """A way to search for outputs; a base class of frozen dataclasses.

    `extra_length` and `constraints` are fields of each. Equal by value, it can be the key of a
    dict, and `get_config` and `from_config` turn it into JSON values and back.

    Call arguments:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, each row ending with the end token, padded
            with 0 at the end, and only there. A row of padding alone gives empty outputs of score
            0.
        num_results: how many outputs of each sentence to return.
        constraints: further constraints, such as those that differ by sentence.
        return_attention: whether to return the attention of the outputs to the source.
        sentence_numbers: int array `(batch,)`, of which the random numbers of a search that draws
            depend, as they do of the sentences. Equal sentences of different numbers have different
            outputs, so pass other numbers for each batch of a longer text. Defaults to 0, 1, ...

    Returns:
        The tuple `(token_ids, scores)`, or `(token_ids, scores, attention)`:
        `token_ids`: int32 tensor `(batch, num_results, source + extra_length)`, without the start
        token, the end token included, 0 after it;
        `scores`: float32 tensor `(batch, num_results)`, the best first. Where there are fewer
        outputs than `num_results`, as where constraints leave none or weights are no numbers, minus
        infinity, and 0 for tokens;
        `attention`: float32 tensor `(batch, num_results, num_layers, num_heads, source +
        extra_length, source)`, the encoder-decoder attention weights with which each output token
        was predicted; 0 after the output's end.

    Raises:
        UserError: if an argument is out of its range or does not fit the model or the sentences.
            Within `tf.function` and `jax.jit`, token ids have no values yet and are not checked.
    """

    # What makes the steps: see `SearchLoop`.
    loop_class = SearchLoop
    # How many outputs of each sentence it can give at most, or None.
    most_results = None
    # β of the coverage penalty, where there is one.
    coverage_penalty = 0.0
    # Whether hypotheses that score too little are given up, and others take their places.
    drops = True
    # Whether random numbers decide.
    draws = False

    def __call__(
        self,
        model,
        encoder_token_ids,
        num_results=1,
        constraints=(),
        return_attention=False,
        sentence_numbers=None,
    ):
        search, encoder_token_ids, num_results, _ = self.checked(
            model, encoder_token_ids, num_results, constraints
        )
        if encoder_token_ids.shape[0] == 0:
            token_ids, scores = _nothing(encoder_token_ids, num_results, self.extra_length)
        else:
            numbers = _numbers(encoder_token_ids, sentence_numbers) if self.draws else ()
            token_ids, scores = search_on_all_cores(
                search, model, encoder_token_ids, num_results, numbers
            )
        if not return_attention:
            return token_ids, scores
        return token_ids, scores, _attention(model, encoder_token_ids, token_ids)

    def checked(self, model, encoder_token_ids, num_results, constraints):
        """What a call searches with, once its arguments are found to be right.

        Args:
            model: as of a call.
            encoder_token_ids: int tensor `(batch, source)`.
            num_results: how many outputs of each sentence.
            constraints: further constraints.

        Returns:
            The search with all constraints, the sentences as an int32 tensor, the number of results
            as a Python integer, and the most tokens of each output as `check_source` gives them.

        Raises:
            UserError: as a call.
        """
        search = self._with({"constraints": (*self.constraints, *check_constraints(constraints))})
        encoder_token_ids = integers("encoder_token_ids", encoder_token_ids)
        encoder_token_ids = ops.convert_to_tensor(encoder_token_ids, "int32")
        num_results = self.check_num_results(num_results)
        limits = check_source(model, encoder_token_ids, self.extra_length)
        most_tokens = limits
        for constraint in search.constraints:
            if limits is not None and constraint.max_length is not None:
                most_tokens = np.minimum(most_tokens, constraint.max_length)
        for constraint in search.constraints:
            constraint.check(model, encoder_token_ids, most_tokens)
        return search, encoder_token_ids, num_results, limits

    @abc.abstractmethod
    def num_live(self, num_results):
        """The number of live hypotheses of a sentence, where so many outputs are asked for.

        Args:
            num_results: how many outputs of a sentence are asked for.

        Returns:
            An integer.
        """

    @abc.abstractmethod
    def num_starts(self, num_results):
        """How many of them there are before the first step, all without tokens.

        Args:
            num_results: how many outputs of a sentence are asked for.

        Returns:
            An integer.
        """

    @abc.abstractmethod
    def candidates(self, choose, scores, numbers):
        """The continuations of the live hypotheses, the best first.

        Args:
            choose: function of a number of tokens, or None for all: see `choices.choose`.
            scores: float32 tensor `(batch, beam)`: log-probabilities of the live hypotheses.
            numbers: function without arguments: float32 tensor `(batch, beam)`, uniform in [0, 1).

        Returns:
            `Candidates`.
        """

    def penalised(self, scores, length):
        """The scores by which finished hypotheses are ranked.

        Args:
            scores: float32 tensor of any shape: log-probabilities.
            length: int32 tensor of a shape that broadcasts to it: numbers of tokens, the end token
                included.

        Returns:
            Float32 tensor. It falls with the log-probability, and does not fall with the length.
        """
        return scores

    def seed_value(self):
        """The seed of the random numbers: int32 scalar."""
        return np.int32(0)

    def template(self):
        return (
            super()
            .template()
            ._with({"constraints": tuple(constraint.template() for constraint in self.constraints)})
        )

    def shared_tensors(self):
        constraints = [constraint.shared_tensors() for constraint in self.constraints]
        return {**super().shared_tensors(), "constraints": constraints}

    def row_tensors(self):
        return [constraint.row_tensors() for constraint in self.constraints]

    def filled(self, tensors, rows=None):
        """Itself with tensors in their places, and those of its constraints too."""
        rows = rows or [{}] * len(self.constraints)
        constraints = tuple(
            constraint.filled({**shared, **of_rows})
            for constraint, shared, of_rows in zip(self.constraints, tensors["constraints"], rows)
        )
        return super().filled({**tensors, "constraints": constraints})

    def get_config(self):
        constraints = [serialize(constraint) for constraint in self.constraints]
        return {**super().get_config(), "constraints": constraints}

    @classmethod
    def from_config(cls, config):
        constraints = tuple(map(deserialize, config.get("constraints", ())))
        return cls(**{**config, "constraints": constraints})

    def _check_fields(self, **values):
        """Put checked values into the fields, and check those that all searches have."""
        values["extra_length"] = positive_integer("extra_length", self.extra_length)
        values["constraints"] = check_constraints(self.constraints)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def check_num_results(self, num_results):
        """The number as a Python integer.

        Args:
            num_results: a number.

        Raises:
            UserError: if the search does not give so many outputs of a sentence.
        """
        num_results = positive_integer("num_results", num_results)
        if self.most_results is not None and num_results > self.most_results:
            raise UserError(
                "`num_results` must be no larger than `beam_size`. "
                f"Received: num_results={num_results}, beam_size={self.most_results}"
            )
        return num_results


def check_constraints(constraints):
    """The constraints as a tuple.

    Raises:
        UserError: if one is none.
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


def _numbers(encoder_token_ids, numbers):
    """Which sentence of the call each is: int32 tensor `(batch, 1)`."""
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
    """The results of no sentences; on JAX an empty batch does not go through the loop."""
    shape = (0, num_results)
    length = encoder_token_ids.shape[1] + extra_length
    return ops.zeros((*shape, length), "int32"), ops.zeros(shape, "float32")


def _attention(model, encoder_token_ids, token_ids):
    """The encoder-decoder attention of each output: one pass over the chosen ones alone."""
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
