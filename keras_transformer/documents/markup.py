"""Units of texts with markup: the events of a parser, divided at elements that end a unit."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from keras_transformer.documents.text_part import TextPart
from keras_transformer.protection.spans import MarkedText, Span

_NOT_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_BLANK = ("mark", "separator")
_CDATA = ("<![CDATA[", "]]>")


class Attribute(NamedTuple):
    """The value of an attribute, and its place in the text without quotes."""

    value: str
    start: int
    stop: int


class Event(NamedTuple):
    """A piece of a text with markup, as its parser found it.

    Attributes:
        kind: `"start"`, `"end"` or `"empty"` for tags, `"text"`, `"cdata"` for the content of a
            CDATA section, which is not escaped, or `"other"`: a comment, a declaration, an
            instruction, or a character that has to stay as it is written.
        start: index of its beginning in the text.
        stop: index of its end. White space at the ends of a piece of text is written as it is, so
            that `&nbsp;` next to other characters is a piece of its own.
        name: local name of an element, without a prefix.
        text: the characters that a piece of text stands for.
        attributes: dict of names -> `Attribute`.
        namespace: of an element.
    """

    kind: str
    start: int
    stop: int
    name: str = ""
    text: str = ""
    attributes: Mapping[str, Attribute] = {}
    namespace: str = ""

    def get(self, name: str) -> str | None:
        """Return the value of an attribute, or None."""
        found = self.attributes.get(name)
        return None if found is None else found.value


def escape_xml(text: str) -> str:
    """Return how XML writes a text. Characters that XML cannot hold are dropped."""
    return html.escape(_NOT_XML.sub("", text), quote=False)


def escape_xml_attribute(text: str) -> str:
    """Return how XML writes the value of an attribute, in which a line end is a reference."""
    escaped = html.escape(_NOT_XML.sub("", text))
    return re.sub(r"[\t\n\r]", lambda x: f"&#{ord(x[0])};", escaped)


def _escape_cdata(text: str) -> str:
    return _NOT_XML.sub("", text).replace("]]>", "]]]]><![CDATA[>")


@dataclass(frozen=True)
class Rules:
    """The rules by which the events of a format become units.

    Attributes:
        is_inline: function of an `Event`, a tag, that returns whether it may be part of a unit.
        reason: function of an `Event`, a start tag, that returns why the content of its element is
            not translated, `""` if it is translated, and None if this depends on its parent.
        alone: function of an `Event`, a tag without an end, that returns the kind of its span.
        attributes: function of an `Event`, a tag, that returns the names of the attributes that
            are texts. It is also called for an outermost element that is not translated.
        escape: function of a text that returns how it is written. Defaults to the one of XML,
            which drops the control characters that XML cannot hold.
        escape_attribute: function of the value of an attribute, likewise.
        language: name of the attribute that declares the language of an element.
    """

    is_inline: Callable[[Event], bool] = lambda event: True
    reason: Callable[[Event], str | None] = lambda event: None
    alone: Callable[[Event], str] = lambda event: "mark"
    attributes: Callable[[Event], Iterable[str]] = lambda event: ()
    escape: Callable[[str], str] = escape_xml
    escape_attribute: Callable[[str], str] = escape_xml_attribute
    language: str = "lang"


@dataclass(eq=False)
class Piece:
    """A piece of a run, which may become part of a unit: text, or a `Span`."""

    start: int
    stop: int
    text: str = ""
    span: Span | None = None
    is_cdata: bool = False

    @property
    def is_half(self) -> bool:
        return self.span is not None and self.span.kind in ("open", "close")

    @property
    def is_blank(self) -> bool:
        """True if it is not needed at an end of a unit."""
        return not self.text.strip() if self.span is None else self.span.kind in _BLANK


P = TypeVar("P", bound=Piece)


class _Node(NamedTuple):
    """An event with what its parents and its other half say of it."""

    event: Event
    reason: str  # why its text is not translated
    owner: int  # index of the tag that gives the reason
    is_inline: bool = True


def add_units(part: TextPart, events: Iterable[Event], rules: Rules) -> None:
    """Find the units of a text with markup.

    A unit ends at each tag that is not inline, and at each whose other half is not in the same
    run. Tags and white space around a unit are not part of it. An inline element that is not
    translated is one span. Each outermost element that is not translated is counted, if it has a
    letter.

    Args:
        part: the `TextPart` to add the units to.
        events: the events of its text.
        rules: the rules of its format.
    """
    _Finder(part, rules, list(events)).read()


class _Finder:
    def __init__(self, part: TextPart, rules: Rules, events: list[Event]):
        self.part = part
        self.rules = rules
        self.partners: dict[int, int] = {}
        self.nodes = self._nodes(events)
        # The numbers of tags before each node that are not inline.
        self.blocks = list(accumulate((not x.is_inline for x in self.nodes), initial=0))
        self.counted: set[int] = set()

    def _nodes(self, events: list[Event]) -> list[_Node]:
        """Return the nodes, and find which tags belong together."""
        nodes: list[_Node] = []
        opened: list[int] = []
        names: Counter[str] = Counter()  # of the open elements
        for index, event in enumerate(events):
            parent = nodes[opened[-1]] if opened else _Node(event, "", -1)
            node = _Node(event, parent.reason, parent.owner)
            if event.kind in ("start", "empty"):
                node = self._tag(node, index)
                if event.kind == "start":
                    opened.append(index)
                    names[event.name] += 1
            elif event.kind == "end" and not names[event.name]:
                node = node._replace(is_inline=self.rules.is_inline(event))
            elif event.kind == "end":
                other, name = -1, None
                while name != event.name:  # Elements without an end tag end here, too.
                    other = opened.pop()
                    name = events[other].name
                    names[name] -= 1
                self.partners |= {index: other, other: index}
                node = nodes[other]._replace(event=event)
            nodes.append(node)
        return nodes

    def _tag(self, node: _Node, index: int) -> _Node:
        reason, is_inline = self.rules.reason(node.event), self.rules.is_inline(node.event)
        if reason is None or bool(reason) == bool(node.reason):
            return node._replace(is_inline=is_inline)
        return _Node(node.event, reason, index, is_inline)

    def read(self, first: int = 0, last: int | None = None, outer: str = "") -> None:
        """Find the units of the nodes from `first` to `last`, in an element kept as `outer`."""
        run: list[Piece] = []
        index, last = first, len(self.nodes) if last is None else last
        while index < last:
            node = self.nodes[index]
            self._read_attributes(node)
            if node.reason:
                index = self._read_kept(index, run, outer)
            elif node.is_inline:
                run.append(self._piece(node.event))
            else:
                self._end_run(run)
            index += 1
        self._end_run(run)

    def _read_kept(self, index: int, run: list[Piece], outer: str) -> int:
        """Read a node that is not translated, or its element, and return the index of the last."""
        node, end = self.nodes[index], self.partners.get(index, index)
        is_whole = node.event.kind in ("start", "empty") and node.owner == index
        if is_whole and not outer and self.blocks[index] == self.blocks[end + 1]:
            start, stop = node.event.start, self.nodes[end].event.stop
            run.append(self._span_piece("placeholder", start, stop, node.event))
            self._count(index, end)
            self.read(index + 1, end, node.reason)
            return end
        self._end_run(run)
        self._count(index, index)
        return index

    def _piece(self, event: Event) -> Piece:
        if event.kind in ("text", "cdata"):
            return Piece(event.start, event.stop, event.text, is_cdata=event.kind == "cdata")
        kinds = {"start": "open", "end": "close", "other": "mark"}
        kind = kinds.get(event.kind) or self.rules.alone(event)
        return self._span_piece(kind, event.start, event.stop, event)

    def _span_piece(self, kind: Any, start: int, stop: int, event: Event) -> Piece:
        span = Span(self.part.text[start:stop], kind, start, stop, content=event)
        return Piece(start, stop, span=span)

    def _count(self, first: int, last: int) -> None:
        """Count elements with letters that are not translated, each once."""
        for node in map(self.nodes.__getitem__, range(first, last + 1)):
            is_text = node.event.kind in ("text", "cdata") and node.reason
            if is_text and node.owner not in self.counted:
                if any(map(str.isalpha, node.event.text)):
                    self.counted.add(node.owner)
                    self.part.skipped[node.reason] += 1

    def _read_attributes(self, node: _Node) -> None:
        event = node.event
        if event.kind not in ("start", "empty"):
            return
        if found := event.attributes.get(self.rules.language):
            self.part.languages.append((found.start, found.stop))
        is_inside = node.reason and self.nodes[node.owner].event is not event
        for name in () if is_inside else self.rules.attributes(event):
            if (found := event.attributes.get(name)) and found.value.strip():
                marked = MarkedText(found.value)
                self.part.add(marked, found.start, found.stop, self.rules.escape_attribute)

    def _end_run(self, run: list[Piece]) -> None:
        """Add the units of a run, and empty it."""
        for pieces in divided(run):
            self._add(trimmed(pieces))
        run.clear()

    def _add(self, pieces: Sequence[Piece]) -> None:
        if not pieces:
            return
        escape, outside = self.rules.escape, 1
        if len(pieces) == 1 and pieces[0].is_cdata:
            escape, outside = _escape_cdata, 0
        text, spans = joined(pieces)
        # A CDATA section among other pieces is replaced with escaped characters.
        first, last = pieces[0], pieces[-1]
        start = first.start - outside * first.is_cdata * len(_CDATA[0])
        stop = last.stop + outside * last.is_cdata * len(_CDATA[1])
        # White space around a unit stays where it is.
        if not (first.is_cdata and outside):
            size = len(first.text) - len(first.text.lstrip())
            start, text = start + size, text[size:]
            spans = [(position - size, span) for position, span in spans]
        if not (last.is_cdata and outside):
            size = len(last.text) - len(last.text.rstrip())
            stop, text = stop - size, text[: len(text) - size]
        self.part.add(MarkedText(text, tuple(spans), is_wrapped=True), start, stop, escape)


def divided(run: Sequence[P]) -> Iterator[Sequence[P]]:
    """Yield the pieces between the halves of pairs whose other halves are not in a run."""
    partners, begin = _partners(run), 0
    halves = [i for i, piece in enumerate(run) if piece.is_half]
    for end in [*(i for i in halves if i not in partners), len(run)]:
        yield run[begin:end]
        begin = end + 1


def joined(pieces: Sequence[Piece]) -> tuple[str, list[tuple[int, Span]]]:
    """Return the text of pieces, and their spans, whose pairs become partners."""
    text, spans = "", []
    for piece in pieces:
        if piece.span is not None:
            spans.append((len(text), piece.span))
        text += piece.text
    for first, last in _partners(pieces).items():
        pieces[first].span.partner = pieces[last].span  # type: ignore[union-attr]
    return text, spans


def _partners(run: Sequence[Piece]) -> dict[int, int]:
    """Return the indices of tags that belong together, in both directions.

    A pair around the half of another pair does not belong together either.
    """
    partners, opened = {}, []
    for index, piece in enumerate(run):
        if not piece.is_half:
            continue
        if piece.span.kind == "open":  # type: ignore[union-attr]
            opened.append(index)
        elif opened and run[opened[-1]].span.content.name == piece.span.content.name:  # type: ignore
            other = opened.pop()
            partners |= {index: other, other: index}
        else:
            opened.clear()
    return partners


def trimmed(pieces: Sequence[P]) -> Sequence[P]:
    """Return the pieces of a unit without those around it that need not be part of it."""
    partners, begin, end = _partners(pieces), 0, len(pieces)
    # The numbers of pieces before each that are needed.
    needed = list(accumulate((not (x.is_blank or x.is_half) for x in pieces), initial=0))
    while begin < end:
        first, last = partners.get(begin, -1), partners.get(end - 1, end)
        if pieces[begin].is_blank:
            begin += 1
        elif pieces[end - 1].is_blank:
            end -= 1
        elif first == end - 1:
            begin, end = begin + 1, end - 1
        elif first > begin and needed[first] == needed[begin]:
            begin = first + 1
        elif last < end - 1 and needed[last] == needed[end]:
            end = last
        else:
            break
    return pieces[begin:end]
