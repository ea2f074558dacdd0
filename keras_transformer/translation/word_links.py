"""Links between the parts of a translation and of its source, by cross-attention."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.protection.alignment import Link
from keras_transformer.translation.scoring import teacher_forced

if TYPE_CHECKING:
    from keras_transformer.translation.translator import Translator

# A token is predicted in the last layer, where its source is attended to; in the first layer, it is
# read, one position later.
_LAYERS = (-1, 0)
_SMOOTHING = 0.02
_LONGEST_SPELLING = 4  # characters of a text per character that the tokenizer shows


def word_links(
    translator: "Translator",
    sources: Sequence[str],
    translations: Sequence[str],
    source_ids: Sequence[list[int]] | None = None,
) -> list[list[Link]]:
    """Return which parts of translations belong to which parts of their sources.

    Args:
        translator: a `Translator`.
        sources: list of strings, sentences.
        translations: list of strings, one per source.
        source_ids: the ids of the sources, if they are known.

    Returns:
        For each pair, a list of `(source_start, source_stop, target_start, target_stop)`, positions
        of characters: one link per token of the translation, without white space.
    """
    preprocessor, longest = translator.preprocessor, translator.model.config.max_length
    if source_ids is None:
        source_ids = preprocessor.encode_sources(sources, translator.source_limit())
    target_ids = [ids[:longest] for ids in preprocessor.encode_targets(translations)]
    model, room, sides = translator.model, translator.batch_tokens, (source_ids, target_ids)
    outputs = teacher_forced(model, *sides, room, _LAYERS)
    tokenizers = translator.source_tokenizer, translator.tokenizer
    places = [
        [_places(tokenizer, *pair) for pair in zip(ids, texts)]
        for tokenizer, ids, texts in zip(tokenizers, sides, (sources, translations))
    ]
    return [_links(x, y, output.attention) for x, y, output in zip(*places, outputs)]


def _places(tokenizer: Tokenizer, token_ids: list[int], text: str) -> list[tuple[int, int]]:
    """Return the start and stop of each token in a text, without white space around it."""
    begins = tokenizer.decode(token_ids[:count] for count in range(1, len(token_ids) + 1))
    shown = begins[-1] if begins else ""
    where = np.arange(len(shown) + 1)
    if shown != text:  # normalization, unknown characters or a prefix
        where, last = np.zeros(len(shown) + 1, int), 0
        text = text[: _LONGEST_SPELLING * (len(shown) + 1)]  # of a sentence that was cut
        for start, other, size in SequenceMatcher(None, shown, text, False).get_matching_blocks():
            where[last : start + 1] = other
            where[start : start + size + 1] = range(other, other + size + 1)
            last = start + size
    places, start = [], 0
    for begin in begins:
        stop = min(len(begin), len(shown))
        first, last = int(where[min(start, stop)]), int(where[stop])
        piece = text[first:last]
        places.append((first + len(piece) - len(piece.lstrip()), first + len(piece.rstrip())))
        start = stop
    return places


def _links(
    source: Sequence[tuple[int, int]], target: Sequence[tuple[int, int]], attention: Any
) -> list[Link]:
    """Return a link from each token of the target to the token of the source that fits best."""
    if not len(attention):
        return []
    last, first = attention
    weights = (last + _SMOOTHING) * (np.concatenate([first[1:], first[-1:]]) + _SMOOTHING)
    # A token that many others attend to, such as a point, explains few of them.
    weights /= weights.sum(axis=0)
    weights[:, [start >= stop for start, stop in source]] = 0
    best = weights.argmax(axis=1)
    return [
        (*source[i], start, stop)
        for i, (start, stop) in zip(best, target)
        if start < stop and weights[:, i].any()
    ]
