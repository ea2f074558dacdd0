"""Batches of sentences for a search, in Python and in exported models.

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

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

import numpy as np

# 1, 2, 3, 4, 6, 8, 12, 16, 24, ... up to the largest of int32.
SIZES = np.array(sorted({2**k for k in range(31)} | {3 * 2**k for k in range(29)}), "int32")
# Of a server, whose batches have all numbers of rows: one program per shape would take minutes.
FEW_SIZES = np.array([1, 4, *(2**k for k in range(4, 31))], "int32")  # 1, 4, 16, 32, 64, ...

# Batches of at most `_FEW_ROWS` rows have at least `_SHORTEST` positions.
_SHORTEST, _FEW_ROWS = 16, 8

# Called before each batch: a server lets other requests use the model there.
before_batch: ContextVar[Callable[[], None]] = ContextVar("before_batch", default=lambda: None)


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


def batches_by_length(
    lengths: np.ndarray, batch_tokens: int, sizes: np.ndarray = SIZES
) -> Iterator[np.ndarray]:
    """Group sentences of similar length, the longest first.

    Args:
        lengths: int array `(sentences,)`.
        batch_tokens: as in `rows_of_sizes`.
        sizes: `SIZES` or `FEW_SIZES`.

    Yields:
        Int arrays of sentence numbers.
    """
    order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
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
    sizes: np.ndarray = SIZES,
) -> np.ndarray:
    """Pad lists of ids to an int32 array whose dimensions are both among some sizes.

    Added rows contain only padding, and the search does no work for them.

    Args:
        token_ids: list of lists of ids.
        max_length: the largest length to pad to, or None. No list may be longer.
        batch_tokens: the largest number of slots that a batch of few rows is padded to.
        sizes: `SIZES` or `FEW_SIZES`.

    Returns:
        Int32 array `(rows, length)`.
    """
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
