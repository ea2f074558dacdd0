"""Batches of a token budget, planned so that any batch of any epoch can be made again."""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import keras
import numpy as np

from keras_transformer.data.batch_planner import BatchingOptions, EpochPlans
from keras_transformer.data.preprocessor import TranslationPreprocessor, as_preprocessor
from keras_transformer.data.text_files import Pair
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID
from keras_transformer.validation import positive_integer

if TYPE_CHECKING:
    from keras_transformer.data.token_store import TokenStore

# Inputs, targets and sample weights: see `TokenBatches`.
Batch: TypeAlias = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]

logger = logging.getLogger(__name__)

# For validation: there are few batches, and compiling one more shape may take longer than all of
# them.
_VALIDATION_SHAPES = 3

# The number of batches that train in the time it takes to compile one more shape: 9 s for `tiny` on
# TensorFlow and 2 CPU cores. It is smaller for larger models, and larger on a GPU.
_COMPILE_BATCHES = 40


def plan_batches(
    train_store: "TokenStore",
    val_store: "TokenStore",
    options: BatchingOptions,
    accumulate: int = 1,
    seed: int = 0,
    num_replicas: int = 1,
    shard: tuple[int, int] = (0, 1),
    few_shapes_first: bool = True,
    source_end: bool = True,
) -> "tuple[TokenBatches, TokenBatches]":
    """Plan the batches of a training and its validation (section 5.1).

    Args:
        train_store: `TokenStore` of the training text.
        val_store: `TokenStore` of the validation text.
        options: `BatchingOptions`.
        accumulate: the number of batches per update of the optimizer.
        seed: seed of the shuffling.
        num_replicas: the number of devices that share each batch.
        shard: `(i, n)`: the part of each batch that this process reads.
        few_shapes_first: whether the first epochs use few shapes, and more are added when they pay
            off.
        source_end: whether sources end with the end token.

    Returns:
        The tuple `(train_batches, val_batches)` of `TokenBatches`.

    Raises:
        UserError: as for `TokenBatches`.
    """
    alike = {"rows_multiple": num_replicas, "shard": shard, "source_end": source_end}
    train_batches = TokenBatches(
        train_store,
        options.batch_tokens,
        options.num_shapes,
        seed=seed,
        accumulate=accumulate,
        compile_batches=_COMPILE_BATCHES if few_shapes_first else 0,
        **alike,
    )
    _log_plan(train_batches)
    val_batches = TokenBatches(
        val_store, options.batch_tokens, _VALIDATION_SHAPES, training=False, **alike
    )
    return train_batches, val_batches


