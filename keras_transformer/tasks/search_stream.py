"""Search for the outputs of a stream of inputs: sorted by length, in batches, in the old order."""

import numpy as np
from keras import ops

from keras_transformer.decoding.search import check_logits
from keras_transformer.progress import bar
from keras_transformer.tasks.length_batches import batches_by_length, pad_to_few_shapes


def search_stream(
    windows,
    encode,
    search,
    batch_tokens,
    max_length=None,
    total=None,
    model=None,
    first_number=0,
):
    """Search for outputs, holding one window of inputs at a time.

    Progress is shown on a terminal, from the fifth second on, while a window is searched; elsewhere
    it is logged each minute.

    Args:
        windows: iterable of lists of inputs. Those of a list are sorted by length and searched
            together, before the next list is asked for.
        encode: function of a list of inputs; returns a list of lists of ids. An input without ids
            is not searched.
        search: function of an int array `(batch, source)`, the list of its inputs, which may be
            fewer than the rows: the rest is padding, and an int array `(batch,)`: the number of
            each input in the stream. Returns `(token_ids, scores)` as a `Search` does.
        batch_tokens: the largest number of source slots searched at once.
        max_length: the longest source that `encode` gives and to pad to, or None.
        total: the number of inputs, if it is known.
        model: the `Transformer` that is searched, whose logits are checked where an input has no
            output. None: they are not.
        first_number: the number of the first input.

    Yields:
        For each window, a list of pairs (input, list of (ids, score)) in the order of the inputs,
        the best first. The inner list is short where there are fewer outputs; in its place there is
        None for an input that was not searched.

    Raises:
        UserError: if the model's logits are infinite or not a number.
    """
    with bar("searching", "sentences", total) as progress:
        for inputs in windows:
            token_ids = encode(inputs)
            outputs = _search_window(
                inputs, token_ids, search, batch_tokens, max_length, progress, first_number
            )
            without = [ids for ids, found in zip(token_ids, outputs) if found == []]
            if without and model is not None:
                check_logits(model, without[0])
            first_number += len(inputs)
            # What is printed, or typed, now has the line to itself.
            progress.clear()
            yield list(zip(inputs, outputs))


def _search_window(inputs, token_ids, search, batch_tokens, max_length, progress, first_number):
    lengths = np.array([len(ids) for ids in token_ids], int)
    results = [None] * len(inputs)
    progress.update(np.count_nonzero(lengths == 0))
    for rows in batches_by_length(lengths, batch_tokens):
        batch = pad_to_few_shapes([token_ids[row] for row in rows], max_length, batch_tokens)
        numbers = first_number + np.resize(rows, len(batch))  # those of padding do not matter
        outputs = search(batch, [inputs[row] for row in rows], numbers)
        for row, ids, scores in zip(rows, *map(ops.convert_to_numpy, outputs)):
            is_output = scores > -np.inf
            results[row] = list(zip(ids[is_output], scores[is_output].tolist()))
        progress.update(len(rows))
    return results
