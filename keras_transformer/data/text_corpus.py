"""Any pairs of texts in a folder, by the names of their files."""

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
    """Returns the function that starts a pass over the pairs of a split of the corpus `text`.

    With `hold_out`, `"train"` lacks what is held out for splits that have no files.

    Raises:
        UserError: if there are no files, or it is not clear which ones to train on.
    """
    for folder in corpus_folders(data_dir, "text"):
        files = _Files(folder, source, target)
        pairs = files.named(split)
        if pairs and split != "train":
            return pairs
        whole = pairs or files.named("train") or files.only()
        if whole and split in ("train", *_HELD_OUT):
            missing = [name for name in _HELD_OUT if not files.named(name)]
            if not missing or (split == "train" and not hold_out):
                return whole
            # The same pairs in both directions: one model may learn both.
            key = [source, target].index(min(source, target))
            return with_held_out(whole, split, missing, key)
    names = [f"{split}.{language}" for language in (source, target)]
    raise missing_files(
        data_dir,
        "text",
        names,
        "Expected one sentence a line. (Or a file of lines source TAB target, or a translation "
        f"memory: {split}.tsv, {split}.tmx.)",
    )


class _Files:
    """The files of a folder that hold pairs of two languages."""

    def __init__(self, folder: Path, source: str, target: str):
        self.folder, self.languages = folder, (source, target)
        there, back = f"{source}-{target}", f"{target}-{source}"
        # What a name goes on with after the stem, and how such files are read.
        self._forms = [
            *((_ends(middle, source, target), self._lines) for middle in ("", there, back)),
            *((_ends(there, "tsv"), self._columns), (_ends(back, "tsv"), self._swapped_columns)),
            ([".tsv"], self._columns),
            *((_ends(middle, "tmx"), self._units) for middle in ("", there, back)),
        ]

    def named(self, stem: str) -> Pairs | None:
        """The pairs in the files of a name, if there are any."""
        for ends, open_files in self._forms:
            paths = [plain_or_compressed(self.folder / f"{stem}{end}") for end in ends]
            if all(paths):
                return open_files(*paths)
        return None

    def only(self) -> Pairs | None:
        """The pairs in files of any name, if there are some of just one; none is named train."""
        if "train" in self._stems():
            return None  # its other half is missing
        stems = {stem for stem in self._stems() if self.named(stem)} - {*_HELD_OUT}
        if len(stems) > 1:
            raise UserError(
                f"There is no train.{self.languages[0]} in {self.folder}, and several others that "
                f"could be meant: {', '.join(sorted(stems))}. Name the files of one of them train."
            )
        return self.named(*stems) if stems else None

    def _stems(self) -> Iterator[str]:
        # The longest end first: of corpus.en-de.en the stem is corpus.
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
