"""Sentence pairs in the files of a folder, found by the names of the files."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from keras_transformer.data.text_files import (
    Pairs,
    aligned_lines,
    corpus_folders,
    missing_files,
    plain_or_compressed,
    swap_sides,
    tab_separated_pairs,
    uncompressed_name,
)
from keras_transformer.data.tmx import translation_units
from keras_transformer.data.train_val_split import with_held_out
from keras_transformer.errors import UserError

_HELD_OUT = ("val", "test")


def open_text(split: str, source: str, target: str, data_dir: Path | None, hold_out: bool) -> Pairs:
    """Return a function that starts a pass over the pairs of a split of the corpus `text`.

    With `hold_out`, splits without files are held out of `"train"`; without it, they are an error.

    Raises:
        UserError: if there are no files, or several files could be the training text.
    """
    others = set()
    for folder in corpus_folders(data_dir, "text"):
        files = _Files(folder, source, target)
        pairs = files.named(split)
        if pairs and split != "train":
            return pairs
        if split != "train" and not hold_out:
            others |= files.stems()
            continue
        whole = pairs or files.named("train") or files.only()
        if whole and split in ("train", *_HELD_OUT):
            missing = [name for name in _HELD_OUT if not files.named(name)]
            if not missing or not hold_out:
                return whole
            # Hold out the same pairs in both directions, so that one model can learn both.
            key = [source, target].index(min(source, target))
            return with_held_out(whole, split, missing, key)
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
        return partial(aligned_lines, source, target)

    def _columns(self, path: Path) -> Pairs:
        return partial(tab_separated_pairs, path)

    def _swapped_columns(self, path: Path) -> Pairs:
        return lambda: swap_sides(tab_separated_pairs(path))

    def _units(self, path: Path) -> Pairs:
        return partial(translation_units, path, *self.languages)


def _ends(middle: str, *last: str) -> list[str]:
    return [f".{middle}.{end}" if middle else f".{end}" for end in last]
