"""Search for the outputs of a stream of inputs: sorted by length, in batches, in the old order."""

import itertools

import numpy as np
from keras import ops

# Inputs read ahead, sorted by length and searched together.
_WINDOW = 4096

# Seconds before progress is shown.
_PATIENCE = 5


def search_stream(inputs, encode, search, batch_tokens, max_length=None, total=None):
    """Search for outputs, holding only a few thousand inputs at a time.

    Progress is shown on standard error, if that is a terminal, from the fifth second on.

    Args:
        inputs: iterable.
        encode: function of a list of inputs; returns a list of lists of ids.
        search: function of an int array `(batch, source)` and the list of its inputs, which may be
            fewer than the rows: the rest is padding. Returns `(token_ids, scores)` as `beam_search`
            does.
        batch_tokens: the largest number of source slots searched at once.
        max_length: the largest source to pad to, or None.
        total: the number of inputs, if it is known.

    Yields:
        For each input, in order, the pair (input, list of (ids, score)), the best first. The list
        is short where there are fewer outputs.
    """
    from tqdm import tqdm

    inputs = iter(inputs)
    options = {"total": total, "unit": " sentences", "delay": _PATIENCE, "leave": False}
    with tqdm(**options, disable=None) as progress:  # None: unless it is a terminal
        while window := list(itertools.islice(inputs, _WINDOW)):
            results = _search_window(window, encode, search, batch_tokens, max_length, progress)
            yield from zip(window, results)


def _search_window(inputs, encode, search, batch_tokens, max_length, progress):
    token_ids = encode(inputs)
    lengths = np.array([len(ids) for ids in token_ids])
    results = [None] * len(inputs)
    for rows in batches_by_length(lengths, batch_tokens):
        batch = pad_to_few_shapes([token_ids[row] for row in rows], max_length)
        outputs = search(batch, [inputs[row] for row in rows])
        for row, ids, scores in zip(rows, *map(ops.convert_to_numpy, outputs)):
            is_there = scores > -np.inf
            results[row] = list(zip(ids[is_there], scores[is_there].tolist()))
        progress.update(len(rows))
    return results


def batches_by_length(lengths, batch_tokens):
    """Group sentences of about equal length, the longest first.

    Args:
        lengths: int array `(sentences,)`.
        batch_tokens: the largest number of rows times the padded length in a batch. A sentence that
            is longer has a batch of its own.

    Yields:
        Int arrays of sentence numbers.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        rows = _few_sizes_below(max(1, int(batch_tokens // few_sizes(lengths[order[start]]))))
        yield order[start : start + rows]
        start += rows


def pad_to_few_shapes(token_ids, max_length=None):
    """Pad lists of ids to an int32 array whose sizes are such as `few_sizes` gives.

    A stream of odd lengths then makes few shapes, and JAX compiles few programs. Rows added are of
    padding alone; the search is done with them before it begins. The length is not padded beyond
    `max_length`.
    """
    longest = max(len(ids) for ids in token_ids)
    length = few_sizes(longest)
    if max_length is not None:
        length = max(longest, min(length, max_length))
    batch = np.zeros((few_sizes(len(token_ids)), length), "int32")
    for row, ids in enumerate(token_ids):
        batch[row, : len(ids)] = ids
    return batch


def few_sizes(size):
    """The smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ... that is not below `size`."""
    power = 1 << max(int(size) - 1, 0).bit_length()
    return power * 3 // 4 if power >= 4 and size <= power * 3 // 4 else power


def _few_sizes_below(size):
    """The largest of these sizes that is not above `size`."""
    power = 1 << (size.bit_length() - 1)
    middle = power + power // 2
    return middle if middle <= size else power
