"""Which sentences share a batch of a search, and how it is padded: in Python and when exported.

The longest sentences come first. A batch begins with the longest that is left, whose length is
rounded up to one of `SIZES`; it takes the next sentences, as many as the largest of `SIZES` that
keeps rows times rounded length within the budget of slots, and one at least. A sentence without
tokens is in no batch.

In Python, lengths and rows are padded to `SIZES` too: a stream of odd lengths then makes few
shapes, and JAX compiles few programs. Where rows are few, as when somebody types, all short lengths
are one: padding costs nothing there, and each program seconds. TensorFlow compiles one program for
all shapes, and an exported search pads to the longest of its batch alone.
"""

import numpy as np

# 1, 2, 3, 4, 6, 8, 12, 16, 24, ... up to the largest of int32.
SIZES = np.array(sorted({2**k for k in range(31)} | {3 * 2**k for k in range(29)}), "int32")

# No less than so many positions are searched where there are no more than so many rows.
_SHORTEST, _FEW_ROWS = 16, 8


def padded_size(size):
    """The smallest of `SIZES` that is not below `size`."""
    return int(SIZES[np.searchsorted(SIZES, size)])


def rows_of_sizes(batch_tokens):
    """How many sentences share a batch, for each of `SIZES` as the rounded length of its longest.

    Args:
        batch_tokens: the largest number of rows times the rounded length in a batch. A sentence
            that is longer has a batch of its own.

    Returns:
        Int32 array, as long as `SIZES`.
    """
    most = np.maximum(batch_tokens // SIZES, 1)
    return SIZES[np.searchsorted(SIZES, most, side="right") - 1]


def batches_by_length(lengths, batch_tokens):
    """Group sentences of about equal length, the longest first.

    Args:
        lengths: int array `(sentences,)`.
        batch_tokens: as in `rows_of_sizes`.

    Yields:
        Int arrays of sentence numbers.
    """
    order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
    rows = rows_of_sizes(batch_tokens)
    start = 0
    while start < len(order):
        end = start + rows[np.searchsorted(SIZES, lengths[order[start]])]
        yield order[start:end]
        start = end


def pad_to_few_shapes(token_ids, max_length=None, batch_tokens=0):
    """Pad lists of ids to an int32 array, both of whose sizes are of `SIZES`.

    Rows added are of padding alone; the search is done with them before it begins.

    Args:
        token_ids: list of lists of ids.
        max_length: the length not to pad beyond, or None. No list is longer.
        batch_tokens: the slots that few rows may be padded to, so that short lengths are one.
    """
    rows, length = padded_size(len(token_ids)), padded_size(max(len(ids) for ids in token_ids))
    if rows <= _FEW_ROWS and rows * _SHORTEST <= batch_tokens:
        length = max(length, _SHORTEST)
    if max_length is not None:
        length = min(length, max_length)
    batch = np.zeros((rows, length), "int32")
    for row, ids in enumerate(token_ids):
        batch[row, : len(ids)] = ids
    return batch
