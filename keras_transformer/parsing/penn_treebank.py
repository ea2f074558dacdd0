"""The files of the Penn Treebank's Wall Street Journal, and which of them make up a split."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from keras_transformer.data.text_files import check_folder
from keras_transformer.errors import UserError

_EXPECTED = (
    "Expected wsj_0200.mrg to wsj_2399.mrg, which are sections 02 to 23 of the Penn Treebank "
    "(LDC99T42), or wsj_0001.mrg to wsj_0199.mrg, the sample that NLTK distributes."
)
_FILE = re.compile(r"wsj_([0-9]{4})\.mrg", re.IGNORECASE)


@dataclass(frozen=True)
class _Layout:
    unit: str  # A split is so many of these,
    splits: Mapping[str, range]  # of these numbers.
    file: str

    def number(self, file: str) -> int:
        """The number of the unit to which the file of a number such as "0201" belongs."""
        return int(file[:2]) if self.unit == "section" else int(file)


_LDC = _Layout(
    "section",
    {"train": range(2, 22), "val": range(22, 23), "test": range(23, 24)},
    "wsj/{0:02}/wsj_{0:02}*.mrg",
)
_SAMPLE = _Layout(
    "file",
    {"train": range(1, 160), "val": range(160, 180), "test": range(180, 200)},
    "wsj_{:04}.mrg",
)


def find_penn_treebank(split: str, data_dir: Path | None) -> list[Path]:
    """The files of a split, sorted; `load_treebank` says how it is split.

    Args:
        split: `"train"`, `"val"` or `"test"`.
        data_dir: folder in which or below which the files lie.

    Returns:
        The paths of the files.

    Raises:
        UserError: if there is no such folder, if a section (or a file of the sample) is missing,
            or if a file is there twice.
    """
    if data_dir is None:
        raise UserError(f"ptb needs `data_dir`, a folder that holds its files. {_EXPECTED}")
    files = _files_below(data_dir)
    # The sample is of sections 00 and 01.
    layout = _SAMPLE if max(files, default=("", None))[0] < "0200" else _LDC
    wanted = layout.splits[split]
    missing = sorted(set(wanted) - {layout.number(file) for file, _ in files})
    if missing:
        some = ", ".join(layout.file.format(number) for number in missing[:3])
        raise UserError(
            f"ptb: {len(missing)} of the {len(wanted)} {layout.unit}s of {split!r} not found in "
            f"{data_dir} or below it: {some}{', …' if len(missing) > 3 else ''}. {_EXPECTED}"
        )
    found = [(file, path) for file, path in files if layout.number(file) in wanted]
    for (file, path), (next_file, next_path) in pairwise(found):
        if file == next_file:
            raise UserError(
                f"ptb: wsj_{file}.mrg is there more than once: {path} and {next_path}. Name the "
                "folder of one of the copies with `data_dir`."
            )
    return [path for _, path in found]


def _files_below(data_dir: Path) -> list[tuple[str, Path]]:
    """The numbers and paths of the Wall Street Journal's files, sorted."""
    check_folder(data_dir)
    found = []
    visited: set[str] = set()
    for folder, folders, names in os.walk(data_dir, followlinks=True):
        # A link may lead back up.
        if (real := os.path.realpath(folder)) in visited:
            folders.clear()
            continue
        visited.add(real)
        for name in names:
            if match := _FILE.fullmatch(name):
                found.append((match.group(1), Path(folder, name)))
    return sorted(found)
