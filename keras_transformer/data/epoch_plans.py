"""Which sentence pairs are in which batch of which epoch."""

import numpy as np

from keras_transformer.data.batch_shapes import assign_shapes, merge_shapes, plan_shapes


class EpochPlans:
    """The plans of all epochs: nothing but the arguments, and the epoch's number, decides them.

    A program is compiled for each shape of a batch when it first comes. More shapes waste less on
    padding, but the programs take a time that many batches could be trained in. So the first epochs
    have few of the shapes, and others come when they pay: an epoch has the number of shapes that
    would be best if as many epochs came after it as went before.

    Args:
        source_lengths: int array `(pairs,)`.
        target_lengths: int array `(pairs,)`.
        batch_tokens: the largest number of source slots in a batch, and of target slots.
        num_shapes: the largest number of shapes.
        rows_multiple: number that divides the rows of every batch.
        seed: seed of the shuffling. None: all epochs are the same, and not shuffled.
        compile_batches: the number of batches that train in the time that a program takes to
            compile. With 0 all epochs have all shapes.

    Attributes:
        shapes: int array `(shapes, 2)` of (source, target) lengths.
        rows: int array `(shapes,)`: the rows of each shape's batches, the same in all epochs.
        num_batches_at_last: the number of batches in an epoch of all shapes.
    """

    def __init__(
        self,
        source_lengths,
        target_lengths,
        batch_tokens,
        num_shapes,
        rows_multiple=1,
        seed=None,
        compile_batches=0,
    ):
        lengths = source_lengths, target_lengths
        self.seed = seed
        self.shapes = plan_shapes(*lengths, num_shapes)
        self._buckets = _buckets(assign_shapes(*lengths, self.shapes), len(self.shapes))
        sizes = np.array([len(bucket) for bucket in self._buckets])
        # Row by row with more of the shapes, up to all of them.
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
        # One thread makes batches while another may ask for the pairs of one: both of these are
        # replaced, never changed.
        self._first_steps = np.zeros(1, int)
        self._plans = {}

    def num_shapes(self, epoch):
        """The number of shapes in an epoch."""
        return int((self._num_batches[self._stage(epoch)] > 0).sum())

    def num_batches(self, epoch):
        """The number of batches in an epoch."""
        return int(self._num_batches[self._stage(epoch)].sum())

    def num_slots(self, epoch):
        """The number of slots, source and target, in the batches of an epoch."""
        slots = self.rows * self.shapes.sum(axis=1)
        return int(self._num_batches[self._stage(epoch)] @ slots)

    def first_step(self, epoch):
        """The number of batches before an epoch."""
        steps = self._first_steps
        if epoch >= len(steps):
            steps = self._first_steps = self._count_steps(2 * epoch)
        return int(steps[epoch])

    def position(self, step):
        """The epoch of a batch that is counted from the beginning, and its index there."""
        steps = self._first_steps
        while step >= steps[-1]:
            steps = self._first_steps = self._count_steps(2 * len(steps))
        epoch = int(np.searchsorted(steps, step, side="right")) - 1
        return epoch, step - int(steps[epoch])

    def pairs(self, epoch, index):
        """The index of a batch's shape, and those of its sentence pairs."""
        buckets, batches = self._plan(epoch)
        shape, index = batches[index]
        rows = self.rows[shape]
        return shape, buckets[shape][index * rows : (index + 1) * rows]

    def _count_steps(self, epochs):
        """The number of batches before each epoch, and after the last."""
        return np.cumsum([0, *(self.num_batches(epoch) for epoch in range(epochs))])

    def _stage(self, epoch):
        """The row of `_merged` that an epoch has."""
        epochs = 2 * epoch + 1
        num_programs = np.arange(len(self._slots))
        return int((epochs * self._slots + self._program_slots * num_programs).argmin())

    def _plan(self, epoch):
        """The pairs of each shape, and (shape, batch within the shape) of each batch."""
        plan = self._plans.get(epoch)
        if plan is None:
            stage = self._stage(epoch)
            buckets = _join(self._buckets, self._merged[stage])
            counts = self._num_batches[stage]
            batches = [(shape, i) for shape, count in enumerate(counts) for i in range(count)]
            order = np.arange(len(batches))
            if self.seed is not None:
                rng = np.random.default_rng((self.seed, epoch))
                buckets = [rng.permutation(bucket) for bucket in buckets]
                order = rng.permutation(len(batches))
            order = self._first_two_first(order, [shape for shape, _ in batches])
            plan = buckets, [batches[i] for i in order]
            # The last one too: batches of two epochs may share an update.
            self._plans = dict([*list(self._plans.items())[-1:], (epoch, plan)])
        return plan

    def _first_two_first(self, order, shape_of_batch):
        """Begin with a batch of the largest shape, then one that differs from it in both lengths.

        Memory then runs out in the first step or never. And Keras on TensorFlow, which reads off
        the first two batches which axes vary, sees that both lengths do.
        """
        last = len(order) - 1
        shapes = self.shapes[shape_of_batch]
        differs = (shapes != shapes[last]).all(axis=1)
        second = int(differs.argmax()) if differs.any() else 0
        rest = order[(order != second) & (order != last)]
        return np.concatenate([[last], [second] if last else [], rest]).astype(int)


def _buckets(shape_of_pair, num_shapes):
    """For each shape, the indices of its pairs."""
    order = np.argsort(shape_of_pair, kind="stable")
    sizes = np.bincount(shape_of_pair, minlength=num_shapes)
    return np.split(order, np.cumsum(sizes)[:-1])


def _join(buckets, merged):
    """For each shape, the pairs of all that are merged into it."""
    nothing = buckets[0][:0]
    return [
        np.concatenate([nothing, *(bucket for bucket, into in zip(buckets, merged) if into == k)])
        for k in range(len(buckets))
    ]


def _rows(sizes, largest, multiple):
    """The rows of a shape's batches: as few batches as `largest` allows, filled evenly.

    Even filling leaves less than one row a batch to padding; full batches and a rest would leave
    half a batch a shape on average.

    Args:
        sizes: int array: the shape's pairs, one number for each plan that may have it.
        largest: the largest number of rows.
        multiple: number that divides the rows.
    """
    needed = -(-int(sizes.max()) // multiple) * multiple
    rows = np.arange(multiple, min(largest, needed) + 1, multiple)
    return rows[(-(-sizes[:, None] // rows)).sum(axis=0).argmin()]
