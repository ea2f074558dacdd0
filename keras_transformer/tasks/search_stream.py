"""Search a stream of inputs in batches of similar length, and keep its order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_transformer.decoding.length_batches import (
    FEW_SIZES,
    SIZES,
    batches_by_length,
    pad_to_few_shapes,
)
from keras_transformer.decoding.search import check_logits
from keras_transformer.models.transformer import Transformer
from keras_transformer.progress import bar


def search_stream(
    windows: Iterable[Sequence[Any]],
    encode: Callable,
    search: Callable,
    batch_tokens: int,
    max_length: int | None = None,
    total: int | None = None,
    model: Transformer | None = None,
    few_shapes: bool = False,
) -> Iterator[list[tuple[Any, Any]]]:
    """Search for outputs, with one window of inputs in memory at a time.

    A terminal shows progress from the fifth second on. Elsewhere it is logged each minute.

    Args:
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
        model: the `Transformer` whose logits are checked if an input has no output, or None.
        few_shapes: whether batches are padded to `FEW_SIZES`.

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
            outputs = _search_window(
                *(inputs, token_ids, search, batch_tokens, max_length, progress, first_number),
                sizes=FEW_SIZES if few_shapes else SIZES,
            )
            without = [ids for ids, found in zip(token_ids, outputs) if found == []]
            if without and model is not None:
                check_logits(model, without[0])
            first_number += len(inputs)
            # The caller may print, or read a line, now.
            progress.clear()
            yield list(zip(inputs, outputs))


def _search_window(
    inputs, token_ids, search, batch_tokens, max_length, progress, first_number, sizes
):
    lengths = np.array([len(ids) for ids in token_ids], int)
    results: list[Any] = [None] * len(inputs)
    progress.update(np.count_nonzero(lengths == 0))
    for rows in batches_by_length(lengths, batch_tokens, sizes):
        batch = pad_to_few_shapes([token_ids[row] for row in rows], max_length, batch_tokens, sizes)
        numbers = first_number + np.resize(rows, len(batch))  # the numbers of padding do not matter
        outputs = search(batch, [inputs[row] for row in rows], numbers)
        for row, ids, scores in zip(rows, *map(ops.convert_to_numpy, outputs)):
            is_output = scores > -np.inf
            results[row] = list(zip(ids[is_output], scores[is_output].tolist()))
        progress.update(len(rows))
    return results
