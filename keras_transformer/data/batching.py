"""Batches of a token budget, planned so that any batch of any epoch can be made again."""

import itertools
import logging
from dataclasses import dataclass

import keras
import numpy as np

from keras_transformer.data.batch_shapes import assign_shapes, plan_shapes
from keras_transformer.data.tokenizer import END_ID, START_ID
from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)

# Of validation: few batches, and one more shape to compile may take longer than all of them.
_VALIDATION_SHAPES = 3


@dataclass(kw_only=True)
class BatchingOptions:
    """Batches (section 5.1)."""

    batch_tokens: int = 2048
    """Source tokens in a batch at most, and target tokens at most, padding included."""
    num_shapes: int = 12
    """Distinct batch shapes at most: more waste less on padding, and take longer to compile."""


def plan_batches(
    train_store, val_store, options, accumulate=1, seed=0, num_replicas=1, shard=(0, 1)
):
    """Plan the batches of a training and of its validation (section 5.1).

    Args:
        train_store: `TokenStore` of the training text.
        val_store: `TokenStore` of the validation text.
        options: `BatchingOptions`.
        accumulate: how many batches share an update of the optimizer.
        seed: seed of the shuffling.
        num_replicas: how many devices share each batch.
        shard: `(i, n)`: which part of each batch this process reads.

    Returns:
        The tuple `(train_batches, val_batches)` of `TokenBatches`.

    Raises:
        UserError: as `TokenBatches`.
    """
    sharing = {"rows_multiple": num_replicas, "shard": shard}
    train_batches = TokenBatches(
        train_store,
        options.batch_tokens,
        options.num_shapes,
        seed=seed,
        accumulate=accumulate,
        **sharing,
    )
    val_batches = TokenBatches(
        val_store, options.batch_tokens, _VALIDATION_SHAPES, training=False, **sharing
    )
    logger.info(
        "%d training pairs, %d batches an epoch of %d shapes, %.1f%% of the slots are tokens",
        len(train_store),
        len(train_batches),
        len(train_batches.shapes),
        100 * train_batches.real_token_share(),
    )
    return train_batches, val_batches


