"""The events of an HTML text, with places: a tokenizer that follows the HTML standard.

Python's `html.parser` passes half of html5lib's cases and needs seconds for 40 KB of `<a `, and the
libraries that follow the standard do not return the places of attributes.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from html.entities import html5

from keras_transformer.documents.markup import Attribute, Event

NAMESPACES = {"svg": "http://www.w3.org/2000/svg", "math": "http://www.w3.org/1998/Math/MathML"}
VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source "
    "track wbr".split()
)
# Elements whose content has no tags. References are read in those of the second line.
RAW = {
    **dict.fromkeys("iframe noembed noframes plaintext script style xmp".split(), False),
    **dict.fromkeys("textarea title".split(), True),
}
# Elements of SVG and MathML whose content is HTML, and tags that end an unclosed <svg> or <math>.
_HTML_INSIDE = frozenset("foreignobject desc title annotation-xml".split())
_NESTED = _HTML_INSIDE | NAMESPACES.keys()
_HTML_ONLY = frozenset(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li "
    "listing menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
    "".split()
)
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


def html_events(text: str) -> Iterator[Event]:
    """Yield the events of an HTML text.

    An element that ends with `/>` is empty, where the standard ignores this. A tag or comment
    without an end is an event of the kind `"other"` with the rest of the text.

    Args:
        text: the text.
    """
    place = 0
    foreign: list[str] = []  # open elements: <svg>, <math>, and those in them that have HTML
    while found := _MARKUP.search(text, place):
        begin = found.start()
        yield from _text_events(text, place, begin)
        event = _tag(text, found, foreign) if found[2] else _other(text, begin, foreign)
        if event is None:
            yield Event("other", begin, len(text), text=text[begin:])
            return
        yield event
        place = event.stop
        if event.kind == "start" and event.name in RAW and not event.namespace:
            begin, place = place, _end_of_raw(text, place, event.name)
            yield from _text_events(text, begin, place, RAW[event.name])
    yield from _text_events(text, place, len(text))


def _tag(text: str, found: re.Match, foreign: list[str]) -> Event | None:
    """Return the event of a tag, or None if it has no end, and update `foreign`."""
    begin, name = found.start(), found[2].translate(_CAPITALS)
    attributes: dict[str, Attribute] = {}
    stop, is_closed = _end_of_tag(text, found.end(), attributes)
    if stop < 0:
        return None
    if found[1]:
        namespace = _namespace(name, foreign)
        if name in foreign[-2:]:
            del foreign[-1 if name == foreign[-1] else -2 :]
        return Event("end", begin, stop, name, namespace=namespace)
    namespace, is_empty = _opened(name, is_closed, foreign)
    return Event("empty" if is_empty else "start", begin, stop, name, "", attributes, namespace)


def _opened(name: str, is_closed: bool, foreign: list[str]) -> tuple[str, bool]:
    """Return the namespace of an element, and whether it is empty, and update `foreign`."""
    while name in _HTML_ONLY and _is_foreign(foreign):
        foreign.pop()
    namespace = _namespace(name, foreign)
    is_empty = name in VOID or (is_closed and (namespace != "" or name not in RAW))
    if namespace and not is_empty and name in _NESTED:
        foreign.append(name)
    return namespace, is_empty


def _other(text: str, begin: int, foreign: list[str]) -> Event | None:
    """Return the event of a comment, a declaration or an instruction, or None without an end."""
    if text.startswith("<!--", begin):
        comment = _COMMENT.match(text, begin)
        return Event("other", begin, comment.end()) if comment else None
    is_cdata = _is_foreign(foreign) and text.startswith("<![CDATA[", begin)
    end = "]]>" if is_cdata else ">"
    place = text.find(end, begin)
    return Event("other", begin, place + len(end)) if place >= 0 else None


def _is_foreign(foreign: list[str]) -> bool:
    return bool(foreign) and foreign[-1] in NAMESPACES


def _namespace(name: str, foreign: list[str]) -> str:
    return NAMESPACES.get(name) or (NAMESPACES[foreign[-1]] if _is_foreign(foreign) else "")


def _end_of_tag(text: str, place: int, attributes: dict[str, Attribute]) -> tuple[int, bool]:
    """Read the attributes of a tag from the end of its name.

    Returns:
        The end of the tag, or -1, and whether it ends with `/>`.
    """
    while found := _ATTRIBUTE.match(text, place):
        place = found.end()
        if found[1]:
            return place, found[0].endswith("/>")
        start, stop = found.span(found.lastindex or 2) if found.lastindex != 2 else (place, place)
        value = _REFERENCE.sub(_attribute_reference, text[start:stop])
        attributes.setdefault(found[2].translate(_CAPITALS), Attribute(value, start, stop))
    return -1, False


def _attribute_reference(found: re.Match) -> str:
    """Return what a reference in an attribute stands for. In `?a=1&copy=2` there is none."""
    raw, following = found[0], found.string[found.end() : found.end() + 1]
    is_known = raw[1] == "#" or (raw[1:] in html5 and (raw[-1] == ";" or following != "="))
    return _decoded(raw) or raw if is_known else raw


def _end_of_raw(text: str, place: int, name: str) -> int:
    """Return the end of the content of an element without tags."""
    if name == "script":
        return _end_of_script(text, place)
    if name == "plaintext":
        return len(text)
    found = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search(text, place)
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
    if references:
        for found in _REFERENCE.finditer(text, start, stop):
            raw = _known(found[0])
            if not raw:
                continue
            if start < found.start():
                yield Event("text", start, found.start(), text=text[start : found.start()])
            start, value = found.start() + len(raw), _decoded(raw)
            # Others, such as `&#1;`, could not be written as characters.
            kind = "text" if value else "other"
            yield Event(kind, found.start(), start, text=value)
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
