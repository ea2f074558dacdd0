"""What would fail, or mislead, inside a search raises a `UserError` before it."""

import numpy as np
from keras import ops

from keras_transformer.data.tokenizer import PAD_ID, START_ID
from keras_transformer.errors import UserError


def check_source(model, encoder_token_ids, extra_length):
    """Check the sources of a search.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int tensor `(batch, source)`.
        extra_length: how many tokens an output may have beyond those of its source.

    Returns:
        Int array `(batch,)`: the most tokens of each output, 0 for a source without tokens; None in
        a program that is being compiled.

    Raises:
        UserError: if the tensor has other axes or no columns, holds what is no token's id, or is
            too long for the model's learned positions.
    """
    shape = tuple(encoder_token_ids.shape)
    if len(shape) != 2 or shape[1] == 0:
        raise UserError(
            "`encoder_token_ids` must have the shape (batch, source), with one column at least. "
            f"Received: shape={shape}"
        )
    length, max_length = shape[1], model.hyperparameters["max_length"]
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
    lengths = (token_ids != PAD_ID).sum(axis=1)
    return np.where(lengths, lengths - 1 + extra_length, 0)


def check_logits(model, source_ids):
    """Raise a `UserError` if a model's logits are not numbers, so that its searches find nothing.

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


def values_of(tensor):
    """The values of a tensor as an array; None of None, and while a program is being compiled."""
    if tensor is None:
        return None
    try:
        return np.asarray(ops.convert_to_numpy(tensor))
    except (NotImplementedError, TypeError):
        return None