class TokenBatches(keras.utils.PyDataset):
    """Training or validation batches of about equal numbers of tokens (section 5.1).

    Sentence pairs of about equal length share a batch. All batches together have at most
    `num_shapes` shapes, so that XLA compiles few programs. Every pair is in exactly one batch of an
    epoch; rows left over at the end of a shape are padding with zero weight.

    Nothing but (`seed`, `epoch`) decides what is in which batch, on every backend.

    A batch is a tuple `(inputs, targets, sample_weights)`:
    - `inputs`: `{"encoder_token_ids": (rows, source), "decoder_token_ids": (rows, target)}` int32.
      The source ends with the end token; the decoder's input begins with the start token.
    - `targets`: `(rows, target)` int32, ending with the end token.
    - `sample_weights`: `(rows, target)` float32, 0 at padding. In training they sum to 1 in each
      batch: with a loss of `reduction="sum"` the loss is the token mean over the global batch,
      however many replicas share it. Where `accumulate` batches share an update they are alike for
      all tokens of these batches, and sum to 1 in a batch on average: the mean of the batches'
      losses is the token mean. In validation they are so for the whole epoch: weighted metrics are
      exact means over all tokens.

    Args:
        store: a `TokenStore`.
        batch_tokens: the largest number of source slots in a batch, and of target slots.
        num_shapes: the largest number of distinct batch shapes.
        rows_multiple: number that divides the rows of every batch: how many replicas share it.
        accumulate: how many batches, one after the other, share an update of the optimizer.
        shard: `(i, n)`: of the rows of each batch, give the i-th of n equal parts, counting from 0.
            Each of n processes reads its own part of the same batches; weights are of the whole.
        training: whether to shuffle, differently in each epoch.
        seed: seed of the shuffling.

    Attributes:
        shapes: int array `(shapes, 2)` of (source, target) lengths.
        mean_target_tokens: the mean number of target tokens in a batch, end tokens included.

    Raises:
        UserError: if the store is empty, `batch_tokens` too small for its longest sentence, or
            rows cannot be shared evenly.
    """

    def __init__(
        self,
        store,
        batch_tokens=4096,
        num_shapes=12,
        rows_multiple=1,
        training=True,
        seed=0,
        accumulate=1,
        shard=(0, 1),
    ):
        super().__init__()
        _check(store, batch_tokens, rows_multiple, shard)
        self.store = store
        self.training = training
        self.seed = seed
        self.accumulate = accumulate
        self.shard = shard
        self.epoch = 0
        lengths = _lengths(store)
        self.shapes = plan_shapes(*lengths, num_shapes)
        self._buckets = _buckets(assign_shapes(*lengths, self.shapes), len(self.shapes))
        self._rows = [
            _rows(len(bucket), batch_tokens // shape.max(), rows_multiple)
            for bucket, shape in zip(self._buckets, self.shapes)
        ]
        # (shape, batch within the shape), in the order of an unshuffled epoch.
        self._batches = [
            (shape, index)
            for shape, (bucket, rows) in enumerate(zip(self._buckets, self._rows))
            for index in range(-(-len(bucket) // rows))
        ]
        self.mean_target_tokens = lengths[1].sum(dtype="int64") / len(self._batches)
        self._plans = {}

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        return self.batch(self.epoch, index)

    def on_epoch_end(self):
        self.epoch += 1

    def batch(self, epoch, index):
        """This shard's part of batch number `index` of an epoch."""
        shape, pairs = self.pairs_of_batch(epoch, index)
        source_length, target_length = self.shapes[shape]
        part, parts = self.shard
        num_rows = self._rows[shape] // parts
        pairs = pairs[part * num_rows : (part + 1) * num_rows]
        source = self.store.source.padded(pairs, source_length)
        target = self.store.target.padded(pairs, target_length)
        source_lengths = self.store.source.lengths[pairs]
        target_lengths = self.store.target.lengths[pairs]
        rows = np.arange(len(pairs))
        source[rows, source_lengths] = END_ID
        decoder_inputs = np.concatenate(
            [np.full((len(pairs), 1), START_ID, "int32"), target[:, :-1]], axis=1
        )
        target[rows, target_lengths] = END_ID
        source, decoder_inputs, target = (
            _fill_rows(x, num_rows) for x in (source, decoder_inputs, target)
        )
        weights = (target != 0).astype("float32") / np.float32(self._tokens(epoch, index))
        inputs = {"encoder_token_ids": source, "decoder_token_ids": decoder_inputs}
        return inputs, target, weights

    def pairs_of_batch(self, epoch, index):
        """The index of a batch's shape, and those of its sentence pairs in the store."""
        buckets, order = self._plan(epoch)
        shape, index = self._batches[order[index]]
        rows = self._rows[shape]
        return shape, buckets[shape][index * rows : (index + 1) * rows]

    def _tokens(self, epoch, index):
        """The number of tokens in a batch, or its mean over the batches that are weighted alike."""
        if not self.training:
            return self.mean_target_tokens
        step = epoch * len(self) + index
        first = step - step % self.accumulate
        pairs = [
            self.pairs_of_batch(*divmod(first + i, len(self)))[1] for i in range(self.accumulate)
        ]
        tokens = (self.store.target.lengths[np.concatenate(pairs)] + 1).sum(dtype="int64")
        return tokens / self.accumulate

    def stream(self, start_step=0):
        """All batches of all epochs, without end, as a dataset for `fit(steps_per_epoch=...)`.

        Args:
            start_step: the number of batches to skip.
        """
        stream = _Stream(self, start_step)
        return _tensorflow_dataset(stream) if keras.backend.backend() == "tensorflow" else stream

    def real_token_share(self):
        """The share of an epoch's slots, source and target, that hold tokens."""
        tokens = sum(
            (sequences.lengths + 1).sum(dtype="int64")
            for sequences in (self.store.source, self.store.target)
        )
        slots = sum(self._rows[shape] * self.shapes[shape].sum() for shape, _ in self._batches)
        return float(tokens / slots)

    def _plan(self, epoch):
        """The pairs of each shape, and the order of the batches, in an epoch."""
        plan = self._plans.get(epoch)
        if plan is None:
            buckets, order = self._buckets, np.arange(len(self._batches))
            if self.training:
                rng = np.random.default_rng((self.seed, epoch))
                buckets = [rng.permutation(bucket) for bucket in buckets]
                order = rng.permutation(len(self._batches))
            plan = buckets, self._first_two_first(order)
            # The last one too: batches of two epochs may share an update.
            self._plans = dict([*list(self._plans.items())[-1:], (epoch, plan)])
        return plan

    def _first_two_first(self, order):
        """Begin with a batch of the largest shape, then one that differs from it in both lengths.

        Memory then runs out in the first step or never. And Keras on TensorFlow, which reads off
        the first two batches which axes vary, sees that both lengths do.
        """
        last = len(order) - 1
        shapes = self.shapes[[shape for shape, _ in self._batches]]
        differs = (shapes != shapes[last]).all(axis=1)
        second = int(differs.argmax()) if differs.any() else 0
        rest = order[(order != second) & (order != last)]
        return np.concatenate([[last], [second] if last else [], rest]).astype(int)


def _lengths(store):
    """Of all sources and of all targets, with the end token or the start token."""
    return store.source.lengths + 1, store.target.lengths + 1


def _check(store, batch_tokens, rows_multiple, shard):
    if rows_multiple % shard[1]:
        raise UserError(
            f"{shard[1]} processes share each batch, so `rows_multiple` must be a multiple of "
            f"{shard[1]}. Received: rows_multiple={rows_multiple}"
        )
    if not len(store):
        raise UserError("The corpus has no sentence pairs.")
    longest = max(int(length.max()) for length in _lengths(store))
    if longest * rows_multiple > batch_tokens:
        raise UserError(
            f"The longest sentence has {longest} tokens, and a batch must hold it at least "
            f"{rows_multiple} times. Received: batch_tokens={batch_tokens}. Pass at least "
            f"{longest * rows_multiple}, or leave such long sentences out of the corpus."
        )


class _Stream(keras.utils.PyDataset):
    def __init__(self, batches, start_step):
        super().__init__()
        self.batches = batches
        self.start_step = start_step

    def __getitem__(self, step):
        return self.batches.batch(*divmod(self.start_step + step, len(self.batches)))

    @property
    def num_batches(self):
        return None


def _tensorflow_dataset(stream):
    """The same as a `tf.data.Dataset`, with axes declared free: from a stream that begins in the
    middle of an epoch Keras could conclude, from two batches that share a length, that it is fixed.
    """
    import tensorflow as tf

    def batches():
        return (stream[step] for step in itertools.count())

    ids, weights = tf.TensorSpec((None, None), "int32"), tf.TensorSpec((None, None), "float32")
    inputs = {"encoder_token_ids": ids, "decoder_token_ids": ids}
    return tf.data.Dataset.from_generator(
        batches, output_signature=(inputs, ids, weights)
    ).prefetch(tf.data.AUTOTUNE)


def _buckets(shape_of_pair, num_shapes):
    """For each shape, the indices of its pairs."""
    order = np.argsort(shape_of_pair, kind="stable")
    sizes = np.bincount(shape_of_pair, minlength=num_shapes)
    return np.split(order, np.cumsum(sizes)[:-1])


def _rows(num_pairs, largest, multiple):
    """The rows of a shape's batches: as few batches as `largest` allows, filled evenly.

    Even filling leaves less than one row a batch to padding; full batches and a rest would leave
    half a batch a shape on average.
    """
    largest -= largest % multiple
    num_batches = -(-num_pairs // largest)
    rows = -(-num_pairs // num_batches)
    return -(-rows // multiple) * multiple


def _fill_rows(x, rows):
    return np.pad(x, ((0, rows - len(x)), (0, 0)))
