"""Translation memories in TMX 1.4, read one unit at a time."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
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
        if _local(name) == "tu":
            builder = TreeBuilder()
            builder.start(name, attributes)
            parser.StartElementHandler = builder.start
            parser.CharacterDataHandler = builder.data
            parser.EndElementHandler = partial(end, builder)

    def end(builder: TreeBuilder, name: str) -> None:
        builder.end(name)
        if _local(name) == "tu":
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
        for chunk in iter(partial(file.read, _CHUNK), b""):
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
            for code in [x for x in segment.iter() if _local(x.tag) in _CODE]:
                # Elements in a code are `sub`, an independent text such as a footnote.
                own = (code.text or "") + "".join(x.tail or "" for x in code)
                code.text = _text_of_code(_local(code.tag), code.get("type"), own)
                code[:] = []
            text = _LINE_ENDS.sub(" ", "".join(segment.itertext())).strip(" ")
            segments.setdefault(language, text)
    return segments


def _named(element: Element, name: str) -> list[Element]:
    return [x for x in element if _local(x.tag) == name]


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
