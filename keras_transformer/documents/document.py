"""The common part of all documents: units, and text whose units are replaced in place."""

import codecs
import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.documents.fragments import Fragment, visible
from keras_transformer.errors import UserError

LONGEST_UNIT = 100_000  # characters
_HEAD_BYTES = 4096
Edit = tuple[int, int, str]  # the start and stop of a place in a text, and its new text
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    *((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
    *((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
)


class Document:
    """A file as a list of units, the texts to translate.

    Args:
        path: the file.
        encoding: the encoding of a text file that declares none. Defaults to UTF-8.

    Attributes:
        units: list of strings.
        markup: None if units are plain text; `"html"` if they are HTML fragments, with inline tags
            and escaped `&`, `<` and `>`; or `"markdown"`.
        language: the language of the translations that the file declares, or None.
        skipped: `Counter` of the texts that are not units, by reason.
        remarks: list of further observations.

    Raises:
        UserError: if the file cannot be read or is damaged.
    """

    markup: str | None = None

    def __init__(self, path: Path, encoding: str | None = None):
        self.path = path
        self.encoding = encoding
        self.units: list[str] = []
        self.language: str | None = None
        self.skipped: Counter[str] = Counter()
        self.remarks: list[str] = []
        self._places: list[Any] = []
        self._read()

    def _read(self) -> None:
        raise NotImplementedError

    def render(self, translations: Sequence[str | None], path: Path) -> None:
        """Write the file with translations in the places of the units.

        Args:
            translations: one string per unit, or None for a unit that stays as it is.
            path: the file to write.
        """
        raise NotImplementedError

    def _error(self, place: Any, problem: str) -> UserError:
        """Return an error that names the file and the place in it."""
        return UserError(f"{self.path}, {self._describe(place)}: {problem}")

    def _describe(self, place: Any) -> str:
        return str(place)

    def _add(self, unit: str, place: Any) -> bool:
        """Add a unit, and return whether it is one: a text with a letter."""
        if not any(map(str.isalpha, visible(unit) if self.markup == "html" else unit)):
            self.skipped["without letters"] += bool(unit.strip())
            return False
        if len(unit) > LONGEST_UNIT:
            raise self._error(
                place, f"a text of {len(unit):,} characters. Expected at most {LONGEST_UNIT:,}"
            )
        self.units.append(unit)
        self._places.append(place)
        return True

    def _restored(
        self, fragment: Fragment, translation: str | None, piece: Callable[[slice], str]
    ) -> str | None:
        """Return `Fragment.restored` or None, and count the translations whose tags differ."""
        if translation is None:
            return None
        restored = fragment.restored(translation, piece)
        self.skipped["with other tags after translation"] += restored is None
        return restored


class TextDocument(Document):
    """A document in a text format. The place of a unit is its (start, stop) in `text`."""

    _encoding = re.compile(rb"(?!)")  # finds the encoding that the beginning of a file declares

    def _read(self) -> None:
        data = self.path.read_bytes()
        mark, name = next((x for x in _MARKS if data.startswith(x[0])), (b"", None))
        self._mark = mark
        self._codec = name or self.encoding or self._declared(data) or "utf-8"
        data = data.removeprefix(mark)
        try:
            self.text = data.decode(self._codec)
        except LookupError:
            raise UserError(f"{self.path} has an unknown encoding: {self._codec!r}.") from None
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise UserError(
                f"{self.path}, line {line}: cannot decode byte 0x{data[error.start]:02x} as "
                f"{self._codec}. Convert the text to UTF-8, or pass its `encoding`."
            ) from None
        if self.text.count("\0") > 1:
            raise self._error((self.text.index("\0"), 0), "NUL bytes. Expected text, in UTF-8")
        self._find_units()

    def _find_units(self) -> None:
        raise NotImplementedError

    def _declared(self, data: bytes) -> str | None:
        found = self._encoding.search(data[:_HEAD_BYTES])
        return found[1].decode() if found else None

    def _describe(self, place: Any) -> str:
        return f"line {self.text.count(chr(10), 0, place[0]) + 1}"

    def _check_lines(self, pattern: str = r"[^\n]", name: str = "line") -> None:
        """Raise a `UserError` for a line that is longer than the longest unit."""
        if found := re.search(rf"{pattern}{{{LONGEST_UNIT + 1}}}", self.text):
            problem = f"a {name} of over {LONGEST_UNIT:,} characters. Expected a shorter one"
            raise self._error(found.span(), problem)

    def render(self, translations: Sequence[str | None], path: Path) -> None:
        path.write_bytes(self._mark + self._encoded(self._rendered(translations)))

    def _rendered(self, translations: Sequence[str | None]) -> str:
        edits = [
            (*place, self._replacement(index, text))
            for index, (place, text) in enumerate(zip(self._places, translations))
            if text is not None
        ]
        return splice(self.text, edits)

    def _replacement(self, index: int, translation: str) -> str:
        """Return the text that takes the place of a unit."""
        return translation

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode(self._codec)
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise UserError(
                f"{self.path} is in {self._codec}, which lacks {text[error.start]!r}, in line "
                f"{line} of the translation. Convert the file to UTF-8 first."
            ) from None


class PlainText(TextDocument):
    """A text file, whose units are its lines."""

    def _find_units(self) -> None:
        for line in re.finditer(r"[^\s][^\r\n]*", self.text):
            stop = line.start() + len(line[0].rstrip())
            self._add(self.text[line.start() : stop], (line.start(), stop))


def splice(text: str, edits: Iterable[Edit], start: int = 0, stop: int | None = None) -> str:
    """Return a part of a text with other texts at some places, which must be in order."""
    parts = []
    for begin, end, new in edits:
        parts += [text[start:begin], new]
        start = end
    return "".join([*parts, text[start:stop]])


def required(module: str, package: str) -> Any:
    """Import a module of the extra `documents`, or raise a `UserError` that names its package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"This format requires {package}. Install it: pip install {package}, or this package "
            "with its extra `documents`."
        ) from error


def parse_xml(data: bytes, name: str) -> Any:
    """Parse XML with lxml, without entities, which could expand it or read other files.

    Args:
        data: the content.
        name: name of the file, for error messages.

    Returns:
        The root element.

    Raises:
        UserError: if the content is not XML or declares entities.
    """
    etree = required("lxml.etree", "lxml")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        line = f", line {number}" if (number := getattr(error, "lineno", None)) else ""
        raise UserError(
            f"{name}{line} is not valid XML: {str(error).partition(', line')[0]}."
        ) from None
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and (entity := next(iter(dtd.iterentities()), None)) is not None:
        raise UserError(
            f"{name} must not declare entities, with which a small file could expand to a huge "
            f"text. Replace them and remove the declarations. Received: the entity {entity.name!r}"
        )
    return root


def local_name(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]
