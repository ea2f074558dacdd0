"""Tatoeba's English and German sentences, split so that no sentence is on two sides.

A sentence may have several translations, and these others again: pairs that share a sentence are
connected. `dev.tsv` is cut between them into `val` and `test`, and `train` is what shares no
sentence with it. (Of the sentences as manythings.org has them, one German sentence in ten of
`dev.tsv` stands in `train.tsv` too.)
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from keras_transformer.data.text_files import Pair, Pairs, tab_separated_pairs

TRAIN, DEV = "train.tsv", "dev.tsv"


def open_tatoeba(
    split: str, train: Path | None, dev: Path | None, is_swapped: bool = False
) -> Pairs:
    """Returns the function that starts a pass over the (English, German) pairs of a split.

    Args:
        split: `"train"`, `"val"` or `"test"`.
        train: the file `train.tsv`, needed for `"train"`.
        dev: the file `dev.tsv`; without it, `"train"` is all of `train.tsv`.
        is_swapped: whether pairs are to be (German, English).
    """
    held_out = [] if dev is None else list(_pairs(dev, is_swapped))
    if split == "train":
        return Unconnected(partial(_pairs, train, is_swapped), held_out)
    numbers = component_numbers(held_out)
    # Every second one: the file may be sorted by length, and both halves should be alike.
    wanted = split == "test"
    kept = [pair for pair, number in zip(held_out, numbers) if number % 2 == wanted]
    return lambda: iter(kept)


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


class Unconnected:
    """Starts passes over the pairs that share no sentence, on either side, with held-out pairs.

    Args:
        pairs: starts a pass over all pairs.
        held_out: the pairs that are held out.
    """

    def __init__(self, pairs: Pairs, held_out: Iterable[Pair]):
        self.held_out = list(held_out)
        self._pairs = pairs
        self._sides = [frozenset(side) for side in zip(*self.held_out)]

    def __call__(self) -> Iterator[Pair]:
        for pair in self._pairs():
            if not any(sentence in side for sentence, side in zip(pair, self._sides)):
                yield pair


def _pairs(path: Path, is_swapped: bool = False) -> Iterator[Pair]:
    pairs = tab_separated_pairs(path, expected="English TAB German")
    return (pair[::-1] for pair in pairs) if is_swapped else pairs
