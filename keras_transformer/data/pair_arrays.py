"""Sentence pairs as arrays for Keras's own `fit`."""

from collections.abc import Iterable

import numpy as np

from keras_transformer.data.preprocessor import TranslationPreprocessor, as_preprocessor
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import PAD_ID, START_ID


def pairs_to_arrays(
    pairs: Iterable[tuple[str, str]], preprocessor: TranslationPreprocessor | Tokenizer
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
        "encoder_token_ids": _padded(text.encode_sources(sources)),
        "decoder_token_ids": _padded([[START_ID, *ids[:-1]] for ids in targets]),
    }
    return inputs, _padded(targets)


def _padded(rows):
    array = np.full((len(rows), max(map(len, rows))), PAD_ID, "int32")
    for values, row in zip(array, rows):
        values[: len(row)] = row
    return array
