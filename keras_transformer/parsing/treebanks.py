"""Treebanks: the trees of a corpus, read from files, cleaned and split, and as training pairs."""

import hashlib
import mmap
import os
import re
import tempfile
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, pairwise, repeat
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.data.corpora import built_in_corpus
from keras_transformer.data.text_files import find_files, missing_files, validate_folder
from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import clean_tree, parse_trees, read_trees, to_bracketed
from keras_transformer.parsing.linearization import LABELLED_BRACKETS, Linearization, most_openings
from keras_transformer.parsing.word_tags import count_tags
from keras_transformer.progress import bar
from keras_transformer.validation import check_choice, positive_number

if TYPE_CHECKING:
    from nltk import Tree


SPLITS = ("train", "val", "test")
CRAFT_VAL_ARTICLES = 3

_Trees = Callable[[], Iterable["Tree"]]  # Function that starts to read a treebank.


class Treebank:
    """The cleaned trees of one split of a treebank.

    Creating the object reads and cleans all trees, so that bad input is reported at once, and
    writes them to a temporary file (in the folder `TMPDIR`), from which every `iter()` streams
    them. Later changes of the treebank's own files have no effect. Trees that consist of traces
    only are left out and counted.

    Args:
        name: name of the treebank.
        split: name of the split, such as `"train"`.
        trees: function without arguments that returns an iterable of the treebank's trees, without
            changes; called once.

    Attributes:
        num_left_out: number of trees without any word.

    Raises:
        UserError: if there are no trees, `trees` finds bad input, or the temporary file cannot be
            written.

    Example:

    >>> treebank = load_treebank("synthetic", "val")
    >>> len(treebank)
    1000
    >>> for tree in treebank: ...
    """

    def __init__(self, name: str, split: str, trees: _Trees):
        self.name = name
        self.split = split
        self.num_left_out = self._length = 0
        try:
            self._lines = self._mapped_lines(trees())
        except OSError as error:
            raise UserError(
                "Cannot write the trees to the folder for temporary files: "
                f"{error.strerror}. Set TMPDIR to a folder with enough space."
            ) from None

    def _mapped_lines(self, trees: Iterable["Tree"]) -> mmap.mmap:
        """Return a temporary file of one cleaned tree per line, which has no name."""
        digest = hashlib.sha256()
        with tempfile.TemporaryFile() as file:
            for tree in bar("reading", "trees", iterable=trees):
                cleaned = clean_tree(tree)
                if cleaned is None:
                    self.num_left_out += 1
                    continue
                line = f"{to_bracketed(cleaned)}\n".encode()
                digest.update(line)
                file.write(line)
                self._length += 1
            if not self._length:
                raise UserError(f"The split {self.split!r} of {self.name} has no tree with words.")
            self._fingerprint = digest.hexdigest()
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    @classmethod
    def from_file(
        cls, path: str | PathLike, name: str = "trees", split: str = "train"
    ) -> "Treebank":
        """Read the trees of one file, plain or compressed (`.gz`, `.bz2`, `.xz`).

        Args:
            path: the file, in the form of `read_trees`.
            name: name of the treebank.
            split: name of the split.

        Returns:
            A `Treebank`.

        Raises:
            UserError: as `read_trees`, or if no tree has words.
        """
        return cls(name, split, partial(read_trees, path))

    def __iter__(self) -> Iterator["Tree"]:
        return parse_trees(self._read_lines())

    def _read_lines(self) -> Iterator[str]:
        start = 0
        while (end := self._lines.find(b"\n", start)) >= 0:
            yield self._lines[start:end].decode()
            start = end + 1

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        left_out = f", {self.num_left_out:,} without words left out" if self.num_left_out else ""
        return f"<Treebank {self.name} {self.split}: {len(self):,} trees{left_out}>"

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of all trees in order: equal if and only if the trees are."""
        return self._fingerprint


def load_treebank(dataset: str, split: str, data_dir: str | PathLike | None = None) -> Treebank:
    """Load one split of a treebank by name.

    | Name | Treebank | Files in `data_dir` |
    |---|---|---|
    | `synthetic` | English sentences of the built-in grammar | none |
    | `ptb` | Wall Street Journal, Penn Treebank | `wsj_0001.mrg`, …, anywhere below |
    | `craft` | articles of biology | `train.mrg`, `dev.mrg` |
    | `ewt` | English Web Treebank | `train.mrg`, `dev.mrg` |
    | `trees` | any trees | `train.mrg`, `val.mrg` or `dev.mrg`, `test.mrg` |

    The files of `craft`, `ewt` and `trees` may also be in a folder of that name in `data_dir`.

    For the Penn Treebank, sections 02 to 21 are `train` (39,832 trees), section 22 is `val` (1,700)
    and section 23 `test` (2,416). A section consists of the files whose names begin with its
    number, such as `wsj_0201.mrg`. If there are only sections 00 and 01, as in the sample that NLTK
    distributes, wsj_0001 to wsj_0159 are `train`, wsj_0160 to wsj_0179 `val` and wsj_0180 to
    wsj_0199 `test`. A missing section, or a missing file of the sample, is an error.

    CRAFT has no public test split: `test` is `dev.mrg`, `val` the last three articles of
    `train.mrg` (980 trees of 18,951), and `train` the other articles. An article begins with a
    TITLE.

    For the English Web Treebank, `val` and `test` are both `dev.mrg`: a training is chosen and
    scored on it, and its own test split is not read.

    Args:
        dataset: a name from the table (the keys of `TREEBANKS`).
        split: `"train"`, `"val"` or `"test"`.
        data_dir: folder that holds the treebanks.

    Returns:
        A `Treebank`.

    Raises:
        UserError: if an argument or a file is wrong.
    """
    check_choice("dataset", dataset, TREEBANKS)
    check_choice("split", split, SPLITS)
    folder = None if data_dir is None else Path(data_dir)
    return Treebank(dataset, split, partial(TREEBANKS[dataset], split, folder))


# The built-in corpus


def _synthetic_trees(split: str, data_dir: Path | None) -> Iterable["Tree"]:
    brackets = (example.tree for example in built_in_corpus()[split])
    return parse_trees(brackets, "the built-in corpus")


# The Penn Treebank


def _penn_treebank(split: str, data_dir: Path | None) -> Iterable["Tree"]:
    return chain.from_iterable(map(read_trees, find_penn_treebank(split, data_dir)))


_EXPECTED = (
    "Expected wsj_0200.mrg to wsj_2399.mrg, which are sections 02 to 23 of the Penn Treebank "
    "(LDC99T42), or wsj_0001.mrg to wsj_0199.mrg, the sample that NLTK distributes."
)
_FILE = re.compile(r"wsj_([0-9]{4})\.mrg", re.IGNORECASE)


@dataclass(frozen=True)
class _Layout:
    unit: str  # of a split: "section" or "file"
    splits: Mapping[str, range]  # name of a split -> the numbers of its units
    file: str  # pattern of file names

    def number(self, file: str) -> int:
        """Return the number of the unit of a file, given by a number such as "0201"."""
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
    """Return the files of a split, sorted; see `load_treebank` for the splits.

    Args:
        split: `"train"`, `"val"` or `"test"`.
        data_dir: folder that holds the files, at any depth.

    Returns:
        The paths of the files.

    Raises:
        UserError: if there is no such folder, a section (or a file of the sample) is missing, or a
            file exists twice.
    """
    if data_dir is None:
        raise UserError(f"ptb needs `data_dir`, the folder that holds its files. {_EXPECTED}")
    files = _files_below(data_dir)
    # The sample consists of sections 00 and 01.
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
                f"ptb: wsj_{file}.mrg exists more than once: {path} and {next_path}. Set "
                "`data_dir` to the folder of one of the copies."
            )
    return [path for _, path in found]


def _files_below(data_dir: Path) -> list[tuple[str, Path]]:
    """Return the numbers and paths of the Wall Street Journal's files, sorted."""
    validate_folder(data_dir)
    found = []
    visited: set[str] = set()
    for folder, folders, names in os.walk(data_dir, followlinks=True):
        # A link may lead back to a parent.
        if (real := os.path.realpath(folder)) in visited:
            folders.clear()
            continue
        visited.add(real)
        for name in names:
            if match := _FILE.fullmatch(name):
                found.append((match.group(1), Path(folder, name)))
    return sorted(found)


