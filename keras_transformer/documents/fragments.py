"""Units of text with inline tags, which HTML, XLIFF, subtitles and paragraphs of Word share."""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

# Comments and sections without an end extend to the end of the text.
# Possessive, so that the time is linear. A quote counts after `=` only, as in browsers.
TAG = r"""</?[A-Za-z][^\s<>/]*+(?:=\s*"[^"]*"|=\s*'[^']*'|[^<>])*+>"""
COMMENT = r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<![^<>]*>"
_NAME = re.compile(r"</?([^\s<>/.]+)")  # without the class of a tag of WebVTT
_STRAY = re.compile(rf"({TAG})|&(?!#?\w+;)|[<>]")
KEPT = re.compile(r'<ph id="(\d+)"/>')


class Item(NamedTuple):
    """A piece of a text, from `start` to `stop`.

    Its kind is "text", "open" or "close" for a tag, "kept" for a piece that stays within a unit,
    "mark" for one that need not be in a unit that it begins or ends, or "end" between units.
    """

    kind: str
    start: int
    stop: int
    name: str = ""  # of a tag


@dataclass(frozen=True)
class Dialect:
    """The rules by which a format's text is divided.

    Attributes:
        inline: function of a tag's name that returns whether it may be part of a unit.
        kept: function of a tag and its name that returns whether its element is not translated.
        void: names of tags that have no end.
        raw: names of elements whose content has no tags.
        has_placeholders: whether tags without an end stand for text.
        marks: pattern of further pieces without a text.
        ends: pattern of further pieces that end a unit.
    """

    inline: Callable[[str], bool] = lambda name: True
    kept: Callable[[str, str], bool] = lambda tag, name: False
    void: frozenset[str] = frozenset()
    raw: frozenset[str] = frozenset()
    has_placeholders: bool = False
    marks: str = r"(?!)"
    ends: str = r"(?!)"

    @cached_property
    def tokens(self) -> re.Pattern:
        """The pattern of everything that is not text."""
        pattern = rf"(?P<end>{self.ends}|<!\[CDATA\[|\]\]>)|(?P<mark>{self.marks}|{COMMENT})|{TAG}"
        return re.compile(pattern, re.DOTALL)

    def items(self, text: str, start: int = 0, stop: int | None = None) -> Iterator[Item]:
        """Divide a text into pieces."""
        stop = len(text) if stop is None else stop
        while found := self.tokens.search(text, start, stop):
            if found.start() > start:
                yield Item("text", start, found.start())
            item = self._item(text, found, stop)
            yield item
            start = item.stop
        if start < stop:
            yield Item("text", start, stop)

    def _item(self, text: str, found: re.Match, stop: int) -> Item:
        if found.lastgroup:
            return Item(found.lastgroup, *found.span())
        (start, end), tag = found.span(), found[0]
        name = _NAME.match(tag)[1].lower()  # type: ignore[index]
        if tag.startswith("</"):
            kind = "close"
        elif tag.endswith("/>") or name in self.void:
            kind = "kept" if self.has_placeholders else "mark"
        elif name in self.raw or self.kept(tag, name):
            kind, end = "kept", _end_of_element(text, name, end, stop, name in self.raw)
        else:
            kind = "open"
        return Item(kind if self.inline(name) else "end", start, end, name)


class Fragment(NamedTuple):
    """A unit in a text.

    Attributes:
        start: index of its beginning.
        stop: index of its end.
        text: the unit, in which `<ph id="1"/>` stands for each kept piece.
        kept: the places (start, stop) of the kept pieces.
    """

    start: int
    stop: int
    text: str
    kept: list[tuple[int, int]]

    def restored(self, translation: str, piece: Callable[[slice], str]) -> str | None:
        """Return a translation with its kept pieces, or None if its tags differ from the unit's.

        Args:
            translation: the translation of `text`.
            piece: function of a slice that returns the text there.
        """
        translation = escape_strays(translation, self.text)
        tags, new = (re.findall(TAG, text) for text in (self.text, translation))
        items = [item for item in Dialect().items(translation) if item.kind in ("open", "close")]
        if sorted(tags) != sorted(new) or len(_partners(items)) != len(items):
            return None
        places = [slice(*place) for place in self.kept]
        return KEPT.sub(lambda found: piece(places[int(found[1]) - 1]), translation)


