"""Units of text with inline tags, which HTML, XLIFF, subtitles and paragraphs of Word share."""

import html
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

# Comments and sections without an end extend to the end of the text.
# Possessive, so that the time is linear. A quote counts after `=` only, as in browsers.
TAG = r"""</?[A-Za-z][^\s<>/]*+(?:=\s*"[^"]*"|=\s*'[^']*'|[^<>])*+>"""
COMMENT = r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<![^<>]*>"
_NAME = re.compile(r"</?([^\s<>/.]+)")  # without the class of a tag of WebVTT
_STRAY = re.compile(rf"({TAG})|&(?!#?\w+;)|[<>]")
_KEPT = re.compile(r'<ph id="\d+"/>')


class Item(NamedTuple):
    """A piece of a text.

    Attributes:
        kind: "text", "open" or "close" for a tag, "kept" for a piece that stays within a unit,
            "mark" for one that need not be in a unit that it begins or ends, "end" between units.
        start: index of its beginning.
        stop: index of its end.
        name: name of the tag.
    """

    kind: str
    start: int
    stop: int
    name: str = ""


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
        first: the first characters of these pieces, to find them fast.
    """

    inline: Callable[[str], bool] = lambda name: True
    kept: Callable[[str, str], bool] = lambda tag, name: False
    void: frozenset[str] = frozenset()
    raw: frozenset[str] = frozenset()
    has_placeholders: bool = False
    marks: str = r"(?!)"
    ends: str = r"(?!)"
    first: str = ""
    begins: re.Pattern = field(init=False)
    tokens: re.Pattern = field(init=False)

    def __post_init__(self):
        pattern = rf"(?P<end>{self.ends}|<!\[CDATA\[|\]\]>)|(?P<mark>{self.marks}|{COMMENT})|{TAG}"
        object.__setattr__(self, "begins", re.compile(rf"[<\]{self.first}]"))
        object.__setattr__(self, "tokens", re.compile(pattern, re.DOTALL))

    def items(self, text: str, start: int, stop: int) -> Iterator[Item]:
        """Divide a text into pieces."""
        position = start
        while begin := self.begins.search(text, start, stop):
            found = self.tokens.match(text, begin.start(), stop)
            if found is None:
                start = begin.end()
                continue
            if found.start() > position:
                yield Item("text", position, found.start())
            start = position = found.end()
            if kind := found.lastgroup:
                yield Item(kind, *found.span())
                continue
            name = _NAME.match(found[0])[1].lower()  # type: ignore[index]
            is_inline = self.inline(name)
            is_void = found[0].endswith("/>") or name in self.void
            if found[0].startswith("</"):
                yield Item("close" if is_inline else "end", begin.start(), found.end(), name)
            elif is_void:
                kind = "kept" if self.has_placeholders else "mark"
                yield Item(kind if is_inline else "end", begin.start(), found.end(), name)
            elif name in self.raw or self.kept(found[0], name):
                is_raw = name in self.raw
                start = position = _end_of_element(text, name, found.end(), stop, is_raw)
                yield Item("kept" if is_inline else "end", found.start(), position, name)
            else:
                yield Item("open" if is_inline else "end", begin.start(), found.end(), name)
        if position < stop:
            yield Item("text", position, stop)


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

    def restored(self, translation: str, piece: Callable[[int, int], str]) -> str | None:
        """Return a translation with its kept pieces, or None if its tags differ from the unit's.

        Args:
            translation: the translation of `text`.
            piece: function of a start and a stop that returns the text there.
        """
        translation = escape_strays(translation, self.text)
        tags = _tags(self.text)
        if sorted(tags) != sorted(_tags(translation)) or not _is_nested(_tags(translation)):
            return None
        return _KEPT.sub(lambda found: piece(*self.kept[int(found[0][8:-3]) - 1]), translation)


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
        partners = _partners(run)
        begin = 0
        for index in range(len(run) + 1):
            if index == len(run) or (
                run[index].kind in ("open", "close") and index not in partners
            ):
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
    """Return the indices of tags that belong together, in both directions."""
    partners, opened = {}, []
    for index, item in enumerate(run):
        if item.kind == "open":
            opened.append(index)
        elif item.kind == "close":
            same = [depth for depth, other in enumerate(opened) if run[other].name == item.name]
            if same:
                partners[index], partners[opened[same[-1]]] = opened[same[-1]], index
                del opened[same[-1] :]
    # A pair around the half of another pair does not belong together either.
    size = None
    while len(partners) != size:
        size = len(partners)
        alone = [x.kind in ("open", "close") and n not in partners for n, x in enumerate(run)]
        before = [0, *itertools.accumulate(alone)]
        partners = {a: b for a, b in partners.items() if before[a] == before[b]}
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


def _tags(fragment: str) -> list[str]:
    return re.findall(TAG, fragment)


def _is_nested(tags: list[str]) -> bool:
    opened = []
    for tag in tags:
        name = _NAME.match(tag)[1].lower()  # type: ignore[index]
        if tag.startswith("</"):
            if not opened or opened.pop() != name:
                return False
        elif not tag.endswith("/>"):
            opened.append(name)
    return not opened


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
