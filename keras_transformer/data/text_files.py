"""Text files of corpora: finding them and reading them line by line."""

import bz2
import codecs
import contextlib
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedIOBase
from itertools import zip_longest
from pathlib import Path

from keras_transformer.errors import UserError

Pair = tuple[str, str]  # A sentence and its translation.
Pairs = Callable[[], Iterable[Pair]]  # Starts a pass over a corpus.

COMPRESSED_ENDS = (".gz", ".bz2", ".xz")  # endings of compressed files

# The first bytes of compressed files, which identify them under any name, and the function that
# opens them; None if the standard library has no such function.
_COMPRESSIONS = {
    "gzip": (rb"\x1f\x8b", gzip.open),
    "bzip2": (rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", bz2.open),
    "xz": (rb"\xfd7zXZ\0", lzma.open),
    "zstd": (rb"\x28\xb5\x2f\xfd", None),
    "zip": (rb"PK\x03\x04", None),
}
_MAGIC_LENGTH = 10

# UTF-16 and UTF-32 write most letters with one of these bytes.
_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\v\f\r"})


def validate_folder(data_dir: Path) -> None:
    """Raise a `UserError` if the folder `data_dir` does not exist."""
    if not data_dir.is_dir():
        raise UserError(
            f"`data_dir` must be an existing folder. Received: data_dir={str(data_dir)!r}"
        )


def find_files(data_dir: Path | None, corpus: str, names: list[str]) -> list[Path] | None:
    """Return the files with these names, in a corpus's own folder or in `data_dir`.

    They may be plain or compressed.

    Returns:
        The paths, all in one folder, or None if one of the files is missing.
    """
    for place in corpus_folders(data_dir, corpus):
        paths = [path for name in names if (path := plain_or_compressed(place / name))]
        if len(paths) == len(names):
            return paths
    return None


def corpus_folders(data_dir: Path | None, corpus: str) -> list[Path]:
    """Return the folders that may contain a corpus.

    Raises:
        UserError: if there is no folder `data_dir`.
    """
    if data_dir is None:
        return []
    validate_folder(data_dir)
    # The corpus's own folder comes first: a train.en next to it may belong to another corpus.
    return [data_dir / corpus, data_dir]


def plain_or_compressed(path: Path) -> Path | None:
    """Return the path, or a compressed file next to it such as `train.en.gz`, or None."""
    paths = (path.with_name(f"{path.name}{end}") for end in ("", *COMPRESSED_ENDS))
    return next((found for found in paths if found.is_file()), None)


def uncompressed_name(path: Path) -> str:
    """Return a file's name without the ending of its compression: `train.en` for `train.en.gz`."""
    return path.stem if path.suffix in COMPRESSED_ENDS else path.name


def missing_files(data_dir: Path | None, corpus: str, names: list[str], expected: str) -> UserError:
    """Return the error to raise if `find_files` found nothing.

    Args:
        data_dir: the folder that was searched.
        corpus: name of the corpus.
        names: names of the files.
        expected: a sentence that describes the expected content of the files.
    """
    if data_dir is None:
        files = " and ".join(names)
        return UserError(f"{corpus} needs `data_dir`, the folder that holds {files}. {expected}")
    missing = {
        place: [name for name in names if not plain_or_compressed(place / name)]
        for place in (data_dir, data_dir / corpus)
    }
    place = min(missing, key=lambda place: len(missing[place]))
    return UserError(
        f"{corpus}: {' and '.join(missing[place])} not found in {place}. {expected} "
        "Name the folder with `data_dir`."
    )


def aligned_lines(source_path: Path, target_path: Path) -> Iterator[Pair]:
    """Yield each line of one file with the same line of the other.

    Raises:
        UserError: if one file has more lines.
    """
    for source, target in zip_longest(read_lines(source_path), read_lines(target_path)):
        if source is None or target is None:
            counts = [sum(1 for _ in read_lines(path)) for path in (source_path, target_path)]
            raise UserError(
                "Parallel files must have the same number of lines, where line N of one is the "
                f"translation of line N of the other. Received: {source_path} with {counts[0]:,} "
                f"lines and {target_path} with {counts[1]:,}"
            )
        yield source, target


def tab_separated_pairs(
    path: Path, columns: tuple[int, int] | None = None, expected: str = "source TAB target"
) -> Iterator[Pair]:
    """Yield two columns of each line.

    Args:
        path: the file.
        columns: indices of the two columns, counted from 0. Defaults to the first two columns of
            lines that have no others.
        expected: the expected columns, for error messages.

    Raises:
        UserError: if a line has other columns.
    """
    first, second = columns or (0, 1)
    for number, line in enumerate(read_lines(path, f"lines of {expected}"), start=1):
        cells = line.split("\t")
        if (columns is None and len(cells) != 2) or len(cells) <= max(first, second):
            wanted = f"columns {first} and {second}" if columns else f"two columns, {expected}"
            raise UserError(
                f"{path}, line {number}: cannot read a sentence pair. Expected {wanted}. Received: "
                f"a line with {len(cells)} columns"
            )
        yield cells[first], cells[second]


def swap_sides(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yield each pair with its target first."""
    return ((target, source) for source, target in pairs)


def decode_lines(file: Iterable[bytes], name: str, first_number: int = 1) -> Iterator[str]:
    """Yield lines of UTF-8 text without byte order mark and line ends.

    A line ends at "\\n" only, so that the lines of both languages stay aligned: text mode also ends
    a line at a lone "\\r", and `str.splitlines` at U+2028, form feeds and other characters.

    Args:
        file: iterable of lines of bytes.
        name: name of the file, for error messages.
        first_number: number of the first line, for error messages.

    Raises:
        UserError: if the text is compressed or is not valid UTF-8.
    """
    for number, line in enumerate(file, start=first_number):
        if number == 1:
            if compression := _compression(line):
                raise UserError(f"{name} is compressed with {compression}. Decompress it first.")
            line = line.removeprefix(codecs.BOM_UTF8)
            if not line:  # the file contains only the mark
                return
        if _is_wide(line):
            raise UserError(
                f"{name}, line {number}: NUL or control bytes, as in UTF-16 and UTF-32. Convert "
                "the text to UTF-8, for example with `iconv -f UTF-16 -t UTF-8`."
            )
        try:
            yield line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}: cannot decode byte 0x{line[error.start]:02x} as UTF-8. "
                "Convert the text to UTF-8, for example with iconv."
            ) from None


def _compression(start: bytes) -> str | None:
    """Return the name of the compression that starts with these bytes, or None."""
    found = (name for name, (magic, _) in _COMPRESSIONS.items() if re.match(magic, start))
    return next(found, None)


def _is_wide(line: bytes) -> bool:
    """Return whether a line must be in UTF-16 or UTF-32. (Any text may have stray controls.)"""
    # UTF-16 has its controls, the high bytes of letters, at every second byte.
    halves = line[::2], line[1::2]
    num_controls = max(len(half) - len(half.translate(None, _CONTROLS)) for half in halves)
    return line.count(0) > 1 or (num_controls > 1 and 3 * num_controls > len(line))


def read_lines(path: Path, expected: str = "one sentence per line") -> Iterator[str]:
    """Yield the lines of a file as `decode_lines` does.

    Raises:
        UserError: if the file is empty or cannot be read.
    """
    is_empty = True
    with readable(path) as file:
        for line in decode_lines(file, str(path)):
            is_empty = False
            yield line
    if is_empty:
        raise UserError(f"The file {path} is empty. Expected {expected}.")


@contextlib.contextmanager
def readable(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file with `open_bytes`; raise a `UserError` with the reason if that fails."""
    try:
        with open_bytes(path) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"Cannot read the file {path}: it does not exist.") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"Cannot read the file {path}: {reason}.") from None


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file for reading bytes, decompressing gzip, bzip2 and xz."""
    with open(path, "rb") as file:
        # Peek instead of reading: a pipe cannot be read twice.
        compression = _compression(file.peek(_MAGIC_LENGTH))
        opener = _COMPRESSIONS[compression][1] if compression else None
        if opener is None:
            yield file
            return
        with opener(file) as decompressed:
            yield decompressed