def fragments(
    text: str, dialect: Dialect, start: int = 0, stop: int | None = None
) -> Iterator[Fragment]:
    """Yield the units of a text.

    A unit ends at each tag that is not inline, and at each whose other half is not in the same
    run. Tags and white space around a unit are not part of it.

    Args:
        text: the text.
        dialect: the rules of its format.
        start: the index to begin at.
        stop: the index to end at. Defaults to the end of the text.
    """
    run: list[Item] = []
    end = len(text) if stop is None else stop
    for item in [*dialect.items(text, start, end), Item("end", end, end)]:
        if item.kind != "end":
            run.append(item)
            continue
        partners, begin = _partners(run), 0
        tags = [index for index, item in enumerate(run) if item.kind in ("open", "close")]
        for index in [*(tag for tag in tags if tag not in partners), len(run)]:
            if unit := _unit(text, run, begin, index, partners):
                yield unit
            begin = index + 1
        run = []


def _end_of_element(text: str, name: str, start: int, end: int, is_raw: bool) -> int:
    """Return the index after the end tag of an element whose start tag ends at `start`."""
    depth, slash = 1, "/" if is_raw else "/?"
    tags = re.compile(rf"<({slash}){re.escape(name)}(?![\w:.-])[^<>]*>", re.IGNORECASE)
    for tag in tags.finditer(text, start, end):
        depth += -1 if tag[1] else not tag[0].endswith("/>")
        if not depth:
            return tag.end()
    return end


def _partners(run: list[Item]) -> dict[int, int]:
    """Return the indices of tags that belong together, in both directions.

    A pair around the half of another pair does not belong together either.
    """
    partners, opened = {}, []
    for index, item in enumerate(run):
        if item.kind == "open":
            opened.append(index)
        elif item.kind == "close":
            if opened and run[opened[-1]].name == item.name:
                other = opened.pop()
                partners[index], partners[other] = other, index
            else:
                opened.clear()
    return partners


def _unit(
    text: str, run: list[Item], begin: int, end: int, partners: dict[int, int]
) -> Fragment | None:
    """Return the unit of a part of a run, without what surrounds it, or None."""

    def is_blank(item):
        is_space = item.kind == "text" and not text[item.start : item.stop].strip()
        return is_space or item.kind == "mark"

    while begin < end:
        if is_blank(run[begin]):
            begin += 1
        elif is_blank(run[end - 1]):
            end -= 1
        elif partners.get(begin) == end - 1:
            begin, end = begin + 1, end - 1
        elif begin in partners and all(map(is_blank, run[begin + 1 : partners[begin]])):
            begin = partners[begin] + 1
        elif end - 1 in partners and all(map(is_blank, run[partners[end - 1] + 1 : end - 1])):
            end = partners[end - 1]
        else:
            break
    else:
        return None
    start, stop = run[begin].start, run[end - 1].stop
    if run[begin].kind == "text":
        start += len(text[start : run[begin].stop]) - len(text[start : run[begin].stop].lstrip())
    if run[end - 1].kind == "text":
        stop = run[end - 1].start + len(text[run[end - 1].start : stop].rstrip())
    parts, kept = [], []
    for item in run[begin:end]:
        if item.kind in ("kept", "mark"):
            kept.append((item.start, item.stop))
            parts.append(f'<ph id="{len(kept)}"/>')
        else:
            parts.append(text[max(start, item.start) : min(stop, item.stop)])
    return Fragment(start, stop, "".join(parts), kept)


def escape_strays(fragment: str, source: str = "") -> str:
    """Escape `&`, `<` and `>` that belong to no tag and no entity, except those of its source."""
    kept = {found[0] for found in _STRAY.finditer(source) if not found[1]}
    return _STRAY.sub(lambda x: x[0] if x[1] or x[0] in kept else html.escape(x[0]), fragment)


def visible(fragment: str) -> str:
    """Return the text of a fragment without its tags and with its entities as characters."""
    return html.unescape(re.sub(TAG, "", fragment))


def with_attribute(tag: str, name: str, value: str) -> str:
    """Return a start tag with an attribute, which replaces one with the same name."""
    pattern = rf"(\s{re.escape(name)}\s*=\s*)(\"[^\"]*\"|'[^']*')"
    new, count = re.subn(pattern, lambda found: f'{found[1]}"{html.escape(value)}"', tag, count=1)
    return (
        new if count else re.sub(r"\s*/?>$", lambda x: f' {name}="{html.escape(value)}"{x[0]}', tag)
    )