# CRAFT and the English Web Treebank


def _craft_trees(split: str, data_dir: Path | None) -> Iterable["Tree"]:
    name = "dev.mrg" if split == "test" else "train.mrg"
    trees = _read_file(data_dir, "craft", name, "https://github.com/UCDenver-ccp/CRAFT")
    return trees if split == "test" else _split_articles(trees, split)


def _web_trees(split: str, data_dir: Path | None) -> Iterable["Tree"]:
    name = "train.mrg" if split == "train" else "dev.mrg"
    return _read_file(data_dir, "ewt", name, "https://github.com/propbank/propbank-release")


def _read_file(data_dir: Path | None, dataset: str, name: str, address: str) -> Iterator["Tree"]:
    if paths := find_files(data_dir, dataset, [name]):
        return read_trees(*paths)
    expected = f"Expected Penn-style trees. The treebank is at {address}."
    raise missing_files(data_dir, dataset, [name], expected)


def _split_articles(trees: Iterable["Tree"], split: str) -> Iterator["Tree"]:
    last: deque[list[Tree]] = deque()
    for article in _articles(trees):
        last.append(article)
        if len(last) > CRAFT_VAL_ARTICLES:
            article = last.popleft()
            if split == "train":
                yield from article
    if split == "val":
        yield from chain.from_iterable(last)


