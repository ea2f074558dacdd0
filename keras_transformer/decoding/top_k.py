"""The largest numbers of each row, the same on every backend."""

import keras
from keras import ops


def top_k(x, k):
    """The `k` largest numbers along the last axis, the largest first; of equal ones the first.

    One pass over `x` finds the maximum of each block of numbers; the `k` largest are then all in
    the `k` blocks with the largest maxima, or among the few numbers after the last whole block.

    Args:
        x: float tensor `(rows, size)`, with a known size of at least `k`.
        k: how many.

    Returns:
        The pair of the numbers and their int32 indices, `(rows, k)` each.
    """
    size = x.shape[-1]
    block = _block_size(size, k)
    if block is None:
        return _sorted_top_k(x, k)
    num_blocks = size // block
    whole = num_blocks * block
    blocks = ops.reshape(x[:, :whole], (-1, num_blocks, block))
    _, best = _sorted_top_k(ops.max(blocks, axis=-1), k)
    best = ops.sort(best, axis=-1)  # so that equal numbers keep their order
    candidates = ops.reshape(gather_rows(blocks, best), (-1, k * block))
    if whole < size:
        candidates = ops.concatenate([candidates, x[:, whole:]], axis=-1)
    values, inner = _sorted_top_k(candidates, k)
    place = ops.minimum(inner // block, k - 1)  # of what is after the blocks, any
    in_block = ops.take_along_axis(best, place, axis=-1) * block + inner % block
    after = inner - k * block + whole
    return values, ops.where(inner < k * block, in_block, after)


def gather_rows(x, indices):
    """`x[b, indices[b, i]]` for all b and i: `(batch, rows, ...)` to `(batch, n, ...)`."""
    batch, rows, *shape = ops.shape(x)
    first = ops.expand_dims(ops.arange(batch, dtype="int32") * rows, 1)
    return ops.take(ops.reshape(x, (batch * rows, *shape)), first + indices, axis=0)


def _block_size(size, k):
    """Where blocks and candidates, size / b + k b, are fewest; None where blocks save little."""
    cost = {b: size // b + k * b + size % b for b in range(2, size // k)}
    best = min(cost, key=cost.get, default=None)
    return best if best is not None and cost[best] < size / 2 else None


def _sorted_top_k(x, k):
    if keras.backend.backend() == "torch":
        # torch.topk takes any of equal numbers.
        indices = ops.cast(ops.argsort(-x, axis=-1)[:, :k], "int32")
        return ops.take_along_axis(x, indices, axis=-1), indices
    values, indices = ops.top_k(x, k)
    return values, ops.cast(indices, "int32")
