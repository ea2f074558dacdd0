"""The largest numbers of each row, the same on every backend."""

import keras
from keras import ops


def top_k(x, k):
    """The `k` largest numbers along the last axis, the largest first; of equal ones the first.

    One pass over `x` finds the maximum of each block of numbers; the `k` largest are then all in
    the `k` blocks with the largest maxima.

    Args:
        x: float tensor `(rows, size)`, with a known size of at least `k`.
        k: how many.

    Returns:
        The pair of the numbers and their int32 indices, `(rows, k)` each.
    """
    block = _block_size(x.shape[-1], k)
    if block is None:
        return _sorted_top_k(x, k)
    blocks = ops.reshape(x, (-1, x.shape[-1] // block, block))
    _, best = _sorted_top_k(ops.max(blocks, axis=-1), k)
    best = ops.sort(best, axis=-1)  # so that equal numbers keep their order
    values, inner = _sorted_top_k(ops.reshape(gather_rows(blocks, best), (-1, k * block)), k)
    indices = ops.take_along_axis(best, inner // block, axis=-1) * block + inner % block
    return values, indices


def gather_rows(x, indices):
    """`x[b, indices[b, i]]` for all b and i: `(batch, rows, ...)` to `(batch, n, ...)`."""
    batch, rows, *shape = ops.shape(x)
    first = ops.expand_dims(ops.arange(batch, dtype="int32") * rows, 1)
    return ops.take(ops.reshape(x, (batch * rows, *shape)), first + indices, axis=0)


def _block_size(size, k):
    """The divisor of `size` nearest to where blocks and candidates, size / b + k b, are fewest.

    None where blocks save little.
    """
    cost = {b: size // b + k * b for b in range(2, size // k) if size % b == 0}
    best = min(cost, key=cost.get, default=None)
    return best if best is not None and cost[best] < size / 2 else None


def _sorted_top_k(x, k):
    if keras.backend.backend() == "torch":
        # torch.topk takes any of equal numbers.
        indices = ops.cast(ops.argsort(-x, axis=-1)[:, :k], "int32")
        return ops.take_along_axis(x, indices, axis=-1), indices
    values, indices = ops.top_k(x, k)
    return values, ops.cast(indices, "int32")
