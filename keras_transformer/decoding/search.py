"""The base class of searches: the call, the validation of its inputs, and its results."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.batch_compaction import (
    FEWEST_HYPOTHESES,
    Inputs,
    search_in_stages,
    stages_for_xla,
)
from keras_transformer.decoding.candidates import Constraint
from keras_transformer.decoding.compilation import is_traced
from keras_transformer.decoding.constraints import mark
from keras_transformer.decoding.cpu_parallel import run_on_all_cores
from keras_transformer.decoding.search_policy import SearchPolicy, validate_constraints
from keras_transformer.decoding.static_fields import (
    known_values,
    validate_integers,
    validate_padding,
)
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID


class Search(SearchPolicy):
    """A way to search for outputs; a base class of frozen dataclasses.

    Searches compare by value and are hashable; `get_config` and `from_config` convert them to JSON
    values and back.

    Call arguments:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, each row ending with the end token, padded
            with 0 at the end only. A row of padding alone gives empty outputs of score 0.
        num_results: the number of outputs to return per sentence.
        constraints: further constraints, such as constraints that differ by sentence.
        sentence_numbers: int array `(batch,)`. The random numbers of a stochastic search depend on
            the sentence and its number, so pass different numbers for each batch of a longer text.
            Defaults to 0, 1, ...
        shortlist: a `kt.data.Shortlist`. Outputs then consist of its candidates for the tokens of
            their own source, and of forced tokens, and probabilities are normalized over these.
            The logits of other tokens are not computed. Defaults to all tokens.

    Returns:
        The tuple `(token_ids, scores)`:
        `token_ids`: int32 tensor `(batch, num_results, source + extra_length)`, without the start
        token, with the end token, 0 after it;
        `scores`: float32 tensor `(batch, num_results)`, the best first. If fewer than `num_results`
        outputs are found, because of constraints or NaN weights, the missing ones have the score
        minus infinity and tokens 0.

    Raises:
        UserError: if an argument is out of its range or does not fit the model or the sentences.
            Within `tf.function` and `jax.jit`, token ids have no values yet and are not checked.
    """

    def __call__(
        self,
        model: keras.Model,
        encoder_token_ids: Tensor,
        num_results: int = 1,
        constraints: Constraint | Iterable[Constraint] = (),
        sentence_numbers: Tensor | None = None,
        shortlist: Any = None,
    ) -> tuple[Tensor, Tensor]:
        search, token_ids, num_results, _ = self.validate_call(
            model, encoder_token_ids, num_results, constraints
        )
        batch = token_ids.shape[0]
        if batch == 0:
            return _nothing(token_ids, num_results, self.extra_length)
        numbers = _numbers(token_ids, sentence_numbers) if self.is_stochastic else ()
        traced, seed = search.traced_tensors(), search.seed_value()
        options = {"static_part": search.static_part(), "num_results": num_results}

        def run(sentences: tuple[Any, Any, Any]) -> tuple[Tensor, Tensor]:
            part = search if shortlist is None else search.bind(traced, sentences[1])
            candidates = part.candidates_of(model, sentences[0], shortlist)
            inputs = Inputs(*sentences, traced, seed, *candidates)
            return search_in_stages(model, inputs, extra_length=self.extra_length, **options)

        sentences = (token_ids, search.per_example_tensors(), numbers)
        # The size of a batch is unknown within a program that is being traced.
        hypotheses = (batch or 0) * search.beam_width(num_results)
        return run_on_all_cores(run, model, sentences, hypotheses // FEWEST_HYPOTHESES)

    def candidates_of(
        self, model: keras.Model, encoder_token_ids: Tensor, shortlist: Any
    ) -> tuple[Tensor, Tensor]:
        """Return the candidates of a shortlist for the sources of a batch.

        Args:
            model: a `Transformer`.
            encoder_token_ids: int32 tensor `(batch, source)`.
            shortlist: a `kt.data.Shortlist`, or None.

        Returns:
            The pair of a bool tensor `(batch, n)`, whether each candidate is one of each source,
            and an int32 tensor `(1, n)`, the sorted ids of the candidates, padded with 0 at the
            beginning. A pair of () without a shortlist.

        Raises:
            UserError: if the shortlist does not fit the model, or in a program of `jax.jit`.
        """
        if shortlist is None:
            return (), ()
        config, forced = model.config, [x.forced_token_ids() for x in self.constraints]
        is_shared, size = config.source_vocabulary_size is None, config.vocabulary_size
        shortlist.validate(shortlist.name, config.source_vocabulary_size or size, size)
        own = [encoder_token_ids] if is_shared else []
        also = [*own, *(ids for ids in forced if ids is not None)]
        if is_traced(encoder_token_ids):
            raise UserError(
                "A search with a shortlist needs the values of the token ids. Call it outside of "
                "`jax.jit`."
            )
        sources = known_values(encoder_token_ids)
        if sources is None:
            return _candidates_in_graph(shortlist, encoder_token_ids, size, also)
        is_candidate = shortlist.candidates(sources, size)
        for ids in map(ops.convert_to_numpy, also):
            is_candidate[np.arange(len(ids))[:, None], ids] = True
        is_candidate[:, : END_ID + 1] = True  # as in the softmax over all tokens
        ids = np.flatnonzero(is_candidate.any(axis=0))
        missing = _few_sizes(len(ids)) - len(ids)
        is_candidate = np.pad(is_candidate[:, ids], ((0, 0), (missing, 0)))
        ids = np.pad(ids, (missing, 0)).astype("int32")
        return ops.convert_to_tensor(is_candidate), ops.convert_to_tensor(ids[None])

    def validate_call(
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
        search = self._with(
            {"constraints": (*self.constraints, *validate_constraints(constraints))}
        )
        encoder_token_ids = validate_integers("encoder_token_ids", encoder_token_ids)
        encoder_token_ids = ops.convert_to_tensor(encoder_token_ids, "int32")
        num_results = self.validate_num_results(num_results)
        lengths = validate_source(model, encoder_token_ids, self.extra_length)
        limits = None if lengths is None else known_values(self.limits(lengths))
        if lengths is not None and limits is not None:
            limits = np.where(lengths, limits, 0)
        most_tokens = limits
        for constraint in search.constraints:
            if most_tokens is not None and constraint.max_length is not None:
                most_tokens = np.minimum(most_tokens, constraint.max_length)
        for constraint in search.constraints:
            constraint.validate_inputs(model, encoder_token_ids, most_tokens)
        return search, encoder_token_ids, num_results, limits


def _candidates_in_graph(
    shortlist: Any, token_ids: Tensor, size: int, also: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the results of `Search.candidates_of` in a graph of TensorFlow, padded for XLA."""
    import tensorflow

    tf: Any = tensorflow
    lists = tf.RaggedTensor.from_row_splits(
        tf.constant(shortlist.token_ids, "int32"), tf.constant(shortlist.offsets, "int64")
    )
    found = tf.gather(lists, token_ids).merge_dims(1, 2).to_tensor()
    always = np.union1d(shortlist.frequent, np.arange(END_ID + 1)).astype("int32")
    always = tf.tile(always[None], [tf.shape(token_ids)[0], 1])
    is_candidate = mark(tf.concat([found, always, *also], axis=1), np.arange(size))
    ids = tf.where(tf.reduce_any(is_candidate, axis=0))[:, 0]
    sizes = [_few_sizes(x) if stages_for_xla.get() else x for x in range(size + 1)]
    missing = tf.gather(sizes, tf.size(ids)) - tf.size(ids)
    is_candidate = tf.pad(tf.gather(is_candidate, ids, axis=1), [[0, 0], [missing, 0]])
    return is_candidate, tf.pad(tf.cast(ids, "int32"), [[missing, 0]])[None]


