"""HTML, XHTML and EPUB: which elements and attributes are texts, and the encodings of pages."""

import codecs
import html
import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from urllib.parse import unquote

from keras_transformer.documents import xml_events
from keras_transformer.documents.document import TextDocument
from keras_transformer.documents.html_events import (
    FOREIGN,
    IMPLIED_ENDS,
    elements_with,
    html_events,
)
from keras_transformer.documents.markup import Event, Rules, add_units
from keras_transformer.documents.text_part import TextPart
from keras_transformer.documents.zipped import ZippedDocument
from keras_transformer.errors import UserError

# The attributes that the HTML standard and ARIA call translatable, and their elements.
_ATTRIBUTES = {
    **{"alt": ("area", "img", "input"), "placeholder": ("input", "textarea"), "abbr": ("th",)},
    **{"label": ("optgroup", "option", "track"), "summary": ("table",), "title": "*"},
    **dict.fromkeys(("aria-label", "aria-description", "aria-placeholder", "aria-valuetext"), "*"),
}
_BUTTONS = ("submit", "button", "reset")
_DESCRIPTIONS = re.compile(
    r"((og:|twitter:|dc\.)?(title|description)|(og|twitter):image:alt|application-name)", re.I
)
_INLINE, _KEPT, _SEPARATORS = map(elements_with, ("inline", "kept", "separator"))
_PLACEHOLDERS = elements_with("placeholder")
_CELLS, _IN_TABLES = ("td", "th", "caption"), ("table", "tbody", "thead", "tfoot", "tr")


def _is_inline(event: Event) -> bool:
    return event.name in _INLINE or event.namespace in FOREIGN.values()


def _kind_alone(event: Event) -> str:
    """Return the kind of the span of an element without an end tag."""
    is_placeholder = event.name in _PLACEHOLDERS
    return "placeholder" if is_placeholder else "separator" if event.name in _SEPARATORS else "mark"


def _marked_by_author(event: Event) -> str | None:
    """Return the reason that attributes give for not translating an element, `""` for none."""
    translate = (event.get("translate") or "").lower()
    if translate in ("no", "yes"):
        return 'with translate="no"' if translate == "no" else ""
    return "with class notranslate" if "notranslate" in (event.get("class") or "").split() else None


def _reason(event: Event) -> str | None:
    reason = _marked_by_author(event)
    return f"in {event.name}" if reason is None and event.name in _KEPT else reason


def _attributes(event: Event) -> Iterator[str]:
    """Yield the names of the attributes that are texts."""
    own = _own_attribute(event)
    for name in () if _marked_by_author(event) else event.attributes:
        elements = _ATTRIBUTES.get(name, ())
        if elements == "*" or event.name in elements or name == own:
            yield name


def _own_attribute(event: Event) -> str:
    """Return the attribute that is a text because of another one, or `""`."""
    if event.name == "input" and (event.get("type") or "").lower() in _BUTTONS:
        return "value"
    names = map(event.get, ("name", "property", "itemprop"))
    is_text = event.name == "meta" and any(_DESCRIPTIONS.fullmatch(name or "") for name in names)
    return "content" if is_text else ""


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def _escape_plain(value: str) -> str:
    """Return how an attribute without quotes is written."""
    return re.sub(r"[\s=`]", lambda x: f"&#{ord(x[0])};", html.escape(value))


_RULES = Rules(
    is_inline=_is_inline,
    reason=_reason,
    alone=_kind_alone,
    attributes=_attributes,
    language="",
)
_HTML_RULES = replace(_RULES, escape=_escape, escape_attribute=html.escape)


def html_part(text: str, name: str = "The text") -> TextPart:
    """Read the units of an HTML page, or of a part of one.

    Args:
        text: the text.
        name: name of the file, for error messages.

    Returns:
        A `TextPart`.
    """
    part, events = TextPart(text, name), list(html_events(text))
    _add(part, list(_Ends(events).added()), _HTML_RULES)
    for index, unit in enumerate(part.units):
        if unit.escape is html.escape and text[unit.start - 1] not in "\"'":
            part.units[index] = unit._replace(escape=_escape_plain)
    if events and events[-1].kind == "other" and any(map(str.isalpha, events[-1].text)):
        part.skipped["in a tag or comment without an end"] += 1
    return part


def xhtml_part(text: str, name: str = "The text") -> TextPart:
    """Read the units of an XHTML page. See `html_part`.

    Raises:
        UserError: if the text is not well-formed XML.
    """
    part = TextPart(text, name)
    _add(part, list(xml_events.xml_events(text, name)), _RULES)
    return part