class TokenBatches(keras.utils.PyDataset):
    """Training or validation batches with about equal numbers of tokens (section 5.1).

    A batch contains sentence pairs of about equal length. All batches together have at most
    `num_shapes` shapes, so that XLA compiles few programs. Each pair is in exactly one batch of an
    epoch, unless the store is made from a `Mixture` with ratios: the ratios then define the number
    of pairs of each text in an epoch. Unused rows at the end of a shape are padding with zero
    weight.

    The content of a batch depends only on (`seed`, `epoch`), on every backend.

    A batch is a tuple `(inputs, targets, sample_weights)`:
    - `inputs`: `{"encoder_token_ids": (rows, source), "decoder_token_ids": (rows, target)}` int32.
      The source ends with the end token if `source_end` is true. The decoder's input begins with
      the start token.
    - `targets`: `(rows, target)` int32, ending with the end token.
    - `sample_weights`: `(rows, target)` float32, 0 at padding. In training they sum to 1 in each
      batch: with a loss of `reduction="sum"`, the loss is the token mean over the global batch for
      any number of replicas. If `accumulate` batches share an update, all tokens of these batches
      have the same weight, and the weights sum to 1 per batch on average: the mean of the batches'
      losses is the token mean. In validation, all tokens of the epoch have the same weight, so
      weighted metrics are exact means over all tokens.

    Args:
        store: a `TokenStore`.
        batch_tokens: the largest number of source slots in a batch, and of target slots.
        num_shapes: the largest number of distinct batch shapes.
        rows_multiple: divisor of the rows of every batch: the number of replicas that share it.
        accumulate: the number of consecutive batches per update of the optimizer.
        shard: `(i, n)`: return the i-th of n equal parts of each batch's rows, counting from 0.
            Each of n processes reads its own part of the same batches; weights refer to the whole
            batch.
        training: whether to shuffle, differently in each epoch.
        seed: seed of the shuffling.
        compile_batches: the number of batches that train in the time it takes to compile a program
            for one more shape. If it is positive, the first epochs use few shapes, and more are
            added when they pay off: see `EpochPlans`. Epochs then differ in their number of
            batches; train on `stream`. With 0, all epochs use all shapes.
        source_end: whether sources end with the end token.

    Attributes:
        shapes: int array `(shapes, 2)` of (source, target) lengths.
        plans: the `EpochPlans`.
        lengths: the lengths of all sources and of all targets, including the end token or the start
            token: tuple of two int arrays `(pairs,)`.
        mean_target_tokens: the mean number of target tokens in a batch, end tokens included, in an
            epoch with all shapes.

    Raises:
        UserError: if the store is empty, `batch_tokens` is too small for its longest sentence, or
            rows cannot be shared evenly.
    """

    def __init__(
        self,
        store: "TokenStore",
        batch_tokens: int = 4096,
        num_shapes: int = 12,
        rows_multiple: int = 1,
        training: bool = True,
        seed: int = 0,
        accumulate: int = 1,
        shard: tuple[int, int] = (0, 1),
        compile_batches: int = 0,
        source_end: bool = True,
    ):
        super().__init__()
        positive_integer("batch_tokens", batch_tokens)
        positive_integer("num_shapes", num_shapes)
        self.lengths = store.source.lengths + 1, store.target.lengths + 1
        _validate_sizes(self.lengths, batch_tokens, rows_multiple, shard)
        self.store = store
        self.training = training
        self.seed = seed
        self.accumulate = accumulate
        self.shard = shard
        self.source_end = source_end
        self.epoch = 0
        self.plans = EpochPlans(
            *self.lengths,
            batch_tokens,
            num_shapes,
            rows_multiple,
            seed if training else None,
            compile_batches,
            store.parts,
        )
        self.shapes = self.plans.shapes
        self._epoch_tokens = _sum(self.lengths[1] * self.plans.counts)
        self.mean_target_tokens = self._epoch_tokens / self.plans.num_batches_at_last

    def __len__(self) -> int:
        """Return the number of batches in the current epoch."""
        return self.plans.num_batches(self.epoch)

    def __repr__(self) -> str:
        shapes = f"{len(self.shapes)} shape" + "s" * (len(self.shapes) != 1)
        return f"<TokenBatches: {len(self.store):,} pairs, {len(self):,} batches of {shapes}>"

    def __getitem__(self, index: int) -> Batch:
        """Return batch number `index` of the current epoch."""
        return self.batch(self.epoch, index)

    def on_epoch_end(self) -> None:
        self.epoch += 1

    def batch(self, epoch: int, index: int) -> Batch:
        """Return this shard's part of batch number `index` of an epoch.

        Args:
            epoch: number of the epoch, from 0.
            index: number of the batch in it, from 0.

        Returns:
            The tuple that `fit` takes: inputs, a dict of int32 arrays `(rows, source)` and `(rows,
            target)`; targets, an int32 array `(rows, target)`; weights, a float32 array `(rows,
            target)`.
        """
        shape, pairs = self.pairs_of_batch(epoch, index)
        part, parts = self.shard
        num_rows = self.plans.rows[shape] // parts
        pairs = pairs[part * num_rows : (part + 1) * num_rows]
        source, target = (
            (side.padded(pairs, length), side.lengths[pairs])
            for side, length in zip((self.store.source, self.store.target), self.shapes[shape])
        )
        starts = np.full((len(target[0]), 1), START_ID, "int32")
        decoder_inputs = np.concatenate([starts, target[0][:, :-1]], axis=1)
        encoder_inputs = _with_end(*source) if self.source_end else source[0]
        encoder_inputs, decoder_inputs, targets = (
            _fill_rows(x, num_rows) for x in (encoder_inputs, decoder_inputs, _with_end(*target))
        )
        weights = (targets != 0).astype("float32") / np.float32(self._tokens(epoch, index))
        inputs = {"encoder_token_ids": encoder_inputs, "decoder_token_ids": decoder_inputs}
        return inputs, targets, weights

    def pairs_of_batch(self, epoch: int, index: int) -> tuple[int, np.ndarray]:
        """Return the index of a batch's shape, and the indices of its sentence pairs in the store.

        Args:
            epoch: number of the epoch, from 0.
            index: number of the batch in it, from 0.
        """
        return self.plans.pairs(epoch, index)

    def pairs_of_step(self, step: int) -> np.ndarray:
        """Return the indices of the pairs of a batch, counted from the beginning of the training.

        Args:
            step: number of the batch, from 0.
        """
        return self.pairs_of_batch(*self.plans.position(step))[1]

    def _tokens(self, epoch: int, index: int) -> float:
        """Return the mean number of tokens over the batches whose tokens share one weight."""
        if not self.training:
            return self.mean_target_tokens
        step = self.plans.first_step(epoch) + index
        first = step - step % self.accumulate
        steps = range(first, first + self.accumulate)
        tokens = sum(_sum(self.lengths[1][self.pairs_of_step(step)]) for step in steps)
        return tokens / self.accumulate

    def epochs(self, steps: int) -> float:
        """Return how many epochs the first batches of a training take, as a fraction.

        Args:
            steps: the number of batches.
        """
        epoch, index = self.plans.position(steps)
        return epoch + index / self.plans.num_batches(epoch)

    def target_tokens(self, steps: int) -> float:
        """Return the number of target tokens, end tokens included, in the first batches.

        For an incomplete last epoch, it is the epoch's tokens times the share of its batches.

        Args:
            steps: the number of batches.
        """
        return self.epochs(steps) * self._epoch_tokens

    def batch_of_step(self, step: int) -> Batch:
        """Return this shard's part of a batch, counted from the beginning of the training.

        Args:
            step: number of the batch, from 0.

        Returns:
            The batch, as `batch` returns it.
        """
        return self.batch(*self.plans.position(step))

    def stream(self, start_step: int = 0) -> Any:
        """Return an infinite dataset of the batches of all epochs for `fit(steps_per_epoch=...)`.

        Args:
            start_step: the number of batches to skip.
        """
        return infinite_dataset(lambda step: self.batch_of_step(start_step + step))

    def real_token_share(self) -> float:
        """Return the share of the current epoch's slots, source and target, that contain tokens."""
        tokens = sum(_sum(lengths * self.plans.counts) for lengths in self.lengths)
        return tokens / self.plans.num_slots(self.epoch)