def _articles(trees: Iterable["Tree"]) -> Iterator[list["Tree"]]:
    """Yield the lists of trees of each article."""
    article: list[Tree] = []
    for tree in trees:
        sentence = tree if tree.label() else tree[0]
        if article and sentence.label() == "TITLE":
            yield article
            article = []
        article.append(tree)
    yield article


# Any trees


def _any_trees(split: str, data_dir: Path | None) -> Iterable["Tree"]:
    for stem in ("val", "dev") if split == "val" else (split,):
        if paths := find_files(data_dir, "trees", [f"{stem}.mrg"]):
            return read_trees(*paths)
    alternative = " (or dev.mrg)" if split == "val" else ""
    raise missing_files(
        data_dir, "trees", [f"{split}.mrg{alternative}"], "Expected Penn-style trees."
    )


TREEBANKS: Mapping[str, Callable[[str, Path | None], Iterable["Tree"]]] = MappingProxyType(
    {
        "synthetic": _synthetic_trees,
        "ptb": _penn_treebank,
        "craft": _craft_trees,
        "ewt": _web_trees,
        "trees": _any_trees,
    }
)


# Training pairs


class TreeSurvey(NamedTuple):
    """The facts about training trees that a parser stores."""

    symbols: list[str]  # of all trees, sorted
    max_openings: int  # of all trees, see `most_openings`
    tag_counts: dict[str, Counter[str]]  # of the treebank without extra trees, see `count_tags`


class TreePairs:
    """The pairs (words, symbols) of linearized trees, as strings separated by spaces.

    Every `iter()` starts a new pass over the treebank.

    Args:
        treebank: a `Treebank`.
        extra: a second `Treebank`, such as the output of another parser (section 6.3).
        extra_ratio: the number of trees of `extra` per tree of `treebank`. The smaller of the two
            is repeated a whole number of times, to come as close to this ratio as possible.
        linearization: a `Linearization`. Defaults to `LabelledBrackets()`.

    Attributes:
        name: name of the treebank.
        survey: the `TreeSurvey` of all trees, including the trees of `extra`.

    Raises:
        UserError: if `extra_ratio` is not positive.
    """

    def __init__(
        self,
        treebank: Treebank,
        extra: Treebank | None = None,
        extra_ratio: float = 1.0,
        linearization: Linearization = LABELLED_BRACKETS,
    ):
        positive_number("extra_ratio", extra_ratio)
        self.name = treebank.name
        self.split = treebank.split
        self.linearization = linearization
        self._parts = [(treebank, 1)]
        if extra is not None:
            copies = len(extra) / (extra_ratio * len(treebank))
            self._parts = [
                (treebank, max(1, round(copies))),
                (extra, max(1, round(1 / copies))),
            ]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for treebank, copies in self._parts:
            for tree in chain.from_iterable(repeat(treebank, copies)):
                words, symbols = self.linearization.linearize(tree)
                yield " ".join(words), " ".join(symbols)

    def __len__(self) -> int:
        return sum(copies * len(part) for part, copies in self._parts)

    def __repr__(self) -> str:
        treebanks = ", ".join(f"{count} x {part!r}" for part, count in self._parts)
        return f"<TreePairs {self.linearization}: {treebanks}>"

    def sentences(self) -> Iterator[str]:
        """Return the words of each tree, separated by spaces, to train a vocabulary."""
        return (words for words, _ in self)

    @cached_property
    def survey(self) -> TreeSurvey:
        symbols: set[str] = set()
        openings = 0
        tag_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for number, (treebank, _) in enumerate(self._parts):
            for tree in treebank:
                symbols.update(self.linearization.linearize(tree)[1])
                openings = max(openings, most_openings(tree, self.linearization))
                # A tag dictionary must come from human annotation, and not from extra trees.
                if number == 0:
                    count_tags([tree], tag_counts)
        return TreeSurvey(sorted(symbols), openings, tag_counts)

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of all that determines the pairs."""
        parts = [(treebank.fingerprint(), copies) for treebank, copies in self._parts]
        return hashlib.sha256(repr((parts, self.linearization.serialize())).encode()).hexdigest()
