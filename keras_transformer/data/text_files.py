"""Text files of corpora: finding them, and reading them line by line."""

import codecs
import contextlib
import gzip
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from keras_transformer.errors import UserError

Pair = tuple[str, str]  # A sentence and its translation.
Pairs = Callable[[], Iterable[Pair]]  # Starts a pass over a corpus.


def check_choice(argument: str, value: str, choices: Collection[str] | None) -> None:
    """Raises an error if the value of an argument is none of the choices; None allows any."""
    if choices is not None and value not in choices:
        raise UserError(
            f"`{argument}` must be one of {', '.join(choices)}. Received: {argument}={value!r}"
        )


def check_folder(data_dir: Path) -> None:
    """Raises an error if there is no folder `data_dir`."""
    if not data_dir.is_dir():
        raise UserError(
            f"`data_dir` must be an existing folder. Received: data_dir={str(data_dir)!r}"
        )


def find_files(data_dir: Path | None, corpus: str, names: list[str]) -> list[Path] | None:
    """The files of these names that lie together in the corpus's own folder or in `data_dir`, plain
    or gzip (`.gz`)."""
    for place in corpus_folders(data_dir, corpus):
        paths = [plain_or_gzip(place / name) for name in names]
        if all(paths):
            return paths
    return None


def corpus_folders(data_dir: Path | None, corpus: str) -> list[Path]:
    """The folders where a corpus may lie; an error if there is no folder `data_dir`."""
    if data_dir is None:
        return []
    check_folder(data_dir)
    # The corpus's folder goes first: a train.en beside it may be of another corpus.
    return [data_dir / corpus, data_dir]


def plain_or_gzip(path: Path) -> Path | None:
    """The file, or the compressed one beside it whose name goes on with `.gz`."""
    compressed = path.with_name(f"{path.name}.gz")
    return next((found for found in (path, compressed) if found.is_file()), None)


def missing_files(data_dir: Path | None, corpus: str, names: list[str], expected: str) -> UserError:
    """The error to raise where `find_files` found none; `expected` says what they should hold."""
    if data_dir is None:
        files = " and ".join(names)
        return UserError(f"{corpus} needs `data_dir`, the folder that holds {files}. {expected}")
    missing = {
        place: [name for name in names if not plain_or_gzip(place / name)]
        for place in (data_dir, data_dir / corpus)
    }
    place = min(missing, key=lambda place: len(missing[place]))
    return UserError(
        f"{corpus}: {' and '.join(missing[place])} not found in {place}. {expected} "
        "Name the folder with `data_dir`."
    )


def aligned_lines(source_path: Path, target_path: Path) -> Iterator[Pair]:
    """Line N of one file with line N of the other; an error if one has more lines."""
    for source, target in zip_longest(read_lines(source_path), read_lines(target_path)):
        if source is None or target is None:
            counts = [sum(1 for _ in read_lines(path)) for path in (source_path, target_path)]
            raise UserError(
                f"Parallel files must have equally many lines, but {source_path} has "
                f"{counts[0]:,} and {target_path} has {counts[1]:,}. "
                "Line N of one must be the translation of line N of the other."
            )
        yield source, target


def tab_separated_pairs(
    path: Path, columns: tuple[int, int] | None = None, expected: str = "source TAB target"
) -> Iterator[Pair]:
    """Two columns of each line, counted from 0; None for lines that have no others."""
    first, second = columns or (0, 1)
    for number, line in enumerate(read_lines(path, f"lines of {expected}"), start=1):
        cells = line.split("\t")
        if (columns is None and len(cells) != 2) or len(cells) <= max(first, second):
            wanted = f"columns {first} and {second}" if columns else f"two columns, {expected},"
            raise UserError(
                f"{path}, line {number}: expected {wanted} but found {len(cells)}. "
                "Keep the two columns with the sentences only."
            )
        yield cells[first], cells[second]


def decode_lines(file: Iterable[bytes], name: str, first_number: int = 1) -> Iterator[str]:
    """The lines of UTF-8 text from that number on, without byte order mark and line ends.

    Read as bytes, so that a line ends at "\\n" alone: text mode also ends one at a lone "\\r", and
    `str.splitlines` at U+2028, at form feeds and more, which the other language's line may lack.
    """
    for number, line in enumerate(file, start=first_number):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
            if not line:  # nothing but the mark, not even a line end
                return
        try:
            yield line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise UserError(
                f"{name}, line {number}: not valid UTF-8. Convert the text to UTF-8, for example "
                "with iconv."
            ) from None


def read_lines(path: Path, expected: str = "one sentence a line") -> Iterator[str]:
    """The lines of a file as `decode_lines` gives them; an error if there are none."""
    is_empty = True
    with readable(path) as file:
        for line in decode_lines(file, str(path)):
            is_empty = False
            yield line
    if is_empty:
        raise UserError(f"The file {path} is empty. Expected {expected}.")


@contextlib.contextmanager
def readable(path: Path) -> Iterator[BinaryIO]:
    """A file as `open_bytes` gives it; in words, why it cannot be read."""
    try:
        with open_bytes(path) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"There is no file {path}. Check the path.") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"The file {path} could not be read: {reason}.") from None


def open_bytes(path: Path) -> BinaryIO:
    """Opens a file for reading bytes; one whose name ends in `.gz` is decompressed on the way."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")