def _log_plan(batches: TokenBatches) -> None:
    logger.info(
        "%d training pairs, %d batches in the first epoch of %d shapes, %.1f%% of the slots are "
        "tokens; later epochs have up to %d shapes",
        _sum(batches.plans.counts),
        len(batches),
        batches.plans.num_shapes(0),
        100 * batches.real_token_share(),
        len(batches.shapes),
    )


def _sum(lengths: np.ndarray) -> int:
    return round(float(lengths.sum(dtype="float64")))


def _validate_sizes(
    lengths: Sequence[np.ndarray], batch_tokens: int, rows_multiple: int, shard: tuple[int, int]
) -> None:
    if rows_multiple % shard[1]:
        raise UserError(
            f"`rows_multiple` must be a multiple of {shard[1]}, the number of processes that share "
            f"each batch. Received: rows_multiple={rows_multiple}"
        )
    if not len(lengths[0]):
        raise UserError("`store` must contain sentence pairs. Received: an empty store")
    longest = max(int(side.max()) for side in lengths)
    if longest * rows_multiple > batch_tokens:
        raise UserError(
            f"`batch_tokens` must be at least {longest * rows_multiple}: a batch must have room "
            f"for {rows_multiple} sentences of {longest} tokens, the length of the longest one. "
            f"Received: batch_tokens={batch_tokens}. Pass more, or remove long sentences."
        )


