from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.errors import UserError
from keras_transformer.layers.multi_head_attention import MultiHeadAttention, record_weights
from keras_transformer.layers.tensor_ops import masked_softmax

# Smaller blocks would not be faster: each matrix product has a fixed cost.
_SMALLEST_BLOCK = 16


@keras.saving.register_keras_serializable(package="keras_transformer")
class RestrictedSelfAttention(MultiHeadAttention):
    """Self-attention of each position to the positions around it (section 4, Table 1).

    The sequence is cut into blocks of at least half a window. A block of queries attends to its own
    keys and to half a window of keys on either side. So time and memory grow as O(r n d), and the
    scores of positions farther apart are never computed.

    Args:
        *args: arguments of `MultiHeadAttention`.
        attention_window: r, an odd number: a position attends to the `r // 2` before it, to
            itself, and to the `r // 2` after it.
        **kwargs: further arguments of `MultiHeadAttention`.

    Call arguments:
        query: float tensor `(batch, length, hidden_dim)`.
        attention_mask: boolean tensor `(batch, 1, length)`, false at padding. Defaults to `mask`.
        training: whether to apply dropout.
        mask: boolean tensor `(batch, length)`, the mask that Keras keeps with `query`.

    Returns:
        Float tensor `(batch, length, hidden_dim)`.

    Raises:
        UserError: as `MultiHeadAttention`; or if `attention_window` is not positive and odd, or
            `attention_mask` has another shape.
    """

    def __init__(self, *args: Any, attention_window: int, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if type(attention_window) is not int or attention_window < 1 or attention_window % 2 == 0:
            raise UserError(
                "`attention_window` must be a positive odd integer: the same number of positions "
                "before and after, and the position itself. Received: "
                f"attention_window={attention_window!r}"
            )
        self.attention_window = attention_window

    def build(self, query_shape: Shape) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().build(query_shape)

    def call(  # pyright: ignore[reportIncompatibleMethodOverride] no other keys and values
        self,
        query: Tensor,
        attention_mask: Tensor = None,
        training: bool | None = None,
        mask: Tensor = None,
    ) -> Tensor:
        if attention_mask is None and mask is not None:
            attention_mask = mask[:, None, :]
        if attention_mask is not None and attention_mask.shape[-2] != 1:
            raise UserError(
                "With `attention_window`, `attention_mask` must have the shape (batch, 1, source). "
                f"Received: attention_mask of shape {tuple(attention_mask.shape)}"
            )
        reach, block = _sizes(self.attention_window)
        key, value = self.project(query)
        length = ops.shape(query)[1]
        queries = _blocks(self._scaled_query(query), block)
        is_legal = _is_legal(length, ops.shape(queries)[2], block, reach)
        if attention_mask is not None:
            # The mask is cut like the keys, as a sequence of vectors of size 1.
            columns = ops.transpose(attention_mask, (0, 2, 1))[:, None]
            columns = ops.transpose(_neighborhoods(columns, block, reach), (0, 1, 2, 4, 3))
            is_legal = ops.logical_and(is_legal, columns)
        keys = _neighborhoods(ops.transpose(key, (0, 1, 3, 2)), block, reach)
        scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 2, 4, 3)))
        weights = masked_softmax(scores, is_legal)
        record_weights(self, lambda: _over_all_positions(weights, length, self.attention_window))
        weights = self.dropout_layer(weights, training=training)
        heads = ops.matmul(weights, _neighborhoods(value, block, reach))
        return self.output_dense(self._merge_heads(_in_a_row(heads, length)))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention_window": self.attention_window}


def _over_all_positions(weights: Tensor, length: int | Tensor, window: int) -> Tensor:
    """Expand the weights of a `RestrictedSelfAttention` to all positions.

    Args:
        weights: float tensor `(batch, num_heads, blocks, block, reach + block + reach)`.
        length: the length of the sequence.
        window: r.

    Returns:
        Float tensor `(batch, num_heads, length, length)`: zeros outside the window.
    """
    reach, block = _sizes(window)
    batch, num_heads, _, _, size = ops.shape(weights)
    rows = _in_a_row(weights, length)
    positions = ops.arange(length, dtype="int32")
    # The place of each key among the keys that its query's block attends to.
    columns = positions - (positions // block * block)[:, None] + reach
    is_there = (columns >= 0) & (columns < size)
    columns = ops.broadcast_to(ops.clip(columns, 0, size - 1), (batch, num_heads, length, length))
    return ops.where(is_there, ops.take_along_axis(rows, columns, axis=-1), 0.0)


def _sizes(window: int) -> tuple[int, int]:
    """Return the number of visible positions on either side, and the length of a block."""
    reach = window // 2
    return reach, max(reach, _SMALLEST_BLOCK)


def _blocks(x: Tensor, block: int) -> Tensor:
    """Pad and cut to `(batch, num_heads, blocks, block, size)`."""
    batch, num_heads, length, size = ops.shape(x)
    x = ops.concatenate([x, _nothing(x, -length % block)], axis=2)
    # The number of blocks is explicit: -1 would be ambiguous for an empty batch.
    return ops.reshape(x, (batch, num_heads, ops.shape(x)[2] // block, block, size))


def _in_a_row(blocks: Tensor, length: int | Tensor) -> Tensor:
    """Join `(batch, num_heads, blocks, block, size)` to `(batch, num_heads, length, size)`."""
    batch, num_heads, number, block, size = ops.shape(blocks)
    return ops.reshape(blocks, (batch, num_heads, number * block, size))[:, :, :length]


def _neighborhoods(x: Tensor, block: int, reach: int) -> Tensor:
    """Return each block with the `reach` positions before and after it.

    From `(batch, num_heads, length, size)` to `(batch, num_heads, blocks, reach + block + reach,
    size)`.
    """
    x = _blocks(x, block)
    nothing = ops.zeros_like(x[:, :, :1])
    before = ops.concatenate([nothing, x[:, :, :-1]], axis=2)
    after = ops.concatenate([x[:, :, 1:], nothing], axis=2)
    return ops.concatenate([before[:, :, :, block - reach :], x, after[:, :, :, :reach]], axis=3)


def _is_legal(length: int | Tensor, num_blocks: int | Tensor, block: int, reach: int) -> Tensor:
    """Return a mask `(blocks, block, reach + block + reach)`, true where the key is inside the
    window of the query and inside the sequence.
    """
    query = ops.arange(block, dtype="int32")[:, None]
    key = ops.arange(block + 2 * reach, dtype="int32")[None, :] - reach
    is_near = ops.abs(query - key) <= reach
    position = ops.arange(num_blocks, dtype="int32")[:, None, None] * block + key[None]
    return is_near[None] & (position >= 0) & (position < length)


def _nothing(x: Tensor, count: int | Tensor) -> Tensor:
    """Return zeros in the shape of `x`, with `count` positions."""
    batch, num_heads, _, size = ops.shape(x)
    return ops.zeros((batch, num_heads, count, size), x.dtype)
