"""Sentence pairs in the files of a folder, and splits that are held out of them."""

import hashlib
import heapq
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from uuid import uuid4

from keras_transformer.data.text_cache import cache_key, cached
from keras_transformer.data.text_files import (
    FilePairs,
    Pair,
    Pairs,
    aligned_lines,
    corpus_folders,
    missing_files,
    plain_or_compressed,
    swapped_columns,
    tab_separated_pairs,
    translation_units,
    uncompressed_name,
)
from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)

LARGEST = 1_000  # the most pairs that are held out for a split
SHARE = 50  # hold out at most 1 pair in 50, and none from smaller texts
_LONGEST_SENTENCE = (
    1_000  # characters; longer sentences would be truncated or skipped when they are scored
)
_HELD_OUT = ("val", "test")


def open_text(split: str, source: str, target: str, data_dir: Path | None, hold_out: bool) -> Pairs:
    """Return a function that starts a pass over the pairs of a split of the corpus `text`.

    With `hold_out`, splits without files are held out of `"train"`; without it, they are an error.

    Raises:
        UserError: if there are no files, or several files could be the training text.
    """
    folders = [_Files(folder, source, target) for folder in corpus_folders(data_dir, "text")]
    for files in folders:
        if pairs := _open_split(files, split, hold_out):
            return pairs
    needs_files = split != "train" and not hold_out
    others = {stem for files in folders for stem in files.stems()} if needs_files else ()
    if others:
        raise UserError(
            f"`split` must be the part of two files' names in {data_dir} before the language: "
            f"{' or '.join(sorted(others))}. Received: split={split!r}"
        )
    names = [f"{split}.{language}" for language in (source, target)]
    raise missing_files(
        data_dir,
        "text",
        names,
        "Expected one sentence per line. (Or lines of source TAB target in "
        f"{split}.tsv, or a translation memory {split}.tmx.)",
    )


def _open_split(files: "_Files", split: str, hold_out: bool) -> Pairs | None:
    """Return the pairs of a split in the files of a folder, or None if they have none."""
    pairs = files.named(split)
    if split != "train" and (pairs or not hold_out):
        return pairs
    whole = pairs or files.named("train") or files.only()
    if whole is None or split not in ("train", *_HELD_OUT):
        return None
    missing = [name for name in _HELD_OUT if not files.named(name)]
    if not missing or not hold_out:
        return whole
    # Hold out the same pairs in both directions, so that one model can learn both.
    key = files.languages.index(min(files.languages))
    return with_held_out(whole, split, missing, key)


class _Files:
    """The files of a folder that contain pairs of two languages."""

    def __init__(self, folder: Path, source: str, target: str):
        self.folder, self.languages = folder, (source, target)
        there, back = f"{source}-{target}", f"{target}-{source}"
        # The possible ends of file names after the stem, and the method that opens such files.
        self._forms = [
            *((_ends(middle, source, target), self._lines) for middle in ("", there, back)),
            *((_ends(there, "tsv"), self._columns), (_ends(back, "tsv"), self._swapped_columns)),
            ([".tsv"], self._columns),
            *((_ends(middle, "tmx"), self._units) for middle in ("", there, back)),
        ]

    def named(self, stem: str) -> Pairs | None:
        """Return the pairs in the files with a stem, or None if there are none."""
        for ends, open_files in self._forms:
            paths = [plain_or_compressed(self.folder / f"{stem}{end}") for end in ends]
            if all(paths):
                return open_files(*paths)
        return None

    def only(self) -> Pairs | None:
        """Return the pairs in the files of the only stem there is, or None if there is no file."""
        if "train" in self._stems():
            return None  # the file of the other language is missing
        stems = self.stems() - {*_HELD_OUT}
        if len(stems) > 1:
            raise UserError(
                f"Cannot choose the training text in {self.folder}. Expected files named train, "
                f"such as train.{self.languages[0]}, or files of only one name. Received: "
                f"{', '.join(sorted(stems))}"
            )
        return self.named(*stems) if stems else None

    def stems(self) -> set[str]:
        """Return the stems of all pairs of files."""
        return {stem for stem in self._stems() if self.named(stem)}

    def _stems(self) -> Iterator[str]:
        # Try the longest end first: the stem of corpus.en-de.en is corpus.
        ends = sorted((end for ends, _ in self._forms for end in ends), key=len, reverse=True)
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            name = uncompressed_name(path)
            stem = next((name.removesuffix(end) for end in ends if name.endswith(end)), "")
            if stem:
                yield stem

    def _lines(self, source: Path, target: Path) -> Pairs:
        return FilePairs(aligned_lines, source, target)

    def _columns(self, path: Path) -> Pairs:
        return FilePairs(tab_separated_pairs, path)

    def _swapped_columns(self, path: Path) -> Pairs:
        return FilePairs(swapped_columns, path)

    def _units(self, path: Path) -> Pairs:
        return FilePairs(translation_units, path, *self.languages)


def _ends(middle: str, *last: str) -> list[str]:
    return [f".{middle}.{end}" if middle else f".{end}" for end in last]


# Splits that share no sentence


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
        The function that starts a pass over the pairs of the split. Its first call draws the
        held-out pairs, and raises a `UserError` if the text is too small.
    """
    drawn = cache_key("held out", getattr(pairs, "key", uuid4().hex), missing, key)
    held_out = partial(cached, drawn, lambda: _draw(pairs, missing, key))
    if split == "train":
        return DisjointPairs(pairs, lambda: chain(*held_out().values()), f"train {drawn}")

    def of_split() -> Iterator[Pair]:
        if not held_out()[split]:
            raise UserError(
                f"Cannot hold the split {split!r} out of the training text. Expected files of this "
                f"split, or at least {SHARE} training pairs. Received: fewer pairs, and no files"
            )
        return iter(held_out()[split])

    return of_split


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
    for split, part in held_out.items():
        logger.info("%s: %d pairs held out of the training text", split, len(part))
    return held_out


def _smallest(pairs: Pairs, most: int, key: int) -> tuple[int, dict[int, Pair]]:
    """Return the number of pairs, and the first pairs of the sentences with smallest digests.

    Returns:
        The number of all pairs, and a dict of up to `most` pairs by digest.
    """
    drawn, largest_first, count = {}, [], 0
    for pair in pairs():
        count += 1
        if not all(0 < len(side.strip()) and len(side) <= _LONGEST_SENTENCE for side in pair):
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

    def root(sentence: tuple[int, str]) -> tuple[int, str]:
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


@dataclass
class DisjointPairs:
    """A function that starts passes over the pairs that share no sentence with held-out pairs.

    Args:
        pairs: function that starts a pass over all pairs.
        draw: function that returns the held-out pairs. It is called when they are needed.
        key: the key of the pairs, if there is one: see `ParallelText`.
    """

    pairs: Pairs
    draw: Callable[[], Iterable[Pair]]
    key: str = ""

    def __call__(self) -> Iterator[Pair]:
        sides = [frozenset(side) for side in zip(*self.draw())]
        for pair in self.pairs():
            if not any(sentence in side for sentence, side in zip(pair, sides)):
                yield pair
