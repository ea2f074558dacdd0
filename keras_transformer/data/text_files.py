"""Text files of corpora: finding them, and reading them line by line."""

import codecs
import gzip
import zlib
from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from keras_transformer.errors import UserError

Pair = tuple[str, str]  # A sentence and its translation.


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
    """The files of these names that lie together in the corpus's own folder or in `data_dir`."""
    if data_dir is None:
        return None
    check_folder(data_dir)
    # The corpus's folder goes first: a train.en beside it may be of another corpus.
    for place in (data_dir / corpus, data_dir):
        paths = [place / name for name in names]
        if all(path.is_file() for path in paths):
            return paths
    return None


def missing_files(data_dir: Path | None, corpus: str, names: list[str], expected: str) -> UserError:
    """The error to raise where `find_files` found none; `expected` says what they should hold."""
    if data_dir is None:
        files = " and ".join(names)
        return UserError(f"{corpus} needs `data_dir`, the folder that holds {files}. {expected}")
    missing = {
        place: [name for name in names if not (place / name).is_file()]
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


def tab_separated_pairs(path: Path) -> Iterator[Pair]:
    """The two columns, English and German, of each line."""
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(
                f"{path}, line {number}: expected two columns, English TAB German, "
                f"but found {len(columns)}. Keep the first two columns of the original file only."
            )
        yield columns[0], columns[1]


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
    try:
        with open_bytes(path) as file:
            for line in decode_lines(file, str(path)):
                is_empty = False
                yield line
    except FileNotFoundError:
        raise UserError(f"There is no file {path}. Check the path.") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"The file {path} could not be read: {reason}.") from None
    if is_empty:
        raise UserError(f"The file {path} is empty. Expected {expected}.")


def open_bytes(path: Path) -> BinaryIO:
    """Opens a file for reading bytes; one whose name ends in `.gz` is decompressed on the way."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")
