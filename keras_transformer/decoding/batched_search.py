"""Search a stream of inputs in batches of similar length, in Python and in exported models.

The longest sentences come first. A batch begins with the longest sentence that is left, and its
length is rounded up to one of `SIZES`. The number of rows is the largest of `SIZES` for which rows
times rounded length stays within the budget of slots, and at least one. Sentences without tokens
are in no batch.

In Python, lengths and numbers of rows are padded to `SIZES` too. A stream of sentences of all
lengths then has few shapes, and JAX compiles few programs. With few rows, as in interactive use,
all short lengths are padded to one: padding costs nothing there, but each program costs seconds.
TensorFlow compiles one program for all shapes, and an exported search pads only to the longest
sentence of a batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding.search import validate_logits
from keras_transformer.progress import bar

# 1, 2, 3, 4, 6, 8, 12, 16, 24, ... up to the largest of int32.
SIZES = np.array(sorted({2**k for k in range(31)} | {3 * 2**k for k in range(29)}), "int32")
# Of a server, whose batches have all numbers of rows: one program per shape would take minutes.
FEW_SIZES = np.array([1, 4, *(2**k for k in range(4, 31))], "int32")  # 1, 4, 16, 32, 64, ...

# Batches of at most `_FEW_ROWS` rows have at least `_SHORTEST` positions.
_SHORTEST, _FEW_ROWS = 16, 8

# Called before each batch: a server lets other requests use the model there.
before_batch: ContextVar[Callable[[], None]] = ContextVar("before_batch", default=lambda: None)
# The sizes that lengths and numbers of rows are padded to: a server chooses `FEW_SIZES` on JAX.
batch_sizes: ContextVar[np.ndarray] = ContextVar("batch_sizes", default=SIZES)


def search_stream(
    model: keras.Model,
    windows: Iterable[Sequence[Any]],
    encode: Callable[[Sequence[Any]], Sequence[Sequence[int]]],
    search: Callable[[np.ndarray, Sequence[Any], np.ndarray], tuple[Any, Any]],
    batch_tokens: int,
    max_length: int | None = None,
    total: int | None = None,
) -> Iterator[list[tuple[Any, Any]]]:
    """Search for outputs, with one window of inputs in memory at a time.

    A terminal shows progress from the fifth second on. Elsewhere it is logged each minute.

    Args:
        model: the `Transformer`, whose logits are checked if an input has no output.
        windows: iterable of lists of inputs. The inputs of a list are sorted by length and searched
            together, before the next list is read.
        encode: function of a list of inputs that returns a list of lists of ids. An input without
            ids is not searched.
        search: function of an int array `(batch, source)`, the list of its inputs, and an int array
            `(batch,)` with the number of each input in the stream. Rows after the inputs are
            padding. Returns `(token_ids, scores)` as a `Search` does.
        batch_tokens: the largest number of source slots searched at once.
        max_length: the largest number of ids that `encode` returns and to pad to, or None.
        total: the number of inputs, if it is known.

    Yields:
        For each window, a list of pairs (input, list of (ids, score)) in the order of the inputs,
        best output first. The inner list is shorter if there are fewer outputs. It is None for an
        input that was not searched.

    Raises:
        UserError: if the model's logits are infinite or not a number.
    """
    first_number = 0
    with bar("searching", "sentences", total) as progress:
        for inputs in windows:
            token_ids = encode(inputs)
            lengths = np.array([len(ids) for ids in token_ids], int)
            results: list[Any] = [None] * len(inputs)
            progress.update(np.count_nonzero(lengths == 0))
            for rows in batches_by_length(lengths, batch_tokens):
                ids = [token_ids[row] for row in rows]
                batch = pad_to_few_shapes(ids, max_length, batch_tokens)
                numbers = first_number + np.resize(rows, len(batch))  # those of padding are unused
                outputs = search(batch, [inputs[row] for row in rows], numbers)
                for row, found in zip(rows, _found_outputs(*outputs)):
                    results[row] = found
                progress.update(len(rows))
            if [] in results:
                validate_logits(model, token_ids[results.index([])])
            first_number += len(inputs)
            # The caller may print, or read a line, now.
            progress.clear()
            yield list(zip(inputs, results))


def _found_outputs(token_ids: Any, scores: Any) -> Iterator[list[tuple[np.ndarray, float]]]:
    """Yield the outputs that a search found for each row, as pairs (ids, score)."""
    for ids, found in zip(ops.convert_to_numpy(token_ids), ops.convert_to_numpy(scores)):
        is_output = found > -np.inf
        yield list(zip(ids[is_output], found[is_output].tolist()))


def padded_size(size: int, sizes: np.ndarray = SIZES) -> int:
    """Return the smallest of some sizes that is at least `size`."""
    return int(sizes[np.searchsorted(sizes, size)])


def rows_of_sizes(batch_tokens: int, sizes: np.ndarray = SIZES) -> np.ndarray:
    """Return the number of rows of a batch for each of some sizes as its rounded length.

    Args:
        batch_tokens: the largest number of rows times the rounded length in a batch. A longer
            sentence has a batch of its own.
        sizes: `SIZES` or `FEW_SIZES`.

    Returns:
        Int32 array, as long as `sizes`.
    """
    most = np.maximum(batch_tokens // sizes, 1)
    return sizes[np.searchsorted(sizes, most, side="right") - 1]


def batches_by_length(lengths: np.ndarray, batch_tokens: int) -> Iterator[np.ndarray]:
    """Group sentences of similar length, the longest first.

    Args:
        lengths: int array `(sentences,)`.
        batch_tokens: as in `rows_of_sizes`.

    Yields:
        Int arrays of sentence numbers.
    """
    order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
    sizes = batch_sizes.get()
    rows = rows_of_sizes(batch_tokens, sizes)
    start = 0
    while start < len(order):
        end = start + rows[np.searchsorted(sizes, lengths[order[start]])]
        before_batch.get()()
        yield order[start:end]
        start = end


def pad_to_few_shapes(
    token_ids: Sequence[Sequence[int]],
    max_length: int | None = None,
    batch_tokens: int = 0,
) -> np.ndarray:
    """Pad lists of ids to an int32 array whose dimensions are both among `batch_sizes`.

    Added rows contain only padding, and the search does no work for them.

    Args:
        token_ids: list of lists of ids.
        max_length: the largest length to pad to, or None. No list may be longer.
        batch_tokens: the largest number of slots that a batch of few rows is padded to.

    Returns:
        Int32 array `(rows, length)`.
    """
    sizes = batch_sizes.get()
    rows = padded_size(len(token_ids), sizes)
    length = padded_size(max(len(ids) for ids in token_ids), sizes)
    if rows <= _FEW_ROWS and rows * _SHORTEST <= batch_tokens:
        length = max(length, _SHORTEST)
    if max_length is not None:
        length = min(length, max_length)
    batch = np.zeros((rows, length), "int32")
    for row, ids in enumerate(token_ids):
        batch[row, : len(ids)] = ids
    return batch
