"""The events of an HTML text, with places: a tokenizer that follows the HTML standard.

Python's `html.parser` passes half of html5lib's cases and needs seconds for 40 KB of `<a `, and the
libraries that follow the standard do not return the places of attributes.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from html.entities import html5
from pathlib import Path

from keras_transformer.data.languages import read_table
from keras_transformer.documents.markup import Attribute, Event

FOREIGN = {"svg": "http://www.w3.org/2000/svg", "math": "http://www.w3.org/1998/Math/MathML"}
# Each search begins where the one before ended, and one without an end is the last: so the time
# is linear.
_MARKUP = re.compile(r"<(?:(/?)([A-Za-z][^\t\n\f\r />]*)|[!?]|/(?=.))", re.DOTALL)
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL)
_ATTRIBUTE = re.compile(
    r"[\t\n\f\r /]*(?:(>)|([^\t\n\f\r />][^\t\n\f\r />=]*)"
    r"(?:[\t\n\f\r ]*=[\t\n\f\r ]*"
    r"""(?:"([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)|([^\t\n\f\r >]*)))?)"""
)
_REFERENCE = re.compile(r"&(?:#(?:[0-9]+|[xX][0-9a-fA-F]+);?|[A-Za-z][A-Za-z0-9]*;?)")
_SCRIPT = re.compile(r"<!--(-?>)?|-->|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE)
_CAPITALS = {ord(x): x.lower() for x in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


_ROWS = read_table(Path(__file__).with_name("html_elements.tsv"))


def elements_with(trait: str) -> frozenset[str]:
    """Return the names of the elements with a trait: see `html_elements.tsv`."""
    return frozenset(name for name, traits, *_ in _ROWS if trait in traits.split())


_VOID, _ESCAPED = elements_with("void"), elements_with("escaped")
_RAW = elements_with("raw") | _ESCAPED
# By the name of a start tag: the open elements that it ends, and those in which it does not.
IMPLIED_ENDS = {name: (ends.split(), scopes.split()) for name, _, ends, scopes in _ROWS if ends}


def html_events(text: str) -> Iterator[Event]:
    """Yield the events of an HTML text.

    An element that ends with `/>` is empty, where the standard ignores this. A tag or comment
    without an end is an event of the kind `"other"` with the rest of the text.

    Args:
        text: the text.
    """
    place = foreign = 0  # Up to `foreign`, there is SVG or MathML.
    without_end = set()
    while found := _MARKUP.search(text, place):
        yield from _text_events(text, place, found.start())
        yield (event := _event(text, found, found.start() < foreign))
        place, name = event.stop, event.name
        if event.kind != "start" or place <= foreign:
            continue
        if name in FOREIGN and name not in without_end:
            foreign = _end_of_raw(text, place, name)
            if foreign == len(text):
                without_end.add(name)
                foreign = 0
        elif name in _RAW:
            begin, place = place, _end_of_raw(text, place, name)
            yield from _text_events(text, begin, place, name in _ESCAPED)
    yield from _text_events(text, place, len(text))


def _event(text: str, found: re.Match, is_foreign: bool) -> Event:
    """Return the event of a tag, a comment or similar."""
    begin, name = found.start(), (found[2] or "").translate(_CAPITALS)
    attributes: dict[str, Attribute] = {}
    if name:
        stop, is_closed = _end_of_tag(text, found.end(), attributes)
        is_empty = name in _VOID or (is_closed and (is_foreign or name not in _RAW))
        kind = "end" if found[1] else "empty" if is_empty else "start"
    else:
        kind, stop = "other", _end_of_other(text, begin, is_foreign)
    if stop < 0:
        return Event("other", begin, len(text), text=text[begin:])
    namespace = FOREIGN["svg"] if is_foreign else FOREIGN.get(name, "")
    return Event(kind, begin, stop, name, "", attributes, namespace)


def _end_of_other(text: str, begin: int, is_foreign: bool) -> int:
    """Return the end of a comment, a declaration or an instruction, or -1."""
    if text.startswith("<!--", begin):
        comment = _COMMENT.match(text, begin)
        return comment.end() if comment else -1
    end = "]]>" if is_foreign and text.startswith("<![CDATA[", begin) else ">"
    place = text.find(end, begin)
    return place + len(end) if place >= 0 else -1


def _end_of_tag(text: str, place: int, attributes: dict[str, Attribute]) -> tuple[int, bool]:
    """Read the attributes of a tag, and return its end, or -1, and whether it ends with `/>`."""
    while found := _ATTRIBUTE.match(text, place):
        place = found.end()
        if found[1]:
            return place, found[0].endswith("/>")
        start, stop = found.span(found.lastindex or 2) if found.lastindex != 2 else (place, place)
        value = _REFERENCE.sub(_attribute_reference, text[start:stop])
        attributes.setdefault(found[2].translate(_CAPITALS), Attribute(value, start, stop))
    return -1, False


def _attribute_reference(found: re.Match) -> str:
    """Return the characters of a reference in an attribute. `?a=1&copy=2` has none."""
    raw, following = found[0], found.string[found.end() : found.end() + 1]
    is_known = raw[1] == "#" or (raw[1:] in html5 and (raw[-1] == ";" or following != "="))
    return _decoded(raw) or raw if is_known else raw


def _end_of_raw(text: str, place: int, name: str) -> int:
    """Return the end of the content of an element without tags."""
    if name == "script":
        return _end_of_script(text, place)
    end = r"\Z" if name == "plaintext" else rf"</{name}(?=[\t\n\f\r />])"
    found = re.compile(end, re.IGNORECASE).search(text, place)
    return found.start() if found else len(text)


def _end_of_script(text: str, place: int) -> int:
    """Return the end of a script. In a comment in it, `<script>` has an end of its own."""
    in_comment = is_nested = False
    for found in _SCRIPT.finditer(text, place):
        if found[2] is None:  # the beginning or the end of a comment, or both in `<!-->`
            in_comment = found[0] == "<!--"
            is_nested = is_nested and in_comment
        elif found[2] and not is_nested:
            return found.start()
        else:
            is_nested = in_comment and not found[2]
    return len(text)


def _text_events(text: str, start: int, stop: int, references: bool = True) -> Iterator[Event]:
    """Yield the events of characters. A reference is an event of its own."""
    for found in _REFERENCE.finditer(text, start, stop) if references else ():
        if raw := _known(found[0]):
            if start < found.start():
                yield Event("text", start, found.start(), text=text[start : found.start()])
            start, value = found.start() + len(raw), _decoded(raw)
            # Others, such as `&#1;`, could not be written as characters.
            yield Event("text" if value else "other", found.start(), start, text=value)
    if start < stop:
        yield Event("text", start, stop, text=text[start:stop])


def _known(raw: str) -> str:
    """Return the part of a match that is a reference: some names need no semicolon."""
    if raw[1] == "#" or raw[1:] in html5:
        return raw
    return next((raw[:size] for size in range(7, 2, -1) if raw[1:size] in html5), "")


def _decoded(raw: str) -> str:
    """Return the characters that a reference stands for, or `""` for control characters."""
    value = html.unescape(raw) if len(raw) < 1000 else ""
    is_control = unicodedata.category(value[:1] or "\0") == "Cc" and not value.isspace()
    return "" if is_control else value
