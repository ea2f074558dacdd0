"""Pairs of a training text that are kept for validation and test, where these have no files."""

import hashlib
import heapq
import logging
from collections.abc import Sequence

from keras_transformer.data.tatoeba import Unconnected
from keras_transformer.data.text_files import Pair, Pairs
from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)

LARGEST = 1_000  # pairs of a split, of a large text
SHARE = 50  # and one in so many of a small one: of fewer, none
_LONGEST = 1_000  # characters: longer sentences would be cut or left out where they are scored


def with_held_out(pairs: Pairs, split: str, missing: Sequence[str], key: int = 0) -> Pairs:
    """The pairs of a split of a text that has no files of some splits.

    They are drawn by a digest of their sentences: the same ones each time, wherever they stand.
    No sentence is on two sides.

    Args:
        pairs: starts a pass over the whole text.
        split: `"train"` or one of `missing`.
        missing: the splits without files.
        key: the side whose sentences are drawn, each of which comes once.

    Returns:
        The function that starts a pass over the pairs of the split.

    Raises:
        UserError: if the text is too small.
    """
    held_out = _draw(pairs, missing, key)
    if split == "train":
        return Unconnected(pairs, [pair for part in held_out.values() for pair in part])
    if not held_out[split]:
        raise UserError(
            f"There are no files of the split {split!r}, and the training text is too small to "
            f"hold pairs out: it has fewer than {SHARE}. Give a text to score translations with."
        )
    logger.info("%s: %d pairs, held out of the training text", split, len(held_out[split]))
    return lambda: iter(held_out[split])


def _draw(pairs: Pairs, splits: Sequence[str], key: int) -> dict[str, list[Pair]]:
    count, drawn = _smallest(pairs, len(splits) * LARGEST, key)
    size = min(LARGEST, count // SHARE)
    held_out = {split: [] for split in splits}
    sides = {}  # of the other sentences: which split has them
    chosen = sorted(drawn.items())[: size * len(splits)]
    for number, (_, pair) in enumerate(chosen):
        split = splits[number % len(splits)]
        # What another split has on the other side is in neither.
        if sides.setdefault(pair[1 - key], split) == split:
            held_out[split].append(pair)
    return held_out


def _smallest(pairs: Pairs, most: int, key: int) -> tuple[int, dict[int, Pair]]:
    """The number of pairs; and by their digests the sentences whose digests are smallest, with the
    first pair of each."""
    drawn, largest_first, count = {}, [], 0
    for pair in pairs():
        count += 1
        if not all(0 < len(side.strip()) and len(side) <= _LONGEST for side in pair):
            continue
        digest = hashlib.blake2b(pair[key].encode(), digest_size=8).digest()
        number = int.from_bytes(digest)
        if number in drawn:
            continue
        if len(drawn) < most:
            heapq.heappush(largest_first, -number)
        elif number < -largest_first[0]:
            del drawn[-heapq.heapreplace(largest_first, -number)]
        else:
            continue
        drawn[number] = pair
    return count, drawn
