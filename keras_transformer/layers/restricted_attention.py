from collections.abc import Callable

from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.layers.tensor_ops import masked_softmax

# Smaller blocks would not be faster: each matrix product has a fixed cost.
_SMALLEST_BLOCK = 16


def restricted_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: int,
    padding_mask: Tensor = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Compute the attention of each position to the `window` positions around it (section 4).

    The sequence is cut into blocks of at least half a window. A block of queries attends to its own
    keys and to half a window of keys on either side. So time and memory grow as O(r n d) (Table 1),
    and the scores of positions farther apart are never computed.

    Args:
        query: float tensor `(batch, num_heads, length, key_dim)`, already scaled.
        key: float tensor `(batch, num_heads, length, key_dim)`.
        value: float tensor `(batch, num_heads, length, value_dim)`.
        window: r, an odd number: a position attends to the `r // 2` before it, to itself, and to
            the `r // 2` after it.
        padding_mask: boolean tensor `(batch, 1, length)`, false at padding.
        dropout: function that is applied to the attention weights.

    Returns:
        Float tensor `(batch, num_heads, length, value_dim)`.
    """
    reach, block = _sizes(window)
    length = ops.shape(query)[2]
    query = _blocks(query, block)
    is_legal = _is_legal(length, ops.shape(query)[2], block, reach)
    if padding_mask is not None:
        # The mask is cut like the keys, as a sequence of vectors of size 1.
        columns = _neighborhoods(ops.transpose(padding_mask, (0, 2, 1))[:, None], block, reach)
        is_legal = ops.logical_and(is_legal, ops.transpose(columns, (0, 1, 2, 4, 3)))
    keys = ops.transpose(_neighborhoods(key, block, reach), (0, 1, 2, 4, 3))
    weights = masked_softmax(ops.matmul(query, keys), is_legal)
    if dropout is not None:
        weights = dropout(weights)
    heads = ops.matmul(weights, _neighborhoods(value, block, reach))
    return _in_a_row(heads, length)


def over_all_positions(weights: Tensor, length: int | Tensor, window: int) -> Tensor:
    """Expand the weights of `restricted_attention` to all positions.

    Args:
        weights: float tensor `(batch, num_heads, blocks, block, reach + block + reach)`, the
            argument of `dropout`.
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


def _sizes(window):
    """Return the number of visible positions on either side, and the length of a block."""
    reach = window // 2
    return reach, max(reach, _SMALLEST_BLOCK)


def _blocks(x, block):
    """Pad and cut to `(batch, num_heads, blocks, block, size)`."""
    batch, num_heads, length, size = ops.shape(x)
    x = ops.concatenate([x, _nothing(x, -length % block)], axis=2)
    # The number of blocks is explicit: -1 would be ambiguous for an empty batch.
    return ops.reshape(x, (batch, num_heads, ops.shape(x)[2] // block, block, size))


def _in_a_row(blocks, length):
    """Join `(batch, num_heads, blocks, block, size)` to `(batch, num_heads, length, size)`."""
    batch, num_heads, number, block, size = ops.shape(blocks)
    return ops.reshape(blocks, (batch, num_heads, number * block, size))[:, :, :length]


def _neighborhoods(x, block, reach):
    """Return each block with the `reach` positions before and after it.

    From `(batch, num_heads, length, size)` to `(batch, num_heads, blocks, reach + block + reach,
    size)`.
    """
    x = _blocks(x, block)
    nothing = ops.zeros_like(x[:, :, :1])
    before = ops.concatenate([nothing, x[:, :, :-1]], axis=2)
    after = ops.concatenate([x[:, :, 1:], nothing], axis=2)
    return ops.concatenate([before[:, :, :, block - reach :], x, after[:, :, :, :reach]], axis=3)


def _is_legal(length, num_blocks, block, reach):
    """Return a mask `(blocks, block, reach + block + reach)`, true where the key is inside the
    window of the query and inside the sequence.
    """
    query = ops.arange(block, dtype="int32")[:, None]
    key = ops.arange(block + 2 * reach, dtype="int32")[None, :] - reach
    is_near = ops.abs(query - key) <= reach
    position = ops.arange(num_blocks, dtype="int32")[:, None, None] * block + key[None]
    return is_near[None] & (position >= 0) & (position < length)


def _nothing(x, count):
    """Return zeros in the shape of `x`, with `count` positions."""
    batch, num_heads, _, size = ops.shape(x)
    return ops.zeros((batch, num_heads, count, size), x.dtype)
