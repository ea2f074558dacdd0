"""Treebanks: the trees of a corpus, read from files, cleaned and split, and as training pairs."""

import contextlib
import hashlib
import os
import re
import tempfile
import threading
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, pairwise
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from keras_transformer.data.corpora import built_in_corpus
from keras_transformer.data.text_files import find_files, missing_files, validate_folder
from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import clean_tree, parse_trees, read_trees, to_bracketed
from keras_transformer.parsing.linearization import LABELLED_BRACKETS, Linearization, most_openings
from keras_transformer.parsing.traversal import OPEN, is_leaf, tagged_words, walk
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
    writes them to a temporary file (see `TreeCache`). Every `iter()` starts a new pass over that
    file. The treebank's own files are read once, and later changes of them have no effect. Trees
    are streamed, never held in memory. Trees that consist of traces only are left out and counted.

    Args:
        name: name of the treebank.
        split: name of the split, such as `"train"`.
        trees: function without arguments that returns an iterator of the treebank's trees, without
            changes; called once.
        collapse_unary: whether to remove unary loops, as for `clean_tree`.

    Attributes:
        num_left_out: number of trees without any word.

    Raises:
        UserError: if there are no trees, or `trees` finds bad input.

    Example:

    >>> treebank = load_treebank("synthetic", "val")
    >>> len(treebank)
    1000
    >>> for tree in treebank: ...
    """

    def __init__(self, name: str, split: str, trees: _Trees, collapse_unary: bool = False):
        self.name = name
        self.split = split
        self.collapse_unary = collapse_unary
        self.num_left_out = 0
        self._cache = TreeCache(self._cleaned(trees()))
        if len(self) == 0:
            raise UserError(f"The split {split!r} of {name} has no tree with words.")

    @classmethod
    def from_file(
        cls,
        path: str | PathLike,
        name: str = "trees",
        split: str = "train",
        collapse_unary: bool = False,
    ) -> "Treebank":
        """Read the trees of one file, plain or compressed (`.gz`, `.bz2`, `.xz`).

        Args:
            path: the file, in the form of `read_trees`.
            name: name of the treebank.
            split: name of the split.
            collapse_unary: whether to remove unary loops.

        Returns:
            A `Treebank`.

        Raises:
            UserError: as `read_trees`, or if no tree has words.
        """
        return cls(name, split, partial(read_trees, path), collapse_unary)

    def __iter__(self) -> Iterator["Tree"]:
        return iter(self._cache)

    def __len__(self) -> int:
        return len(self._cache)

    def __repr__(self) -> str:
        left_out = f", {self.num_left_out:,} without words left out" if self.num_left_out else ""
        return f"<Treebank {self.name} {self.split}: {len(self):,} trees{left_out}>"

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of all trees in order: equal if and only if the trees are."""
        return self._cache.fingerprint

    def _cleaned(self, trees: Iterable["Tree"]) -> Iterator["Tree"]:
        for tree in trees:
            cleaned = clean_tree(tree, self.collapse_unary)
            if cleaned is None:
                self.num_left_out += 1
            else:
                yield cleaned


def load_treebank(
    dataset: str,
    split: str,
    data_dir: str | PathLike | None = None,
    collapse_unary: bool = False,
) -> Treebank:
    """Load one split of a treebank by name.

    | Name | Treebank | Files in `data_dir` |
    |---|---|---|
    | `synthetic` | English sentences of the built-in grammar | none |
    | `ptb` | Wall Street Journal, Penn Treebank | `wsj_0001.mrg`, …, anywhere below |
    | `craft` | articles of biology | `train.mrg`, `dev.mrg` |
    | `trees` | any trees | `train.mrg`, `val.mrg` or `dev.mrg`, `test.mrg` |

    The files of `craft` and `trees` may also be in a folder of that name in `data_dir`.

    For the Penn Treebank, sections 02 to 21 are `train` (39,832 trees), section 22 is `val` (1,700)
    and section 23 `test` (2,416). A section consists of the files whose names begin with its
    number, such as `wsj_0201.mrg`. If there are only sections 00 and 01, as in the sample that NLTK
    distributes, wsj_0001 to wsj_0159 are `train`, wsj_0160 to wsj_0179 `val` and wsj_0180 to
    wsj_0199 `test`. A missing section, or a missing file of the sample, is an error.

    CRAFT has no public test split: `test` is `dev.mrg`, `val` the last three articles of
    `train.mrg` (980 trees of 18,951), and `train` the other articles. An article begins with a
    TITLE.

    Args:
        dataset: a name from the table (the keys of `TREEBANKS`).
        split: `"train"`, `"val"` or `"test"`.
        data_dir: folder that holds the treebanks.
        collapse_unary: whether unary loops are taken out, as for `clean_tree`.

    Returns:
        A `Treebank`.

    Raises:
        UserError: if an argument or a file is wrong.
    """
    check_choice("dataset", dataset, TREEBANKS)
    check_choice("split", split, SPLITS)
    folder = None if data_dir is None else Path(data_dir)
    return Treebank(dataset, split, TREEBANKS[dataset](split, folder), collapse_unary)