def _with_end(token_ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    token_ids = token_ids.copy()
    token_ids[np.arange(len(lengths)), lengths] = END_ID
    return token_ids


def _fill_rows(x: np.ndarray, rows: int) -> np.ndarray:
    return np.pad(x, ((0, rows - len(x)), (0, 0)))


def pairs_to_arrays(
    pairs: Iterable[Pair], preprocessor: TranslationPreprocessor | Tokenizer
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Convert sentence pairs to the arrays on which `kt.Transformer.fit` trains.

    ```python
    x, y = kt.data.pairs_to_arrays([("A dog runs.", "Ein Hund rennt.")], tokenizer)
    model.fit(x, y)
    ```

    Args:
        pairs: iterable of pairs of strings, such as a `ParallelText`.
        preprocessor: a `TranslationPreprocessor`, or the `Tokenizer` of both languages.

    Returns:
        The tuple `(inputs, targets)` of int32 arrays, padded with 0 to the longest sentence of each
        side: the inputs `"encoder_token_ids"` and `"decoder_token_ids"`, which is the start token
        and the targets without their last token; and the targets, which end with the end token.

    Raises:
        UserError: if there are no pairs.
    """
    text = as_preprocessor(preprocessor)
    pairs = list(pairs)
    if not pairs:
        raise UserError("`pairs` must contain at least one pair of strings. Received: pairs=[]")
    sources, translations = map(list, zip(*pairs))
    targets = text.encode_targets(translations)
    inputs = {
        "encoder_token_ids": _padded_rows(text.encode_sources(sources)),
        "decoder_token_ids": _padded_rows([[START_ID, *ids[:-1]] for ids in targets]),
    }
    return inputs, _padded_rows(targets)


def _padded_rows(rows: Sequence[Sequence[int]]) -> np.ndarray:
    array = np.full((len(rows), max(map(len, rows))), PAD_ID, "int32")
    for values, row in zip(array, rows):
        values[: len(row)] = row
    return array


def infinite_dataset(make: Callable[[int], Batch]) -> Any:
    """Return an infinite dataset of batches for `fit(steps_per_epoch=...)`.

    Args:
        make: function that takes an index and returns the batch, as `TokenBatches` does.

    Returns:
        A `tf.data.Dataset` on TensorFlow, otherwise a `keras.utils.PyDataset`.
    """
    return _tensorflow_dataset(make) if keras.backend.backend() == "tensorflow" else _Stream(make)


class _Stream(keras.utils.PyDataset):
    def __init__(self, make: Callable[[int], Batch]):
        super().__init__()
        self._make = make

    def __getitem__(self, index: int) -> Batch:
        return self._make(index)

    @property
    def num_batches(self) -> None:
        return None


def _tensorflow_dataset(make: Callable[[int], Batch]) -> Any:
    """Return a dataset whose signature leaves all axes undefined.

    Otherwise Keras infers the shapes from the first two batches: if they have a length in common,
    because the stream starts in the middle of an epoch, Keras would take it for fixed.
    """
    import tensorflow as tf

    def batches() -> Iterator[Batch]:
        return (make(index) for index in itertools.count())

    signature = keras.tree.map_structure(lambda x: tf.TensorSpec((None, None), x.dtype), make(0))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(4)
    # There is nothing to tune here. And `fit`, which leaves this dataset before its end, would have
    # to wait up to a minute for TensorFlow's tuning thread, which sleeps longer each time.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
