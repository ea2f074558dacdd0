"""What would fail, or mislead, inside a search raises a `UserError` before it."""

import reprlib

import keras
import numpy as np
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import PAD_ID, START_ID


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
        UserError: if the tensor has other axes or no columns, holds what is no token's id, has
            padding before a token, or is too long for the model's learned positions.
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
    check_padding("encoder_token_ids", token_ids)
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


def check_padding(name, token_ids):
    """Raise a `UserError` if a row has padding before a token.

    Args:
        name: the argument's name.
        token_ids: int array `(batch, length)`.
    """
    is_token = token_ids != PAD_ID
    is_gap = (is_token[:, 1:] > is_token[:, :-1]).any(axis=1)
    if is_gap.any():
        row = is_gap.argmax()
        raise UserError(
            f"`{name}` must be padded with 0 at the end, and only there. "
            f"Received: row {row}={token_ids[row].tolist()}"
        )


def integers(name, values):
    """Return integers as an array. A tensor of the backend is returned as it is.

    Args:
        name: the argument's name.
        values: array, nested lists, or a tensor.

    Raises:
        UserError: if the values are not integers, or rows differ in length.
    """
    expected = f"`{name}` must be an array of 32-bit integers, with rows of one length."
    is_ragged = hasattr(values, "row_splits")  # a tensor of TensorFlow
    if ops.is_tensor(values) and not is_ragged:
        if "int" not in keras.backend.standardize_dtype(values.dtype):
            raise UserError(f"{expected} Received: dtype={values.dtype}")
        return values
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):  # NumPy's errors for lists of different lengths
        is_ragged = True
    if is_ragged:
        raise UserError(f"{expected} Received: {reprlib.repr(values)}")
    is_integer = array.dtype.kind in "iu" or not array.size  # an empty list becomes floats
    if not is_integer or (array != array.astype("int32")).any():
        raise UserError(f"{expected} Received: dtype={array.dtype}, {reprlib.repr(values)}")
    return array.astype("int32")


def hashable_rows(name, values):
    """Return integers as nested tuples, which are equal by value and can be written as JSON.

    Args:
        name: the argument's name.
        values: as of `integers`, or None.

    Returns:
        Nested tuples; None of None; in a program that is being compiled, the tensor.

    Raises:
        UserError: as `integers`.
    """
    if values is None:
        return None
    values = integers(name, values)
    array = values_of(values)
    return values if array is None else _as_tuples(array.tolist())


def _as_tuples(values):
    return tuple(map(_as_tuples, values)) if isinstance(values, list) else values


def values_of(tensor):
    """The values of a tensor as an array; None of None, and while a program is being compiled."""
    if tensor is None:
        return None
    if isinstance(tensor, tuple):
        return np.asarray(tensor, "int32")
    try:
        return np.asarray(ops.convert_to_numpy(tensor))
    except (NotImplementedError, TypeError):
        return None