# The built-in corpus


def _open_synthetic(split: str, data_dir: Path | None) -> _Trees:
    return partial(_synthetic_trees, split)


def _synthetic_trees(split: str) -> Iterator["Tree"]:
    brackets = (example.tree for example in built_in_corpus()[split])
    return parse_trees(brackets, "the built-in corpus")


# The Penn Treebank


def _open_ptb(split: str, data_dir: Path | None) -> _Trees:
    return partial(_trees_of_files, find_penn_treebank(split, data_dir))


def _trees_of_files(paths: Iterable[Path]) -> Iterator["Tree"]:
    return chain.from_iterable(map(read_trees, paths))


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


# CRAFT


def _open_craft(split: str, data_dir: Path | None) -> _Trees:
    names = ["dev.mrg" if split == "test" else "train.mrg"]
    paths = find_files(data_dir, "craft", names)
    if not paths:
        raise missing_files(
            data_dir,
            "craft",
            names,
            "Expected Penn-style trees. The treebank is at https://github.com/UCDenver-ccp/CRAFT.",
        )
    if split == "test":
        return partial(read_trees, *paths)
    return partial(_craft_trees, *paths, split)


def _craft_trees(path: Path, split: str) -> Iterator["Tree"]:
    last: deque[list[Tree]] = deque()
    for article in _articles(read_trees(path)):
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


def _open_trees(split: str, data_dir: Path | None) -> _Trees:
    for stem in ("val", "dev") if split == "val" else (split,):
        if paths := find_files(data_dir, "trees", [f"{stem}.mrg"]):
            return partial(read_trees, *paths)
    alternative = " (or dev.mrg)" if split == "val" else ""
    raise missing_files(
        data_dir, "trees", [f"{split}.mrg{alternative}"], "Expected Penn-style trees."
    )


TREEBANKS: Mapping[str, Callable[[str, Path | None], _Trees]] = MappingProxyType(
    {
        "synthetic": _open_synthetic,
        "ptb": _open_ptb,
        "craft": _open_craft,
        "trees": _open_trees,
    }
)


_CHUNK = 1 << 16  # bytes of lines that are read together


class TreeCache:
    """The trees of an iterable in a temporary file, one per line.

    The file has no name if the system allows it. It is in the folder `TMPDIR`, or the system's
    default. So it belongs to one process, disappears with the object or the process, and does not
    change if the original files do.

    Args:
        trees: iterable of trees; read once.

    Attributes:
        fingerprint: SHA-256 (hex) of all trees in order.

    Raises:
        UserError: if the file cannot be written, or a tree cannot be written in brackets.
    """

    def __init__(self, trees: Iterable["Tree"]):
        with _temporary_folder():
            self._file = tempfile.TemporaryFile()
        weakref.finalize(self, _close, self._file)
        self._lock = threading.Lock()  # Passes share the position in the file.
        self._length, digest = 0, hashlib.sha256()
        for tree in bar("reading", "trees", iterable=trees):
            line = f"{to_bracketed(tree)}\n".encode()
            digest.update(line)
            with _temporary_folder():
                self._file.write(line)
            self._length += 1
        with _temporary_folder():
            self._file.flush()
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator["Tree"]:
        return parse_trees(self._lines()) if self._length else iter(())

    def _lines(self) -> Iterator[str]:
        start = 0
        while True:
            with self._lock:
                self._file.seek(start)
                lines = self._file.readlines(_CHUNK)
            if not lines:
                return
            start += sum(map(len, lines))
            yield from map(bytes.decode, lines)


def _close(file: BinaryIO) -> None:
    with contextlib.suppress(OSError):  # from data that could not be written
        file.close()


