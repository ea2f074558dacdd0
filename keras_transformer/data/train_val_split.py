"""Splits of a corpus that share no sentence."""

import hashlib
import heapq
import logging
from collections.abc import Iterable, Iterator, Sequence

from keras_transformer.data.text_files import Pair, Pairs
from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)

LARGEST = 1_000  # the most pairs that are held out for a split
SHARE = 50  # hold out at most 1 pair in 50, and none from smaller texts
_LONGEST = 1_000  # characters; longer sentences would be truncated or skipped when they are scored


def with_held_out(pairs: Pairs, split: str, missing: Sequence[str], key: int = 0) -> Pairs:
    """Return a split of a text that has no files for some splits.

    Pairs are chosen by a digest of their sentences, so the choice does not depend on their order.
    No sentence occurs in two splits.

    Args:
        pairs: function that starts a pass over the whole text.
        split: `"train"` or one of `missing`.
        missing: the splits without files.
        key: the side whose digests decide. Each of its sentences is held out at most once.

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
            f"Cannot hold the split {split!r} out of the training text. Expected files of this "
            f"split, or at least {SHARE} training pairs. Received: fewer pairs, and no files"
        )
    logger.info("%s: %d pairs held out of the training text", split, len(held_out[split]))
    return lambda: iter(held_out[split])


def _draw(pairs: Pairs, splits: Sequence[str], key: int) -> dict[str, list[Pair]]:
    count, drawn = _smallest(pairs, len(splits) * LARGEST, key)
    size = min(LARGEST, count // SHARE)
    held_out = {split: [] for split in splits}
    sides = {}  # sentence on the other side -> the split that contains it
    chosen = sorted(drawn.items())[: size * len(splits)]
    for number, (_, pair) in enumerate(chosen):
        split = splits[number % len(splits)]
        # Drop the pair if another split contains its sentence on the other side.
        if sides.setdefault(pair[1 - key], split) == split:
            held_out[split].append(pair)
    return held_out


def _smallest(pairs: Pairs, most: int, key: int) -> tuple[int, dict[int, Pair]]:
    """Return the number of pairs, and the first pairs of the sentences with smallest digests.

    Returns:
        The number of all pairs, and a dict of up to `most` pairs by digest.
    """
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
    """Number the connected components of pairs from 0, in order of their first pair.

    A sentence may have several translations, and each of them may have other translations. Pairs
    with a sentence in common on the same side are connected. (In the sentences of manythings.org, 1
    German sentence in 10 of `dev.tsv` is also in `train.tsv`.)

    Args:
        pairs: pairs of sentences.

    Returns:
        The number of each pair's component.
    """
    pairs, parents = list(pairs), {}

    def root(sentence):
        parents.setdefault(sentence, sentence)
        while parents[sentence] != sentence:
            # Shorten the path for later calls.
            parents[sentence] = parents[parents[sentence]]
            sentence = parents[sentence]
        return sentence

    for english, german in pairs:
        parents[root((1, german))] = root((0, english))
    numbers = {}
    return [numbers.setdefault(root((0, english)), len(numbers)) for english, _ in pairs]


class DisjointPairs:
    """A function that starts passes over the pairs that share no sentence with held-out pairs.

    Args:
        pairs: function that starts a pass over all pairs.
        held_out: the held-out pairs.
    """

    def __init__(self, pairs: Pairs, held_out: Iterable[Pair]):
        self.held_out = list(held_out)
        self._tatoeba_pairs = pairs
        self._sides = [frozenset(side) for side in zip(*self.held_out)]

    def __call__(self) -> Iterator[Pair]:
        for pair in self._tatoeba_pairs():
            if not any(sentence in side for sentence, side in zip(pair, self._sides)):
                yield pair
