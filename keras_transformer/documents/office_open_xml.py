"""Word and PowerPoint files: the text of a paragraph between tabs and line breaks is a unit."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from keras_transformer.documents.markup import (
    Attribute,
    Event,
    Piece,
    divided,
    escape_xml,
    escape_xml_attribute,
    joined,
    trimmed,
)
from keras_transformer.documents.text_part import Edit, TextPart, Unit, splice
from keras_transformer.documents.xml_events import xml_events
from keras_transformer.documents.zipped import ZippedDocument, validate_depth
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText, Span

# Parts of the content types of main parts, of parts with texts, and of parts that are counted.
_MAIN = re.compile(r"(wordprocessingml|presentationml|ms-word|ms-powerpoint)\b.*\bmain\+xml$")
_PARTS = re.compile("(wordprocessing|presentation|drawing)ml|ms-word|ms-powerpoint|chartex|core-p")
_COUNTED = (("omments", "in comments"), ("document.glossary", "in the glossary"))
_LAYOUTS = re.compile("(slide|notes|handout)(Master|Layout)")

# Namespaces of paragraphs, also in the strict form.
_PARAGRAPH = re.compile("/(wordprocessingml|drawingml)(/2006)?/main$")
# The roles of elements in paragraphs, by the role of the element around them. Hints about the last
# layout and checks have none.
_IGNORED = ("pPr", "endParaRPr", "proofErr", "lastRenderedPageBreak", "softHyphen")
_ANYWHERE = dict.fromkeys(_IGNORED, "") | dict.fromkeys(("br", "tab", "cr", "ptab"), "break")
_AROUND_RUNS = {
    **dict.fromkeys(("del", "moveFrom", "fldSimple", "fld"), "kept"),
    **{**_ANYWHERE, "r": "run", "": "around"},  # "" stands for all others
}
_ROLES = {
    "format": {"": "format"},
    "run": {**_ANYWHERE, "rPr": "format", "t": "text", "noBreakHyphen": "text", "": "kept"},
    **{"paragraph": _AROUND_RUNS, "around": _AROUND_RUNS, "content": _AROUND_RUNS},
}
_WORDS = ("fldSimple", "fld", "sym", "ruby", "oMath", "oMathPara")  # They stand for words.
_TEXTS = ("t", "delText", "text", "v", "pt")
_REASONS = {
    **dict.fromkeys(("del", "moveFrom", "delText"), "in deleted text"),
    **dict.fromkeys(("fldSimple", "fld"), "in fields"),
    **dict.fromkeys(("oMath", "oMathPara"), "in formulas"),
    **dict.fromkeys(("v", "pt"), "in the data of charts"),
    "ruby": "in ruby text",
}
_ATTRIBUTES = {
    **dict.fromkeys(("docPr", "cNvPr"), ("descr", "title")),
    "textpath": ("string",),
}
_PROPERTIES = ("title", "subject", "description", "keywords")
# What declares a language, and attributes of a format that do not change how its text looks.
_LANGUAGES = ("lang", "themeFontLang")
_HINTS = re.compile("(.*:)?(lang|altLang|dirty|err|smtClean|smtId|noProof|hint)")


class OfficeOpenXml(ZippedDocument):
    """A Word or PowerPoint file."""

    def _read_parts(self) -> None:
        types = self._types()
        if not any(map(_MAIN.search, types.values())):
            raise UserError(
                f"{self.path} has no main document. Expected a Word or PowerPoint file, whose "
                "[Content_Types].xml declares one."
            )
        for name, kind in types.items():
            if kind.endswith("xml") and _PARTS.search(kind):
                part = _Part(self._text(name), self._name(name))
                _Reader(part, kind).read(xml_events(part.text, part.name))
                self._keep(name, part)

    def _types(self) -> dict[str, str]:
        """Return the content types of the members."""
        types = "[Content_Types].xml"
        found: dict[str, str] = {}
        for event in xml_events(self._text(types), self._name(types)):
            name = event.get("PartName") or f".{event.get('Extension')}"
            found[name.lower()] = event.get("ContentType") or ""
        names = {name: (f"/{name}", f".{name.rpartition('.')[2]}") for name in self.names}
        return {
            name: found.get(path.lower()) or found.get(ending.lower(), "")
            for name, (path, ending) in names.items()
        }


@dataclass(eq=False)
class _Run:
    """A run of characters with one format.

    Attributes:
        tag: qualified name of its element.
        space: attribute of its texts, in which white space counts.
        start: index of its beginning in the text.
        stop: index of the end of its start tag and format, which are its head.
        format: its format, without languages.
        languages: beginnings of the places of languages in its head.
        is_used: whether a piece began in it.
    """

    tag: str
    space: str
    start: int
    stop: int
    format: str = ""
    languages: list[int] = field(default_factory=list)
    is_used: bool = False


@dataclass(eq=False)
class _Piece(Piece):
    """A piece of a paragraph.

    Attributes:
        run: the run of a text.
        before: the run in which the piece begins, or None if it begins outside of runs.
        after: the run in which it ends, likewise.
        is_break: whether a unit ends here.
    """

    run: _Run | None = None
    before: _Run | None = None
    after: _Run | None = None
    is_break: bool = False


class _Content(NamedTuple):
    """The content of a span: a name, which the halves of a pair share, and its runs.

    Attributes:
        format: the run of a text, if the span is for nothing but its format.
    """

    name: str
    before: _Run | None = None
    after: _Run | None = None
    format: _Run | None = None


class _Place(NamedTuple):
    """The surroundings of a unit: runs, and white space.

    Attributes:
        run: the first run with the format of most of the unit.
    """

    run: _Run
    before: _Run | None
    after: _Run | None
    left: str
    right: str


class _Part(TextPart):
    """A part whose units are replaced by runs."""

    def __init__(self, text: str, name: str):
        super().__init__(text, name)
        self.places: dict[int, _Place] = {}  # by the beginnings of units
        self._edits: dict[int, Edit] = {}

    def rendered(
        self, translations: Sequence[MarkedText | None], edits: Sequence[Edit] = ()
    ) -> str:
        self._edits = {edit[0]: edit for edit in edits}
        return super().rendered(translations, edits)

    def replacement(
        self, unit: Unit, translation: MarkedText, write: Callable[[Span], str]
    ) -> str | None:
        if not (place := self.places.get(unit.start)):  # an attribute or a property
            return super().replacement(unit, translation, write)
        current, runs = place.before, [place.run]
        tag, space = f"{place.run.tag[:-1]}t", place.run.space

        def enter(run: _Run | None) -> str:
            """Return the tags between the current run and another one."""
            nonlocal current
            if current and run and current.format == run.format:
                return ""
            end = f"</{current.tag}>" if current else ""
            current = run
            return end + (self._head(run) if run else "")

        def write_text(text: str) -> str:
            return enter(runs[-1]) + f"<{tag}{space}>{unit.escape(text)}</{tag}>" if text else ""

        def write_span(span: Span) -> str:
            nonlocal current
            if span.content.format:
                runs.append(span.content.format) if span.kind == "open" else runs.pop()
                return ""
            tags, current = enter(span.content.before), span.content.after
            return tags + write(span)

        spans = [(len(place.left) + position, span) for position, span in translation.spans]
        whole = MarkedText(place.left + translation.text + place.right, spans)
        return whole.written(write_text, write_span) + enter(place.after)

    def _head(self, run: _Run) -> str:
        edits = [self._edits[start] for start in run.languages if start in self._edits]
        return splice(self.text, edits, run.start, run.stop)


class _Paragraph:
    """An open paragraph, whose elements become pieces.

    Args:
        field: the piece of a field that an earlier paragraph has left open, or None.
    """

    def __init__(self, field: _Piece | None):
        self.pieces = [field] if field else []
        self.run: _Run | None = None
        self.level = 0  # number of open elements around runs
        self.field = field  # the open field
        self.field_level = 0

    def add(self, event: Event, kind: Any = None) -> _Piece | None:
        """Add a piece that begins with an event, unless it is part of a field."""
        start, before = event.start, self.run
        if self.run and not self.run.is_used:
            start, before = self.run.start, None
            self.run.is_used = True
        if self.field:
            return None
        span = Span("", kind, content=event) if kind else None
        self.pieces.append(_Piece(start, event.stop, span=span, before=before, after=self.run))
        return self.pieces[-1]

    def add_text(self, event: Event, stop: int, text: str) -> None:
        """Add a text to the one before it, if both have one format or it is a space."""
        last = self.pieces[-1] if self.pieces else None
        if not text or not (piece := self.add(event)) or not self.run:
            return
        if last and last.run and (text == " " or last.run.format == self.run.format):
            piece = last
            self.pieces.pop()
        else:
            piece.run = self.run
        piece.text, piece.stop, piece.after = piece.text + text, stop, self.run

    def end_run(self, stop: int) -> None:
        """End the run, and the piece that it ends with."""
        last = self.pieces[-1] if self.pieces else None
        if last and last.after is self.run and not self.field:
            last.stop, last.after = stop, None
        self.run = None

    def end_field(self, stop: int) -> None:
        """End the field. It stays in its place if it began around other elements."""
        if self.field:
            self.field.stop, self.field.after = stop, self.run
            self.field.is_break |= self.level != self.field_level
        self.field = None

    def end_around(self, start: int, event: Event) -> None:
        """End an element around runs."""
        self.level -= 1
        if self.field and self.level >= self.field_level:
            return
        if self.field:
            self.field.is_break, self.field_level = True, self.level
        self.pieces.append(_Piece(start, event.stop, span=Span("", "close", content=event)))


@dataclass(eq=False)
class _Element:
    """An open element.

    Attributes:
        role: `"paragraph"`, `"run"`, `"text"`, `"format"`, `"break"`, `"around"` for an element
            around runs, `"head"` for its properties, `"content"` for an element around all of its
            content, `"kept"` for another one in a paragraph, or `""`.
        piece: the piece that it begins.
        stop: index of the end of its content, if this is in an element of its own.
    """

    event: Event
    role: str = ""
    piece: _Piece | None = None
    stop: int = 0
    is_counted: bool = False


class _Reader:
    """The reader of the units of a part.

    Args:
        part: the part.
        kind: its content type.
    """

    def __init__(self, part: _Part, kind: str):
        self.part = part
        self.is_layout = bool(_LAYOUTS.search(kind))
        self.reason = next((reason for name, reason in _COUNTED if name in kind), "")
        self.properties = (*_PROPERTIES, "language") if "core-p" in kind else ()
        self.elements = [_Element(Event("start", 0, 0))]
        self.paragraphs: list[_Paragraph] = []
        self.fields: list[int] = []  # for each open paragraph, the number of open fields
        self.text = ""

    def read(self, events: Iterable[Event]) -> None:
        """Find the units of the part."""
        for event in events:
            if event.kind in ("start", "empty"):
                element = _Element(event, self._role(event, self.elements[-1]))
                self._read_attributes(event, element.role)
                self._call("open", element)
                self.elements.append(element)
            if event.kind in ("end", "empty"):
                element = self.elements.pop()
                self._call("close", element, event)
            elif event.kind in ("text", "cdata"):
                self._read_text(event)

    def _call(self, verb: str, element: _Element, *event: Event) -> None:
        """Call the method for an element, the innermost open paragraph, and the parent."""
        if method := getattr(self, f"_{verb}_{element.role}", None):
            method(element, self.paragraphs[-1] if self.paragraphs else None, *event)

    def _role(self, event: Event, parent: _Element) -> str:
        """Return the role of an element."""
        is_main = bool(_PARAGRAPH.search(event.namespace))
        if is_main and event.name == "p":
            return "paragraph"
        roles = _ROLES.get(parent.role, {"": ""})
        role = roles.get(event.name, roles[""])
        if role == "around" and parent.piece and parent.piece is self.paragraphs[-1].pieces[-1]:
            if event.name == "sdtContent" or event.name.endswith("Pr"):
                return "content" if event.name == "sdtContent" else "head"
        return "kept" if role == "around" and not (is_main and event.kind == "start") else role

    def _open_(self, element: _Element, _: Any) -> None:
        if self.is_layout and element.event.name in ("sp", "ph"):
            self.reason = "in placeholders of layouts" if element.event.name == "ph" else ""

    def _open_paragraph(self, element: _Element, _: Any) -> None:
        depth, place = len(self.paragraphs), element.event.stop
        validate_depth(self.part, element.event, depth)
        del self.fields[depth + 1 :]
        self.fields += [0] if len(self.fields) == depth else []
        field = _Piece(place, place, is_break=True) if self.fields[depth] else None
        self.paragraphs.append(_Paragraph(field))

    def _open_run(self, element: _Element, paragraph: _Paragraph) -> None:
        start, stop = element.event.start, element.event.stop
        tag = re.split(r"[\s/>]", self.part.text[start + 1 : stop], maxsplit=1)[0]
        space = ' xml:space="preserve"' if "/word" in element.event.namespace else ""
        paragraph.run = _Run(tag, space, start, stop)

    def _open_text(self, element: _Element, _: Any) -> None:
        self.text = "\u2011" if element.event.name == "noBreakHyphen" else ""

    def _open_break(self, element: _Element, paragraph: _Paragraph) -> None:
        if piece := paragraph.add(element.event):
            piece.is_break = True

    def _open_around(self, element: _Element, paragraph: _Paragraph) -> None:
        element.piece = paragraph.add(element.event, "open")
        paragraph.level += 1

    def _open_content(self, element: _Element, paragraph: _Paragraph) -> None:
        paragraph.pieces[-1].stop = element.event.stop

    def _open_kept(self, element: _Element, paragraph: _Paragraph) -> None:
        is_field = _field_type(element.event) == "begin"
        is_word = is_field or element.event.name in _WORDS
        piece = paragraph.add(element.event, "placeholder" if is_word else "mark")
        self.fields[-1] += is_field
        if is_field and piece:
            paragraph.field, paragraph.field_level = piece, paragraph.level
        else:
            element.piece = piece

    def _close_paragraph(self, element: _Element, paragraph: _Paragraph, event: Event) -> None:
        self.paragraphs.pop()
        self._finish(paragraph)

    def _close_run(self, element: _Element, paragraph: _Paragraph, event: Event) -> None:
        paragraph.end_run(event.stop)

    def _close_text(self, element: _Element, paragraph: _Paragraph, event: Event) -> None:
        paragraph.add_text(element.event, event.stop, self.text)

    def _close_format(self, element: _Element, paragraph: _Paragraph, event: Event) -> None:
        if paragraph.run and self.elements[-1].role == "run":
            paragraph.run.stop = event.stop

    def _close_around(self, element: _Element, paragraph: _Paragraph, event: Event) -> None:
        paragraph.end_around(element.stop or event.start, event)

    def _close_head(self, element: _Element, paragraph: _Paragraph, event: Event) -> None:
        paragraph.pieces[-1].stop = event.stop

    def _close_content(self, element: _Element, paragraph: _Paragraph, event: Event) -> None:
        self.elements[-1].stop = event.start

    def _close_kept(self, element: _Element, paragraph: _Paragraph, event: Event) -> None:
        if element.piece:
            element.piece.stop = event.stop
        if _field_type(element.event) == "end" and self.fields[-1]:
            self.fields[-1] -= 1
            if not self.fields[-1]:
                paragraph.end_field(event.stop)

    def _read_attributes(self, event: Event, role: str) -> None:
        """Read the texts, languages and formats in the attributes of a tag."""
        for name in () if self.reason else _ATTRIBUTES.get(event.name, ()):
            if value := event.attributes.get(name):
                marked = MarkedText(value.value)
                self.part.add(marked, value.start, value.stop, escape_xml_attribute)
        language = _attribute(event, "val" if event.name in _LANGUAGES else "lang")
        if language:
            self.part.languages.append((language.start, language.stop))
        if role == "format" and (run := self.paragraphs[-1].run):
            run.languages += [language.start] if language else []
            run.format += _format(event)

    def _read_text(self, event: Event) -> None:
        element, text = self.elements[-1], event.text
        if element.role == "text" and not self.paragraphs[-1].field:
            self.text += text
        elif element.event.name in self.properties:
            start = event.start + len(text) - len(text.lstrip())
            stop = event.start + len(text.rstrip())
            if element.event.name == "language":
                self.part.languages.append((start, stop))
            else:
                self.part.add(MarkedText(text.strip()), start, stop, escape_xml)
        elif element.event.name in _TEXTS and any(map(str.isalpha, text)):
            self._count(element)

    def _count(self, element: _Element) -> None:
        """Count the text of an element that is not translated."""
        if not element.is_counted:
            element.is_counted = True
            names = [x.event.name for x in self.elements[:-20:-1]]
            found = next((_REASONS[x] for x in names if x in _REASONS), "in other elements")
            found = "in fields" if element.role == "text" else found
            self.part.skipped[self.reason or found] += 1

    def _finish(self, paragraph: _Paragraph) -> None:
        """Add the units of a paragraph."""
        pieces = paragraph.pieces
        if self.reason:
            self.part.skipped[self.reason] += any(x.isalpha() for p in pieces for x in p.text)
            return
        if paragraph.field:
            paragraph.field.is_break = True
        for piece in pieces:
            if span := piece.span:
                span.start, span.stop = piece.start, piece.stop
                span.raw = self.part.text[span.start : span.stop]
                span.content = _Content(span.content.name, piece.before, piece.after)
        begin = 0
        for end in [*(i for i, x in enumerate(pieces) if x.is_break), len(pieces)]:
            for unit in divided(pieces[begin:end]):
                self._add(unit)
            begin = end + 1

    def _add(self, pieces: Sequence[_Piece]) -> None:
        """Add a unit."""
        if not (base := _most_frequent(pieces)):
            return
        pieces = trimmed([new for piece in pieces for new in _with_format(piece, base)])
        text, spans = joined(pieces)
        first, last = pieces[0], pieces[-1]
        left = len(text) - len(text.lstrip()) if first.text else 0
        right = len(text.rstrip()) if last.text else len(text)
        marked = MarkedText(text[left:right], tuple((at - left, span) for at, span in spans))
        if self.part.add(marked, first.start, last.stop, escape_xml):
            place = _Place(base, first.before, last.after, text[:left], text[right:])
            self.part.places[first.start] = place


def _attribute(event: Event, name: str) -> Attribute | None:
    """Return the attribute with a name and any prefix."""
    found = (value for key, value in event.attributes.items() if key.rpartition(":")[2] == name)
    return next(found, None)


def _format(event: Event) -> str:
    """Return the properties of a run in a tag, except those that do not change how it looks."""
    seen = [(k, v.value) for k, v in event.attributes.items() if not _HINTS.fullmatch(k)]
    is_hint = event.name in ("lang", "noProof") or (event.name == "rPr" and not seen)
    return "" if is_hint else f"{event.name}{seen}"


def _field_type(event: Event) -> str | None:
    found = _attribute(event, "fldCharType") if event.name == "fldChar" else None
    return found and found.value


def _most_frequent(pieces: Sequence[_Piece]) -> _Run | None:
    """Return the first run with the format of most of a text, or None if it is blank."""
    lengths: Counter[str] = Counter()
    runs: dict[str, _Run] = {}
    for piece in pieces:
        if piece.run and piece.text.strip():
            lengths[piece.run.format] += len(piece.text.strip())
            runs.setdefault(piece.run.format, piece.run)
    return runs[max(lengths, key=lengths.__getitem__)] if runs else None


def _with_format(piece: _Piece, base: _Run) -> list[_Piece]:
    """Return a piece with the spans of its format, if it is not the one of most of its unit."""
    if not piece.run or piece.run.format == base.format:
        return [piece]
    content = _Content(piece.run.format, format=piece.run)
    opening = Span(piece.run.tag, "open", piece.start, piece.start, content=content)
    closing = Span(piece.run.tag, "close", piece.stop, piece.stop, content=content)
    return [
        _Piece(piece.start, piece.start, span=opening, before=piece.before),
        piece,
        _Piece(piece.stop, piece.stop, span=closing, after=piece.after),
    ]