def _few_sizes(count: int) -> int:
    """Return the smallest of 512, 768, 1024, 1536, ... that is at least `count`."""
    size = 1 << max(count - 1, 511).bit_length()
    return size * 3 // 4 if 512 < size * 3 // 4 >= count else size


def validate_source(
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
    token_ids, size = known_values(encoder_token_ids), model.encoder.token_embedding.input_dim
    if token_ids is None:
        return None
    wrong = token_ids[(token_ids < 0) | (token_ids >= size)]
    if len(wrong):
        raise UserError(
            f"`encoder_token_ids` must be from 0 to {size - 1}, the vocabulary's last. "
            f"Received: the id {wrong[0]}"
        )
    validate_padding("encoder_token_ids", token_ids)
    return (token_ids != PAD_ID).sum(axis=1, dtype="int32")


def validate_logits(model: keras.Model, source_ids: Sequence[int]) -> None:
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


def _numbers(encoder_token_ids: Tensor, numbers: Tensor | None) -> Tensor:
    """Return the number of each sentence in the call: int32 tensor `(batch, 1)`."""
    if numbers is None:
        return ops.expand_dims(ops.arange(ops.shape(encoder_token_ids)[0], dtype="int32"), 1)
    given: Tensor = ops.convert_to_tensor(validate_integers("sentence_numbers", numbers), "int32")
    batch, shape = encoder_token_ids.shape[0], tuple(given.shape)
    if len(shape) != 1 or (None not in (shape[0], batch) and shape[0] != batch):
        raise UserError(
            "`sentence_numbers` must have the shape (batch,), one integer for each source. "
            f"Received: shape={shape} for {batch} sources"
        )
    return ops.expand_dims(given, 1)


def _nothing(
    encoder_token_ids: Tensor, num_results: int, extra_length: int
) -> tuple[Tensor, Tensor]:
    """Return the results of an empty batch, which JAX cannot put through the loop."""
    shape = (0, num_results)
    length = encoder_token_ids.shape[1] + extra_length
    return ops.zeros((*shape, length), "int32"), ops.zeros(shape, "float32")
