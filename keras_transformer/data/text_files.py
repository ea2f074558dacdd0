"""Files of corpora: finding them, and reading their lines, columns and translation units."""

import bz2
import codecs
import contextlib
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BufferedIOBase
from itertools import zip_longest
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from keras_transformer.data.text_cache import cache_key, file_key
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


class FilePairs(partial[Iterable[Pair]]):
    """A function of this module that starts a pass over files, with its arguments.

    Attributes:
        key: a key of the function, its arguments, and its files as they are now.
    """

    @property
    def key(self) -> str:
        arguments = [file_key(x) if isinstance(x, Path) else repr(x) for x in self.args]
        return cache_key(self.func.__name__, *arguments)


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


def swapped_columns(path: Path) -> Iterable[Pair]:
    """Return two columns of each line, with the second first."""
    return swap_sides(tab_separated_pairs(path))


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


# Translation memories in TMX 1.4, read one unit at a time

_READ_BYTES = 1 << 16
# Elements that contain code of another format instead of text. (`hi` contains text.)
_CODE = frozenset(("bpt", "ept", "it", "ph", "ut"))
_PLACEHOLDER = "ph"  # code that represents an item: `%s`, but also `<br/>`
_LINE_ENDS = re.compile(r"[ \t]*[\r\n]+[ \t]*|\t+")
# Codes that separate words: TMX's types for line, page and column breaks; white space, also
# escaped; and HTML tags for lines, paragraphs and cells.
_BREAK_TYPES = frozenset(("lb", "pb", "cb"))
_BREAK = re.compile(
    r"[\n\r\t]|\\[nrt](?![a-z])|</?(?:br|hr|p|div|h[1-6]|li|ul|ol|table|tr|td|th|tab)\b[^<>]*>",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"(?:<[^<>]*>|\{\\[^{}]*\}|\s)*")  # HTML tags or RTF groups


def translation_units(path: Path, source_language: str, target_language: str) -> Iterator[Pair]:
    """Yield the pairs of a `.tmx` file, plain or compressed, one unit at a time.

    Memory use does not depend on the size of the file. A file cannot expand beyond its size or read
    other files: entity declarations raise an error, and expat reads no external entities. A
    language matches its own code or, in the order of the unit, its code with a region: `en` matches
    `en-US`. Units without one of the two languages are skipped.

    Args:
        path: the file.
        source_language: language code of the source.
        target_language: language code of the target.

    Raises:
        UserError: if the file is missing, is not XML, declares entities, or contains no pair.
    """
    is_empty, languages = True, set()
    for unit in _units(path):
        languages.update(unit)
        source, target = (_in_language(unit, x) for x in (source_language, target_language))
        if source is not None and target is not None:
            is_empty = False
            yield source, target
    if is_empty:
        raise UserError(
            f"{path} contains no unit in both languages. Expected: {source_language} and "
            f"{target_language}. Received: {', '.join(sorted(languages)) or 'no language'}"
        )


def _units(path: Path) -> Iterator[dict[str, str]]:
    """Yield the text of each unit by language."""
    units: list[dict[str, str]] = []  # units that the current chunk completes

    def start(name: str, attributes: dict[str, str]) -> None:
        if _local_name(name) == "tu":
            builder = TreeBuilder()
            builder.start(name, attributes)
            parser.StartElementHandler = builder.start
            parser.CharacterDataHandler = builder.data
            parser.EndElementHandler = partial(end, builder)

    def end(builder: TreeBuilder, name: str) -> None:
        builder.end(name)
        if _local_name(name) == "tu":
            parser.EndElementHandler = parser.CharacterDataHandler = None
            parser.StartElementHandler = start
            units.append(_segments(builder.close()))

    def refuse_entity(name: str, *_: object) -> NoReturn:
        raise UserError(
            f"{path} must not declare entities, with which a small file could expand to a huge "
            "text. Replace them in the file and remove the declarations. Received: the entity "
            f"{name!r}"
        )

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EntityDeclHandler = start, refuse_entity
    with readable(path) as file:
        for chunk in iter(partial(file.read, _READ_BYTES), b""):
            _parse(parser, chunk, path)
            yield from units
            units.clear()
    _parse(parser, b"", path, is_last=True)


def _parse(parser: expat.XMLParserType, chunk: bytes, path: Path, is_last: bool = False) -> None:
    try:
        parser.Parse(chunk, is_last)
    except UserError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # or an unknown encoding
        raise UserError(f"{path} is not a complete TMX file: {error}.") from None


def _segments(unit: Element) -> dict[str, str]:
    """Return the text of a unit by language, from the first of its variants in each."""
    segments = {}
    for variant in _named(unit, "tuv"):
        language = variant.get("xml:lang") or variant.get("lang")
        for segment in _named(variant, "seg") if language else ():
            codes = segment.iter() if len(segment) else ()
            for code in [x for x in codes if _local_name(x.tag) in _CODE]:
                # Elements in a code are `sub`, an independent text such as a footnote.
                own = (code.text or "") + "".join(x.tail or "" for x in code)
                code.text = _text_of_code(_local_name(code.tag), code.get("type"), own)
                code[:] = []
            text = _LINE_ENDS.sub(" ", "".join(segment.itertext())).strip(" ")
            segments.setdefault(language, text)
    return segments


def _named(element: Element, name: str) -> list[Element]:
    return [x for x in element if _local_name(x.tag) == name]


def _local_name(name: str) -> str:
    """Return the name of an element without the prefix of its namespace."""
    return name.rpartition(":")[2]


def _text_of_code(name: str, type_: str | None, code: str) -> str:
    """Return the text that replaces a code: a line end, a placeholder, or nothing."""
    text = _BREAK.sub("\n", code)
    if name == _PLACEHOLDER and not _MARKUP.fullmatch(text):
        return text
    return "\n" if type_ in _BREAK_TYPES or "\n" in text else ""


def _in_language(unit: dict[str, str], language: str) -> str | None:
    wanted = _code(language)
    for fits in (wanted.__eq__, lambda code: code.startswith(f"{wanted}-")):
        for name, text in unit.items():
            if fits(_code(name)):
                return text
    return None


def _code(language: str) -> str:
    return language.lower().replace("_", "-")
