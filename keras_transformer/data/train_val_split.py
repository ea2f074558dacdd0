"""Splits of a corpus that share no sentence."""

import hashlib
import heapq
import logging
from collections.abc import Iterable, Iterator, Sequence

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
        return DisjointPairs(pairs, [pair for part in held_out.values() for pair in part])
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


def component_numbers(pairs: Iterable[Pair]) -> list[int]:
    """Numbers connected pairs alike, from 0 on in the order in which they first come.

    Args:
        pairs: pairs of sentences. Those that share a first, or a second, are connected.

    Returns:
        The number of each pair's component.
    """
    pairs, parents = list(pairs), {}

    def root(sentence):
        parents.setdefault(sentence, sentence)
        while parents[sentence] != sentence:
            # The path becomes shorter for those who come after.
            parents[sentence] = parents[parents[sentence]]
            sentence = parents[sentence]
        return sentence

    for english, german in pairs:
        parents[root((1, german))] = root((0, english))
    numbers = {}
    return [numbers.setdefault(root((0, english)), len(numbers)) for english, _ in pairs]


class DisjointPairs:
    """Starts passes over the pairs that share no sentence, on either side, with held-out pairs.

    Args:
        pairs: starts a pass over all pairs.
        held_out: the pairs that are held out.
    """

    def __init__(self, pairs: Pairs, held_out: Iterable[Pair]):
        self.held_out = list(held_out)
        self._tatoeba_pairs = pairs
        self._sides = [frozenset(side) for side in zip(*self.held_out)]

    def __call__(self) -> Iterator[Pair]:
        for pair in self._tatoeba_pairs():
            if not any(sentence in side for sentence, side in zip(pair, self._sides)):
                yield pair