@contextlib.contextmanager
def _temporary_folder() -> Iterator[None]:
    """Convert errors of the operating system to a `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            "Cannot write the trees to the folder for temporary files: "
            f"{error.strerror}. Set TMPDIR to a folder with enough space."
        ) from None


class TreeSurvey(NamedTuple):
    """The facts about training trees that a parser stores."""

    symbols: list[str]  # of all trees, sorted
    max_openings: int  # of all trees, see `most_openings`
    tag_counts: dict[str, Counter[str]]  # of the treebank alone, see `count_tags`


def survey_trees(
    treebank: Iterable["Tree"], linearization: Linearization, extra: Iterable["Tree"] = ()
) -> TreeSurvey:
    """Read trees once and collect their symbols, openings and tags.

    Args:
        treebank: the trees of a treebank.
        linearization: the `Linearization` that writes the trees as symbols.
        extra: further trees, such as the output of another parser. Their tags are not counted,
            because a tag dictionary must come from human annotation.

    Returns:
        A `TreeSurvey`.

    Raises:
        UserError: if a label cannot be written as a symbol.
    """
    symbols: set[str] = set()
    openings = 0
    tag_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for trees, are_tags_counted in ((treebank, True), (extra, False)):
        for tree in trees:
            symbols.update(linearization.linearize(tree)[1])
            openings = max(openings, most_openings(tree, linearization))
            if are_tags_counted:
                count_tags([tree], tag_counts)
    return TreeSurvey(sorted(symbols), openings, tag_counts)


class TreePairs:
    """The pairs (words, symbols) of linearized trees, as strings separated by spaces.

    Every `iter()` starts a new pass over the treebank.

    Args:
        treebank: a `Treebank`.
        extra: a second `Treebank`, such as the output of another parser (section 6.3).
        extra_ratio: the number of trees of `extra` per tree of `treebank`. The smaller of the two
            is repeated a whole number of times, to come as close to this ratio as possible.
        constituents: whether each constituent of more than one word is a further pair, in addition
            to the whole tree. A model learns on short pairs to move from word to word, which it may
            never learn from the long sentences of a small treebank.
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
        constituents: bool = False,
        linearization: Linearization = LABELLED_BRACKETS,
    ):
        positive_number("extra_ratio", extra_ratio)
        self.name = treebank.name
        self.split = treebank.split
        self.linearization = linearization
        self.constituents = constituents
        self._parts = [(treebank, 1)]
        if extra is not None:
            copies = len(extra) / (extra_ratio * len(treebank))
            self._parts = [
                (treebank, max(1, round(copies))),
                (extra, max(1, round(1 / copies))),
            ]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for treebank in self._copies():
            for tree in self._trees(treebank):
                words, symbols = self.linearization.linearize(tree)
                yield " ".join(words), " ".join(symbols)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        treebanks = ", ".join(f"{count} x {part!r}" for part, count in self._parts)
        constituents = ", and their constituents" if self.constituents else ""
        return f"<TreePairs {self.linearization}: {treebanks}{constituents}>"

    def sentences(self) -> Iterator[str]:
        """Return the words of each whole tree, separated by spaces, to train a vocabulary."""
        return (
            " ".join(word for word, _ in tagged_words(tree))
            for treebank in self._copies()
            for tree in treebank
        )

    @cached_property
    def survey(self) -> TreeSurvey:
        treebank, *extra = (part for part, _ in self._parts)
        return survey_trees(treebank, self.linearization, *extra)

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of all that determines the pairs."""
        parts = [(treebank.fingerprint(), copies) for treebank, copies in self._parts]
        options = self.linearization.serialize(), self.constituents
        return hashlib.sha256(repr((parts, *options)).encode()).hexdigest()

    @cached_property
    def _length(self) -> int:
        return sum(
            copies * (sum(1 for _ in self._trees(part)) if self.constituents else len(part))
            for part, copies in self._parts
        )

    def _copies(self) -> Iterator[Treebank]:
        return (part for part, copies in self._parts for _ in range(copies))

    def _trees(self, treebank: Treebank) -> Iterator["Tree"]:
        for tree in treebank:
            yield tree
            if self.constituents:
                for step, node in walk(tree):
                    if step == OPEN and node is not tree and _has_several_words(node):
                        yield node


def _has_several_words(tree: "Tree") -> bool:
    while len(tree) == 1 and not is_leaf(tree):
        (tree,) = tree
    return not is_leaf(tree)
