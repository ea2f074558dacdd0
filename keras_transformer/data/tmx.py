"""Translation memories in TMX 1.4, read one unit at a time."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from keras_transformer.data.text_files import Pair, readable
from keras_transformer.errors import UserError

_CHUNK = 1 << 16
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
    reader, wanted = _Reader(path), (source_language, target_language)
    is_empty, languages = True, set()
    with readable(path) as file:
        while chunk := file.read(_CHUNK):
            for unit in reader.feed(chunk):
                languages.update(unit)
                source, target = (_in_language(unit, language) for language in wanted)
                if source is not None and target is not None:
                    is_empty = False
                    yield source, target
        reader.feed(b"", is_last=True)
    if is_empty:
        raise UserError(
            f"{path} contains no unit in both languages. Expected: {source_language} and "
            f"{target_language}. Received: {', '.join(sorted(languages)) or 'no language'}"
        )


class _Reader:
    """A parser that returns the units, dicts of text by language, which each chunk completes."""

    def __init__(self, path: Path):
        self._path = path
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._refuse_entity
        self._units: list[dict[str, str]] = []
        self._unit: dict[str, str] = {}
        self._language: str | None = None
        self._segment: list[str] | None = None  # the parts of the text of a `seg`
        self._code: list[str] = []
        self._code_type: str | None = None  # the parts of a code's own text, and its type
        self._code_depth = 0

    def feed(self, chunk: bytes, is_last: bool = False) -> list[dict[str, str]]:
        try:
            self._parser.Parse(chunk, is_last)
        except UserError:
            raise
        except (expat.ExpatError, LookupError, ValueError) as error:  # or an unknown encoding
            raise UserError(f"{self._path} is not a complete TMX file: {error}.") from None
        units, self._units = self._units, []
        return units

    def _start(self, name, attributes):
        name = _local(name)
        if name == "tu":
            self._unit = {}
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang")
        elif name == "seg":
            self._segment, self._code_depth = [], 0
        elif self._code_depth or name in _CODE:
            if not self._code_depth:
                self._code, self._code_type = [], attributes.get("type")
            self._code_depth += 1

    def _end(self, name):
        name = _local(name)
        if name == "tu":
            self._units.append(self._unit)
        elif name == "seg":
            text = _LINE_ENDS.sub(" ", "".join(self._segment or ())).strip(" ")
            if self._language:
                self._unit.setdefault(self._language, text)
            self._segment = None
        elif self._code_depth:
            self._code_depth -= 1
            if self._segment is not None and not self._code_depth:
                self._segment.append(_text_of_code(name, self._code_type, "".join(self._code)))

    def _text(self, text):
        if self._code_depth == 1:  # Deeper text is a `sub`, an independent text such as a footnote.
            self._code.append(text)
        elif self._segment is not None and not self._code_depth:
            self._segment.append(text)

    def _refuse_entity(self, name, *_):
        raise UserError(
            f"{self._path} must not declare entities, with which a small file could expand to a "
            "huge text. Replace them in the file and remove the declarations. Received: the "
            f"entity {name!r}"
        )


def _local(name: str) -> str:
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
