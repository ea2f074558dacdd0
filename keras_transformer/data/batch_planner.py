"""Plans of epochs: the batch shapes, and the sentence pairs of each batch."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keras_transformer.data.text_cache import cache_key, cached
from keras_transformer.validation import check_optional, positive_integer

# The moves of a shape to try when searching for a better one.
_STEPS = np.stack(np.meshgrid(range(-3, 4), range(-3, 4)), axis=-1).reshape(-1, 2)
_DOES_NOT_FIT = 1 << 40
_NUM_SPLIT_CANDIDATES = 4


@dataclass(kw_only=True)
class BatchingOptions:
    """Options for batches (section 5.1)."""

    batch_tokens: int = 2048
    """The largest number of source tokens in a batch, and of target tokens, including padding."""
    num_shapes: int = 12
    """The largest number of batch shapes. With more shapes, batches have less padding but compiling
    takes longer. On JAX the first epochs use few shapes; more are added when they pay off."""

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if a number is out of its range.
        """
        check_optional(positive_integer, self, "batch_tokens", "num_shapes")


def plan_shapes(
    source_lengths: np.ndarray, target_lengths: np.ndarray, num_shapes: int
) -> np.ndarray:
    """Choose the (source, target) lengths that waste the least padding.

    A sentence pair is assigned to the smallest shape that fits it, at the cost of the sum of that
    shape's lengths. The search starts with one shape that fits all pairs. It repeatedly splits one
    of the shapes that waste the most, then moves all shapes, one at a time, until the total cost no
    longer falls. The result is deterministic and depends only on the lengths.

    Args:
        source_lengths: int array `(pairs,)`.
        target_lengths: int array `(pairs,)`.
        num_shapes: the largest number of shapes.

    Returns:
        Int array `(shapes, 2)` of (source, target) lengths, by increasing sum. The last shape fits
        every pair, unless the others fit all of them.
    """
    lengths, _, counts = _distinct(source_lengths, target_lengths)
    shapes = lengths.max(axis=0, keepdims=True)
    while len(shapes) < min(num_shapes, len(lengths)):
        candidates = [
            _descend(lengths, counts, np.concatenate([middle[None], shapes]))
            for middle in _split_points(lengths, counts, shapes)
        ]
        shapes = min(candidates, key=lambda candidate: _total(lengths, counts, candidate))
    used = np.unique(_costs(lengths, shapes).argmin(axis=1))
    return shapes[used[np.argsort(shapes[used].sum(axis=1), kind="stable")]]


