"""Choose the few (source, target) lengths that batches are padded to."""

import numpy as np

# How far a shape is moved at once while looking for a better place.
_STEPS = np.stack(np.meshgrid(range(-3, 4), range(-3, 4)), axis=-1).reshape(-1, 2)
_DOES_NOT_FIT = 1 << 40
_NUM_SPLIT_CANDIDATES = 4


def plan_shapes(source_lengths, target_lengths, num_shapes):
    """Choose the shapes that waste least on padding.

    A sentence pair goes into the smallest shape that holds it, and costs the sum of that shape's
    lengths. The search begins with one shape that holds all pairs; again and again it splits one of
    the shapes that waste most, then moves all, one at a time, as long as the total cost falls.
    Nothing is random: the result depends on the lengths alone.

    Args:
        source_lengths: int array `(pairs,)`.
        target_lengths: int array `(pairs,)`.
        num_shapes: the largest number of shapes.

    Returns:
        Int array `(shapes, 2)` of (source, target) lengths, by rising sum. The last holds every
        pair, unless the others hold them all.
    """
    # A corpus has millions of pairs, but few distinct pairs of lengths.
    lengths, counts = np.unique(
        np.stack([source_lengths, target_lengths], axis=-1), axis=0, return_counts=True
    )
    shapes = lengths.max(axis=0, keepdims=True)
    while len(shapes) < min(num_shapes, len(lengths)):
        candidates = [
            _descend(lengths, counts, np.concatenate([middle[None], shapes]))
            for middle in _split_points(lengths, counts, shapes)
        ]
        shapes = min(candidates, key=lambda candidate: _total(lengths, counts, candidate))
    used = np.unique(_costs(lengths, shapes).argmin(axis=1))
    return shapes[used[np.argsort(shapes[used].sum(axis=1), kind="stable")]]


def assign_shapes(source_lengths, target_lengths, shapes):
    """The index of the smallest of `shapes` that holds each pair: int array `(pairs,)`."""
    lengths = np.stack([source_lengths, target_lengths], axis=-1)
    distinct, inverse = np.unique(lengths, axis=0, return_inverse=True)
    return _costs(distinct, shapes).argmin(axis=1)[inverse.reshape(-1)]


def merge_shapes(shapes, counts):
    """Leave out one shape after the other, each time the one whose pairs cost least elsewhere.

    The pairs of a shape that is left out go into the smallest of the others that holds it.

    Args:
        shapes: int array `(shapes, 2)`, by rising sum.
        counts: int array `(shapes,)`: the pairs of each shape.

    Returns:
        Int array `(numbers, shapes)`: the shape that the pairs of each shape go into. The last row
        has all shapes, each row above it one less, the first those that no other holds.
    """
    sums = shapes.sum(axis=1)
    holds = (shapes[:, None] <= shapes[None]).all(axis=-1) & ~np.eye(len(shapes), dtype=bool)
    merged = [np.arange(len(shapes))]
    while holds.any():
        holder = holds.argmax(axis=1)
        pairs = np.bincount(merged[0], weights=counts, minlength=len(shapes))
        costs = np.where(holds.any(axis=1), pairs * (sums[holder] - sums), np.inf)
        left_out = costs.argmin()
        merged.insert(0, np.where(merged[0] == left_out, holder[left_out], merged[0]))
        holds[left_out], holds[:, left_out] = False, False
    return np.stack(merged)


def _costs(lengths, shapes):
    # (lengths, shapes): the slots a pair takes in a shape.
    fits = (lengths[:, None] <= shapes[None]).all(axis=-1)
    return np.where(fits, shapes.sum(axis=-1), _DOES_NOT_FIT)


def _total(lengths, counts, shapes):
    return (_costs(lengths, shapes).min(axis=1) * counts).sum()


def _split_points(lengths, counts, shapes):
    """The middles of the pairs in the shapes that waste most."""
    costs = _costs(lengths, shapes)
    owners = costs.argmin(axis=1)
    waste = (costs.min(axis=1) - lengths.sum(axis=1)) * counts
    waste_of_shape = np.bincount(owners, weights=waste, minlength=len(shapes))
    for shape in np.argsort(-waste_of_shape, kind="stable")[:_NUM_SPLIT_CANDIDATES]:
        inside = owners == shape
        if inside.any():
            pairs = np.repeat(lengths[inside], counts[inside], axis=0)
            yield np.median(pairs, axis=0).astype(int)


def _descend(lengths, counts, shapes):
    """Move all shapes but the last, which must hold all pairs, to where the cost is least."""
    shapes = shapes.copy()
    best = _total(lengths, counts, shapes)
    while True:
        for k in range(len(shapes) - 1):
            costs_of_others = _costs(lengths, np.delete(shapes, k, axis=0)).min(axis=1)
            moved = np.maximum(shapes[k] + _STEPS, 1)
            costs = np.minimum(_costs(lengths, moved), costs_of_others[:, None])
            shapes[k] = moved[(costs * counts[:, None]).sum(axis=0).argmin()]
        total = _total(lengths, counts, shapes)
        if total >= best:
            return shapes
        best = total