def _add(part: TextPart, events: list[Event], rules: Rules) -> None:
    add_units(part, events, rules)
    for event in events:
        names = ["lang", "xml:lang"]
        if (event.get("http-equiv") or "").lower() == "content-language":
            names.append("content")
        places = (event.attributes[name] for name in names if name in event.attributes)
        part.languages += [(place.start, place.stop) for place in places]


class _Ends:
    """The missing ends of elements, which other tags end.

    An inline element that is not translated and has no end tag ends at the next tag that is not
    inline.
    """

    def __init__(self, events: list[Event]):
        self.events = events
        self.missing: dict[int, list[str]] = defaultdict(list)  # names of ends before each event
        self._opened: list[int] = []  # indices of open elements
        self._depths: dict[str, list[int]] = defaultdict(list)  # their places there, by name
        self._blocks: dict[int, int] = {}  # the first tag after each of them that is not inline
        self._num_seen = 0  # of the open elements that have such a tag
        for index, event in enumerate(events):
            if event.kind in ("start", "empty", "end"):
                self._read(index, event)
        self._close(0, len(events))

    def added(self) -> Iterator[Event]:
        """Yield the events with ends, which have no characters."""
        stop = self.events[-1].stop if self.events else 0
        for index, event in enumerate([*self.events, Event("other", stop, stop)]):
            for name in self.missing.get(index, ()):
                yield Event("end", event.start, event.start, name)
            yield event

    def _read(self, index: int, event: Event) -> None:
        if event.kind != "end":
            names, scopes = IMPLIED_ENDS.get(event.name, ((), ()))
            limit = self._last(scopes)
            depths = [depth for depth in map(self._last, zip(names)) if depth > limit]
            self._close(min(depths, default=len(self._opened)), index)
        elif (depth := self._last([event.name])) < 0 or (
            depth < self._last(_CELLS) and event.name not in _IN_TABLES
        ):
            self.events[index] = event._replace(name="")  # Browsers ignore it.
        else:
            self._close(depth + 1, index)
            self._depths[self.events[self._opened.pop()].name].pop()
        self._num_seen = min(self._num_seen, len(self._opened))
        if not _is_inline(event):
            self._blocks.update(dict.fromkeys(self._opened[self._num_seen :], index))
            self._num_seen = len(self._opened)
        if event.kind == "start":
            self._depths[event.name].append(len(self._opened))
            self._opened.append(index)

    def _last(self, names: Iterable[str]) -> int:
        return max((self._depths[x][-1] for x in names if self._depths[x]), default=-1)

    def _close(self, depth: int, place: int) -> None:
        while len(self._opened) > depth:
            event = self.events[index := self._opened.pop()]
            self._depths[event.name].pop()
            if not _is_inline(event):
                self.missing[place].append(event.name)
            elif _reason(event) is not None:
                self.missing[self._blocks.get(index, place)].append(event.name)


class Html(TextDocument):
    """An HTML file. Characters that its encoding lacks are written as references."""

    _errors = "keras_transformer.html"

    def _part(self, text: str) -> TextPart:
        return html_part(text, str(self.path))

    def _declared(self, data: bytes) -> str | None:
        return declared_encoding(data)


class Xhtml(Html):
    """An XHTML file."""

    def _part(self, text: str) -> TextPart:
        return xhtml_part(text, str(self.path))

    def _declared(self, data: bytes) -> str | None:
        label = xml_events.declared_encoding(data)
        return label and (_codec(label) or label)

    def _encoded(self, text: str) -> bytes:
        return xml_events.encoded_xml(text, self._codec, str(self.path))


_CHARSET = re.compile(
    r"""charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|([^\s;"']+))""", re.I
)
# The encodings of the web that Python knows by other names, or whose labels mean others.
_CODECS = {
    **{"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874"},
    **{"tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"},
    **{"euc_kr": "cp949", "big5": "big5hkscs", "utf-16": "utf-8", "utf-16-le": "utf-8"},
    **{"utf-16-be": "utf-8"},
}
_KNOWN = re.compile(
    "utf-8|cp(125[0-8]|866|874|932|949)|iso8859-([2-8]|1[03-6])|koi8-[ru]|mac-(roman|cyrillic)|"
    "gb18030|big5hkscs|euc_jp|iso2022_jp"
)