def _distinct(sources: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the distinct pairs of lengths, the index of each pair among them, and their counts.

    A corpus has millions of pairs, but few distinct pairs of lengths. To sort numbers that stand
    for pairs is six times as fast as `np.unique` with an axis.
    """
    numbers = (sources.astype("int64") << 32) + targets
    distinct, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return np.stack(np.divmod(distinct, 1 << 32), axis=-1), inverse, counts


def assign_shapes(
    source_lengths: np.ndarray, target_lengths: np.ndarray, shapes: np.ndarray
) -> np.ndarray:
    """Return the index of the smallest shape that fits each pair: int array `(pairs,)`."""
    distinct, inverse, _ = _distinct(source_lengths, target_lengths)
    return _costs(distinct, shapes).argmin(axis=1)[inverse]


def merge_shapes(shapes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Remove one shape after another, each time the one whose pairs cost least elsewhere.

    The pairs of a removed shape are assigned to the smallest remaining shape that fits it.

    Args:
        shapes: int array `(shapes, 2)`, by increasing sum.
        counts: int array `(shapes,)`: the number of pairs per shape.

    Returns:
        Int array `(numbers, shapes)`: the shape to which the pairs of each shape are assigned. The
        last row has all shapes. Each row above it has one shape less; the first row has the shapes
        that fit into no other.
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


def _costs(lengths: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    # The number of slots of each length in each shape: int array `(lengths, shapes)`. To compare
    # sources and targets apart is four times as fast as `all` over an axis of two.
    (sources, targets), (most_sources, most_targets) = lengths.T, shapes.T
    fits = (sources[:, None] <= most_sources) & (targets[:, None] <= most_targets)
    return np.where(fits, shapes.sum(axis=-1), _DOES_NOT_FIT)


def _total(lengths: np.ndarray, counts: np.ndarray, shapes: np.ndarray) -> int:
    return (_costs(lengths, shapes).min(axis=1) * counts).sum()


def _split_points(
    lengths: np.ndarray, counts: np.ndarray, shapes: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the medians of the pairs in the shapes that waste the most."""
    costs = _costs(lengths, shapes)
    owners = costs.argmin(axis=1)
    waste = (costs.min(axis=1) - lengths.sum(axis=1)) * counts
    waste_of_shape = np.bincount(owners, weights=waste, minlength=len(shapes))
    for shape in np.argsort(-waste_of_shape, kind="stable")[:_NUM_SPLIT_CANDIDATES]:
        inside = owners == shape
        if inside.any():
            pairs = np.repeat(lengths[inside], counts[inside], axis=0)
            yield np.median(pairs, axis=0).astype(int)


def _descend(lengths: np.ndarray, counts: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """Move all shapes but the last, which must fit all pairs, to reduce the cost."""
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


class EpochPlans:
    """The plans of all epochs. They depend only on the arguments and the epoch's number.

    A program is compiled for each batch shape at its first use. More shapes waste less padding, but
    many batches could be trained while a program is compiled. So the first epochs use few shapes,
    and more are added when they pay off: an epoch uses the number of shapes that would be best if
    the number of epochs after it were equal to the number before it.

    Args:
        source_lengths: int array `(pairs,)`.
        target_lengths: int array `(pairs,)`.
        batch_tokens: the largest number of source slots in a batch, and of target slots.
        num_shapes: the largest number of shapes.
        rows_multiple: divisor of the rows of every batch.
        seed: seed of the shuffling. Without one, all epochs are the same and are not shuffled.
        compile_batches: the number of batches that train in the time it takes to compile a program.
            With 0, all epochs use all shapes.
        parts: list of tuples of two integers: the number of pairs in each part of the corpus, in
            order, and the number of them in an epoch. Small parts are repeated; large parts are
            sampled again in each epoch. By default all pairs form one part, and each epoch contains
            all of them.

    Attributes:
        shapes: int array `(shapes, 2)` of (source, target) lengths.
        rows: int array `(shapes,)`: the rows of each shape's batches, the same in all epochs.
        num_batches_at_last: the number of batches in an epoch with all shapes.
        counts: float array `(pairs,)`: the mean number of occurrences of each pair in an epoch.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        batch_tokens: int,
        num_shapes: int,
        rows_multiple: int = 1,
        seed: int | None = None,
        compile_batches: int = 0,
        parts: Sequence[Sequence[int]] | None = None,
    ):
        lengths = source_lengths, target_lengths
        self.seed = seed
        key = cache_key("shapes", num_shapes, hashlib.sha256(np.stack(lengths).data).hexdigest())
        self.shapes = np.array(cached(key, lambda: plan_shapes(*lengths, num_shapes).tolist()))
        num_pairs = len(source_lengths)
        self._pools = _pools(
            assign_shapes(*lengths, self.shapes),
            len(self.shapes),
            parts or [(num_pairs, num_pairs)],
        )
        self.counts = self._count(num_pairs)
        sizes = np.array([sum(pool.size for pool in pools) for pools in self._pools])
        # Each row uses one more of the shapes; the last row uses all.
        self._merged = merge_shapes(self.shapes, sizes)
        sizes = np.stack([np.bincount(row, sizes, len(row)) for row in self._merged]).astype(int)
        self._slots = sizes @ self.shapes.sum(axis=1)
        self._program_slots = compile_batches * 2 * batch_tokens
        used = sizes[self._stage(0) :]
        self.rows = np.array(
            [
                _rows(used[:, k], batch_tokens // shape.max(), rows_multiple)
                for k, shape in enumerate(self.shapes)
            ]
        )
        self._num_batches = -(-sizes // self.rows)
        self.num_batches_at_last = int(self._num_batches[-1].sum())
        # One thread makes batches while another may request the pairs of a batch. So these two
        # attributes are replaced and never modified.
        self._first_steps = np.zeros(1, int)
        self._plans = {}

    def num_shapes(self, epoch: int) -> int:
        """Return the number of shapes in an epoch."""
        return int((self._num_batches[self._stage(epoch)] > 0).sum())

    def num_batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch."""
        return int(self._num_batches[self._stage(epoch)].sum())

    def num_slots(self, epoch: int) -> int:
        """Return the number of slots, source and target, in the batches of an epoch."""
        slots = self.rows * self.shapes.sum(axis=1)
        return int(self._num_batches[self._stage(epoch)] @ slots)

    def first_step(self, epoch: int) -> int:
        """Return the number of batches before an epoch."""
        steps = self._first_steps
        if epoch >= len(steps):
            steps = self._first_steps = self._count_steps(2 * epoch)
        return int(steps[epoch])

    def position(self, step: int) -> tuple[int, int]:
        """Return the epoch of a batch counted from the beginning, and its index in the epoch."""
        steps = self._first_steps
        while step >= steps[-1]:
            steps = self._first_steps = self._count_steps(2 * len(steps))
        epoch = int(np.searchsorted(steps, step, side="right")) - 1
        return epoch, step - int(steps[epoch])

    def pairs(self, epoch: int, index: int) -> tuple[int, np.ndarray]:
        """Return the index of a batch's shape, and the indices of its sentence pairs."""
        buckets, batches = self._plan(epoch)
        shape, index = batches[index]
        rows = self.rows[shape]
        return shape, buckets[shape][index * rows : (index + 1) * rows]

    def _count_steps(self, epochs: int) -> np.ndarray:
        """Return the number of batches before each epoch, and after the last."""
        return np.cumsum([0, *(self.num_batches(epoch) for epoch in range(epochs))])

    def _stage(self, epoch: int) -> int:
        """Return the row of `_merged` for an epoch."""
        epochs = 2 * epoch + 1
        num_programs = np.arange(len(self._slots))
        return int((epochs * self._slots + self._program_slots * num_programs).argmin())

    def _plan(self, epoch: int) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
        """Return the pairs per shape, and (shape, batch within the shape) of each batch."""
        plan = self._plans.get(epoch)
        if plan is None:
            stage = self._stage(epoch)
            buckets = _join(self._drawn(epoch), self._merged[stage])
            counts = self._num_batches[stage]
            batches = [(shape, i) for shape, count in enumerate(counts) for i in range(count)]
            order = np.arange(len(batches))
            if self.seed is not None:
                rng = np.random.default_rng((self.seed, epoch))
                buckets = [rng.permutation(bucket) for bucket in buckets]
                order = rng.permutation(len(batches))
            order = self._first_two_first(order, [shape for shape, _ in batches])
            plan = buckets, [batches[i] for i in order]
            # Keep the previous plan too: batches of two epochs may share an update.
            self._plans = dict([*list(self._plans.items())[-1:], (epoch, plan)])
        return plan

    def _drawn(self, epoch: int) -> list[np.ndarray]:
        """Return the pairs of an epoch, by shape."""
        drawn = ([pool.drawn(self.seed, epoch) for pool in pools] for pools in self._pools)
        return [np.concatenate([np.zeros(0, int), *parts]) for parts in drawn]

    def _count(self, num_pairs: int) -> np.ndarray:
        if self.seed is None:  # all epochs are the same
            return np.bincount(np.concatenate(self._drawn(0)), minlength=num_pairs).astype(float)
        counts = np.zeros(num_pairs)
        for pools in self._pools:
            for pool in pools:
                counts[pool.pairs] = pool.size / len(pool.pairs)
        return counts

    def _first_two_first(self, order: np.ndarray, shape_of_batch: list[int]) -> np.ndarray:
        """Put a batch of the largest shape first, then one that differs in both lengths.

        If memory runs out, it does so in the first step. And Keras on TensorFlow, which infers the
        variable axes from the first two batches, sees that both lengths vary.
        """
        last = len(order) - 1
        shapes = self.shapes[shape_of_batch]
        differs = (shapes != shapes[last]).all(axis=1)
        second = int(differs.argmax()) if differs.any() else 0
        rest = order[(order != second) & (order != last)]
        return np.concatenate([[last], [second] if last else [], rest]).astype(int)


class _Pool(NamedTuple):
    """The pairs of one part of the corpus with one shape, from which an epoch takes a fixed number.

    Because the number is fixed, all epochs have the same batches: sampling is stratified by shape.
    """

    pairs: np.ndarray
    copies: int  # copies of all pairs in each epoch
    rest: int  # the number of further pairs, less than all

    @property
    def size(self) -> int:
        return self.copies * len(self.pairs) + self.rest

    def drawn(self, seed: int | None, epoch: int) -> np.ndarray:
        """Return the pairs of an epoch. All pairs are sampled once before any is sampled twice."""
        copies = np.tile(self.pairs, self.copies)
        if not self.rest:
            return copies
        if seed is None:
            seed = epoch = 0
        order = np.random.default_rng((seed, 0, 1 + int(self.pairs[0]))).permutation(self.pairs)
        first = epoch * self.rest % len(order)
        rest = order.take(range(first, first + self.rest), mode="wrap")
        return np.concatenate([copies, rest])


def _pools(
    shape_of_pair: np.ndarray, num_shapes: int, parts: Sequence[Sequence[int]]
) -> list[list["_Pool"]]:
    """Return, per shape, the `_Pool` of each part that has pairs of this shape."""
    pools, start = [[] for _ in range(num_shapes)], 0
    for length, count in parts:
        copies, rest = divmod(count, length) if length else (0, 0)
        buckets = _buckets(shape_of_pair[start : start + length], num_shapes)
        shares = _shares(np.array([len(bucket) for bucket in buckets]), rest)
        for of_shape, bucket, share in zip(pools, buckets, shares):
            if len(bucket):
                of_shape.append(_Pool(start + bucket, copies, int(share)))
        start += length
    return pools


def _shares(sizes: np.ndarray, count: int) -> np.ndarray:
    """Divide a sample among shapes in proportion to their numbers of pairs.

    If the sample is large enough, each shape gets at least one pair, so that all pairs are sampled
    at some time.

    Args:
        sizes: int array: the number of pairs per shape.
        count: the size of the sample, less than the number of pairs.
    """
    least = np.minimum(sizes, 1)
    least = least if least.sum() <= count else np.zeros_like(sizes)
    left = np.cumsum(sizes - least)
    return least + np.diff(left * (count - least.sum()) // max(left[-1], 1), prepend=0)


def _buckets(shape_of_pair: np.ndarray, num_shapes: int) -> list[np.ndarray]:
    """Return the indices of the pairs of each shape."""
    order = np.argsort(shape_of_pair, kind="stable")
    sizes = np.bincount(shape_of_pair, minlength=num_shapes)
    return np.split(order, np.cumsum(sizes)[:-1])


def _join(buckets: list[np.ndarray], merged: np.ndarray) -> list[np.ndarray]:
    """Return, per shape, the pairs of all shapes that are merged into it."""
    nothing = buckets[0][:0]
    return [
        np.concatenate([nothing, *(bucket for bucket, into in zip(buckets, merged) if into == k)])
        for k in range(len(buckets))
    ]


def _rows(sizes: np.ndarray, largest: int, multiple: int) -> int:
    """Choose the rows of a shape's batches: as few batches as `largest` allows, evenly filled.

    Even filling leaves less than one row per batch to padding. Full batches and a remainder would
    leave half a batch per shape on average.

    Args:
        sizes: int array: the number of the shape's pairs in each plan that may use it.
        largest: the largest number of rows.
        multiple: divisor of the rows.
    """
    needed = -(-max(int(sizes.max()), 1) // multiple) * multiple
    rows = np.arange(multiple, min(largest, needed) + 1, multiple)
    return int(rows[(-(-sizes[:, None] // rows)).sum(axis=0).argmin()])
