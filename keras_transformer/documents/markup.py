"""Units of texts with markup: the events of a parser, divided at elements that end a unit."""

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from keras_transformer.documents.text_part import TextPart
from keras_transformer.protection.spans import MarkedText, Span


class Attribute(NamedTuple):
    """The value of an attribute, and its place in the text without quotes."""

    value: str
    start: int
    stop: int


class Event(NamedTuple):
    """A piece of a text with markup, as its parser found it.

    Attributes:
        kind: `"start"`, `"end"` or `"empty"` for tags, `"text"`, `"cdata"` for text that is not
            escaped, or `"other"`: a comment, a declaration or an instruction.
        start: index of its beginning in the text.
        stop: index of its end.
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


@dataclass(frozen=True)
class Rules:
    """The rules by which the events of a format become units.

    Attributes:
        is_inline: function of an `Event`, a tag, that returns whether it may be part of a unit.
        reason: function of an `Event`, a start tag, that returns why the content of its element is
            not translated, `""` if it is translated, and None if this depends on what is around it.
        alone: function of an `Event`, a tag without an end, that returns the kind of its span.
        attributes: function of an `Event`, a tag, that returns the names of the attributes that
            are texts.
        escape: function of a text that returns how it is written.
        escape_attribute: function of the value of an attribute, likewise.
        language: name of the attribute that declares the language of an element.
    """

    is_inline: Callable[[Event], bool] = lambda event: True
    reason: Callable[[Event], str | None] = lambda event: None
    alone: Callable[[Event], str] = lambda event: "mark"
    attributes: Callable[[Event], Iterable[str]] = lambda event: ()
    escape: Callable[[str], str] = lambda text: html.escape(text, quote=False)
    escape_attribute: Callable[[str], str] = html.escape
    language: str = "lang"


class _Piece(NamedTuple):
    """A piece of a run, which may become part of a unit: text, or a `Span`."""

    start: int
    stop: int
    text: str = ""
    span: Span | None = None

    @property
    def is_blank(self) -> bool:
        return not self.text.strip() if self.span is None else self.span.kind == "mark"


class _Node(NamedTuple):
    """An event with what its parents and its other half say of it."""

    event: Event
    reason: str  # why its text is not translated
    owner: int  # index of the tag that says so
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
        self.nodes = list(self._nodes(events))
        self.counted: set[int] = set()

    def _nodes(self, events: list[Event]) -> Iterator[_Node]:
        """Yield the nodes, and find which tags belong together."""
        opened: list[int] = []
        nodes: list[_Node] = []
        for index, event in enumerate(events):
            parent = nodes[opened[-1]] if opened else _Node(event, "", -1)
            node = _Node(event, parent.reason, parent.owner)
            if event.kind in ("start", "empty"):
                reason = self.rules.reason(event)
                if reason is not None and reason != parent.reason:
                    node = node._replace(reason=reason, owner=index)
                node = node._replace(is_inline=self.rules.is_inline(event))
                if event.kind == "start":
                    opened.append(index)
            elif event.kind == "end":
                names = [events[i].name for i in opened]
                if event.name in names:
                    depth = len(names) - 1 - names[::-1].index(event.name)
                    other = opened[depth]
                    self.partners |= {index: other, other: index}
                    node = nodes[other]._replace(event=event)
                    del opened[depth:]
                else:
                    node = node._replace(is_inline=self.rules.is_inline(event))
            nodes.append(node)
            yield node

    def read(self, first: int = 0, last: int | None = None, outer: str = "") -> None:
        """Find the units of the nodes from `first` to `last`."""
        run: list[_Piece] = []
        index, last = first, len(self.nodes) if last is None else last
        while index < last:
            node, event = self.nodes[index], self.nodes[index].event
            self._read_attributes(node)
            if node.reason:
                index = self._read_kept(index, run, outer)
            elif event.kind == "cdata":
                # Its characters are written in another way than those around it.
                self._end_run(run)
                run.append(_Piece(event.start, event.stop, event.text))
                self._end_run(run, _escape_cdata)
            elif node.is_inline:
                run.append(self._piece(index))
            else:
                self._end_run(run)
            index += 1
        self._end_run(run)

    def _read_kept(self, index: int, run: list[_Piece], outer: str) -> int:
        """Read a node that is not translated, or its element, and return the index of the last."""
        node, end = self.nodes[index], self.partners.get(index, index)
        is_whole = node.event.kind in ("start", "empty") and node.owner == index
        if is_whole and not outer and all(x.is_inline for x in self.nodes[index : end + 1]):
            span = self._span(index, end, "placeholder")
            run.append(_Piece(span.start, span.stop, "", span))
            self._count(index, end)
            self.read(index + 1, end, node.reason)
            return end
        self._end_run(run)
        self._count(index, index)
        return index

    def _piece(self, index: int) -> _Piece:
        event = self.nodes[index].event
        if event.kind == "text":
            return _Piece(event.start, event.stop, event.text)
        kinds = {"start": "open", "end": "close", "other": "mark"}
        span = self._span(index, index, kinds.get(event.kind) or self.rules.alone(event))
        return _Piece(span.start, span.stop, "", span)

    def _span(self, first: int, last: int, kind: Any) -> Span:
        start, stop = self.nodes[first].event.start, self.nodes[last].event.stop
        return Span(self.part.text[start:stop], kind, start, stop, content=self.nodes[first].event)

    def _count(self, first: int, last: int) -> None:
        """Count elements with letters that are not translated, each once."""
        for node in self.nodes[first : last + 1]:
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
        for name in () if node.reason else self.rules.attributes(event):
            if (found := event.attributes.get(name)) and found.value.strip():
                marked = MarkedText(found.value)
                self.part.add(marked, found.start, found.stop, self.rules.escape_attribute)

    def _end_run(self, run: list[_Piece], escape: Callable[[str], str] | None = None) -> None:
        """Add the units of a run, and empty it."""
        partners, begin = _partners(run), 0
        halves = [i for i, piece in enumerate(run) if piece.span and piece.span.kind in _HALVES]
        for end in [*(i for i in halves if i not in partners), len(run)]:
            self._add(run[begin:end], escape or self.rules.escape)
            begin = end + 1
        run.clear()

    def _add(self, pieces: list[_Piece], escape: Callable[[str], str]) -> None:
        pieces = _trimmed(pieces)
        if not pieces:
            return
        text, spans, start, stop = "", [], pieces[0].start, pieces[-1].stop
        for piece in pieces:
            if piece.span is None:
                text += piece.text
            else:
                spans.append((len(text), piece.span))
        for first, last in _partners(pieces).items():
            pieces[first].span.partner = pieces[last].span  # type: ignore[union-attr]
        # White space around a unit stays where it is. Characters such as `&#32;` are not written
        # as they are read, and so they are a piece of their own.
        for piece, side in ((pieces[0], str.lstrip), (pieces[-1], str.rstrip)):
            size = len(piece.text) - len(side(piece.text))
            if piece.span is None and size:
                is_first = side is str.lstrip
                start, stop = (start + size, stop) if is_first else (start, stop - size)
                text = text[size:] if is_first else text[: len(text) - size]
                if is_first:
                    spans = [(position - size, span) for position, span in spans]
        self.part.add(MarkedText(text, tuple(spans), is_wrapped=True), start, stop, escape)


_HALVES = ("open", "close")


def _escape_cdata(text: str) -> str:
    return text.replace("]]>", "]]]]><![CDATA[>")


def _partners(run: Sequence[_Piece]) -> dict[int, int]:
    """Return the indices of tags that belong together, in both directions.

    A pair around the half of another pair does not belong together either.
    """
    partners, opened = {}, []
    for index, piece in enumerate(run):
        if piece.span is None or piece.span.kind not in _HALVES:
            continue
        if piece.span.kind == "open":
            opened.append(index)
        elif opened and run[opened[-1]].span.content.name == piece.span.content.name:  # type: ignore
            other = opened.pop()
            partners |= {index: other, other: index}
        else:
            opened.clear()
    return partners


def _trimmed(pieces: list[_Piece]) -> list[_Piece]:
    """Return the pieces of a unit without those around it that need not be part of it."""
    partners, begin, end = _partners(pieces), 0, len(pieces)
    while begin < end:
        first, last = partners.get(begin, -1), partners.get(end - 1, -1)
        if pieces[begin].is_blank:
            begin += 1
        elif pieces[end - 1].is_blank:
            end -= 1
        elif first == end - 1:
            begin, end = begin + 1, end - 1
        elif first > begin and all(piece.is_blank for piece in pieces[begin + 1 : first]):
            begin = first + 1
        elif 0 <= last < end - 1 and all(piece.is_blank for piece in pieces[last + 1 : end - 1]):
            end = last
        else:
            break
    return pieces[begin:end]