def declared_encoding(data: bytes) -> str | None:
    """Return the encoding that an HTML page declares, or None.

    Browsers define the meaning of labels: `iso-8859-1` is windows-1252.

    Args:
        data: the content of the page.
    """
    head = data[: 1 << 16]
    for event in html_events(head.decode("latin-1")):
        if event.name != "meta":
            continue
        label = event.get("charset")
        if label is None and (event.get("http-equiv") or "").lower() == "content-type":
            found = _CHARSET.search(event.get("content") or "")
            label = found and found[found.lastindex or 0]
        if label and (codec := _codec(label)):
            return codec
    return _codec(xml_events.declared_encoding(head) or "")


def _codec(label: str) -> str | None:
    """Return Python's name of the encoding that a label means on the web, or None."""
    label = label.strip().lower().removeprefix("x-").replace("windows-", "cp")
    label = re.sub(r"^iso-?8859-?(\d+)(-[ei])?$", r"iso8859-\1", label)
    try:
        name = codecs.lookup(label).name if re.fullmatch(r"[\w.:-]+", label) else ""
    except LookupError:
        return None
    name = _CODECS.get(name, name)
    return name if _KNOWN.fullmatch(name) else None


def _handle(error: UnicodeError) -> tuple[str | bytes, int]:
    """Read the bytes that browsers read as control characters, and write references."""
    is_single = getattr(error, "encoding", "") == "charmap"  # one byte per character
    if isinstance(error, UnicodeDecodeError):
        if is_single and 0x80 <= (byte := error.object[error.start]) < 0xA0:
            return chr(byte), error.start + 1
    elif isinstance(error, UnicodeEncodeError):
        if is_single and "\x80" <= error.object[error.start] < "\xa0":
            return bytes([ord(error.object[error.start])]), error.start + 1
        return codecs.xmlcharrefreplace_errors(error)
    raise error


codecs.register_error(Html._errors, _handle)


# EPUB

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES = {"application/xhtml+xml": xhtml_part, "text/html": html_part}
_TABLE_OF_CONTENTS = "application/x-dtbncx+xml"
# Elements of the package and of the list of contents -> why their text is not translated.
_BOOK_REASONS = {
    **dict.fromkeys(("package", "ncx"), "in data about the book"),
    **dict.fromkeys(("title", "description", "subject", "reference", "docTitle", "navLabel"), ""),
}
_BOOK_RULES = Rules(
    is_inline=lambda event: False,
    reason=lambda event: _BOOK_REASONS.get(event.name),
    attributes=lambda event: ("title",) if event.name == "reference" else (),
    language="xml:lang",
)


class Epub(ZippedDocument):
    """An EPUB book. Its pages follow the rules of XHTML."""

    _encrypted: Collection[str] = ()

    def _read_parts(self) -> None:
        if _ENCRYPTION in self.names:
            self._encrypted = set(self._paths(_ENCRYPTION, "CipherReference", "URI"))
        for package in self._paths(_CONTAINER, "rootfile", "full-path"):
            if package not in self._kept:
                self._add_data(package)
                self._add_items(package)

    def _text(self, name: str) -> str:
        if name in self._encrypted:
            raise UserError(f"{self._name(name)} is encrypted. Expected a book without protection.")
        return super()._text(name)

    def _events(self, name: str) -> Iterator[Event]:
        return xml_events.xml_events(self._text(name), self._name(name))

    def _paths(self, name: str, element: str, attribute: str) -> list[str]:
        """Return the paths in an attribute of the elements of a member."""
        events = [x for x in self._events(name) if x.name == element]
        if not events and name == _CONTAINER:
            raise UserError(
                f"{self._name(name)} has no <{element}>. Expected the path of a package."
            )
        return [_path(x.get(attribute) or "") for x in events]

    def _add_items(self, package: str) -> None:
        """Add the pages and lists of contents of a package. Those that are missing are left out."""
        for event in self._events(package):
            kind = event.get("media-type") or ""
            name = _path(event.get("href") or "", posixpath.dirname(package))
            if event.name != "item" or name not in self.names or name in self._kept:
                continue
            if kind == _TABLE_OF_CONTENTS:
                self._add_data(name)
            elif kind in _PAGES:
                self._keep(name, _PAGES[kind](self._text(name), self._name(name)))

    def _add_data(self, name: str) -> None:
        """Add the texts of a package or of a list of contents."""
        part = TextPart(self._text(name), self._name(name))
        events = list(xml_events.xml_events(part.text, part.name))
        add_units(part, events, _BOOK_RULES)
        for event, following in pairwise(events):
            if (event.kind, event.name, following.kind) == ("start", "language", "text"):
                part.languages.append((following.start, following.stop))
        self._keep(name, part)


def _path(address: str, folder: str = "") -> str:
    """Return the name of a member that an address means."""
    return posixpath.normpath(posixpath.join(folder, unquote(address.partition("#")[0])))
