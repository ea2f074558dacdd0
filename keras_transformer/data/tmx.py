"""Translation memories (TMX 1.4): XML, read unit by unit."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from keras_transformer.data.text_files import Pair, readable
from keras_transformer.errors import UserError

_CHUNK = 1 << 16
# What stands in them is code of another format, not text. (`hi` is text.)
_CODE = frozenset(("bpt", "ept", "it", "ph", "ut"))
_PLACEHOLDER = "ph"  # the code that stands for something: `%s`, but also `<br/>`
_LINE_ENDS = re.compile(r"[ \t]*[\r\n]+[ \t]*|\t+")
# Codes that separate words: TMX's types for line, page and column breaks; white space, also
# escaped; and HTML's tags for lines, paragraphs and cells.
_BREAK_TYPES = frozenset(("lb", "pb", "cb"))
_BREAK = re.compile(
    r"[\n\r\t]|\\[nrt](?![a-z])|</?(?:br|hr|p|div|h[1-6]|li|ul|ol|table|tr|td|th|tab)\b[^<>]*>",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"(?:<[^<>]*>|\{\\[^{}]*\}|\s)*")  # tags, or groups of RTF


def translation_units(path: Path, source_language: str, target_language: str) -> Iterator[Pair]:
    """The pairs of a `.tmx` file, plain or compressed: a unit at a time, whatever the file's size.

    Nothing in the file can grow beyond its size or reach for another: a file that declares an
    entity is refused, and expat reads no external ones. A language is found as it is called or,
    first come, with a region: `en` in `en-US`. Units that lack one of the two give no pair.

    Raises:
        UserError: if the file is missing, is no XML, declares entities, or has no pair.
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
            f"{path} has no unit in both {source_language} and {target_language}. Its languages "
            f"are: {', '.join(sorted(languages)) or 'none'}."
        )


class _Reader:
    """Gives the units, dicts of language and text, that are whole after each part of a file."""

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
        except (expat.ExpatError, LookupError, ValueError) as error:  # or an encoding it has not
            raise UserError(f"{self._path} is no whole TMX file: {error}.") from None
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
        if self._code_depth == 1:  # Deeper is `sub`: a text of its own, such as a footnote.
            self._code.append(text)
        elif self._segment is not None and not self._code_depth:
            self._segment.append(text)

    def _refuse_entity(self, name, *_):
        raise UserError(
            f"{self._path} declares the entity {name!r}, of which a small file could make a huge "
            "text. Replace what it stands for in the file, and take out the declaration."
        )


def _local(name: str) -> str:
    """The name of an element without the prefix of its namespace."""
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
