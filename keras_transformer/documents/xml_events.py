"""The events of an XML text, with the places that expat finds."""

import codecs
import re
from collections import defaultdict
from collections.abc import Iterator
from html.entities import html5
from itertools import pairwise
from typing import Any
from xml.parsers import expat

from keras_transformer.documents.markup import Attribute, Event
from keras_transformer.documents.text_part import splice
from keras_transformer.errors import UserError

# The values of a tag that expat has found to be well-formed, in which no quote stands elsewhere.
_VALUE = re.compile(r""""([^"]*)"|'([^']*)'""")
_REFERENCE = re.compile(r"&(?:#(\d+)|#x([0-9a-fA-F]+)|([^;]+));")
_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
XML = "http://www.w3.org/XML/1998/namespace"


def declared_encoding(data: bytes) -> str | None:
    """Return the encoding that the content of an XML file shows or declares, or None.

    Args:
        data: the content, without a byte order mark.
    """
    for encoding in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        if data.startswith("<".encode(encoding)):
            return encoding
    found = _DECLARED.match(data)
    name = found[1].decode().lower() if found else ""
    # A declaration that is found in this way is not in these encodings.
    return None if name.startswith(("utf-16", "utf-32", "ucs-")) else name or None


def encoded_xml(text: str, encoding: str, name: str) -> bytes:
    """Encode an XML text. Characters that the encoding lacks are written as references.

    Args:
        text: the text.
        encoding: the encoding.
        name: name of the file, for error messages.
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        edits = [
            (x.start, x.stop, x.text.encode(encoding, _OUTSIDE).decode(encoding))
            for x in xml_events(text, name)
            if x.kind == "cdata"
        ]
        return splice(text, edits).encode(encoding, "xmlcharrefreplace")


def _outside_cdata(error: UnicodeError) -> tuple[str, int]:
    """Return references in place of characters of a CDATA section, which holds none itself."""
    assert isinstance(error, UnicodeEncodeError)
    references = "".join(f"&#{ord(x)};" for x in error.object[error.start : error.end])
    return f"]]>{references}<![CDATA[", error.end


_OUTSIDE = "keras_transformer.outside_cdata"
codecs.register_error(_OUTSIDE, _outside_cdata)


def xml_events(text: str, name: str) -> Iterator[Event]:
    """Yield the events of an XML text.

    Args:
        text: the text, which may declare any encoding.
        name: name of the file, for error messages.

    Raises:
        UserError: if the text is not well-formed, or declares entities, with which a small text
            could expand to a huge one.
    """
    cdata, in_cdata = 0, False
    namespaces = _Namespaces()
    for (start, kind, value), (stop, *_) in pairwise(_Parser(name, text).found):
        raw = text[start:stop]
        if kind == "cdata":
            if in_cdata:
                yield Event("cdata", cdata, start, text=text[cdata:start])
            cdata, in_cdata = stop, not in_cdata
        elif kind == "text" and not in_cdata:
            yield _text_event(raw, start, stop)
        elif kind == "start":
            attributes = _attributes(raw, start, value[1:])
            local, namespace = namespaces.open(value[0], attributes)
            kind = "empty" if raw.endswith("/>") else "start"
            yield Event(kind, start, stop, local, attributes=attributes, namespace=namespace)
        elif kind == "end":
            local, namespace = namespaces.close(value)
            if raw:  # The end of an empty element has no characters.
                yield Event("end", start, stop, local, namespace=namespace)
        elif kind == "other":
            yield Event("other", start, stop)


def _text_event(raw: str, start: int, stop: int) -> Event:
    # Line ends are as in the file.
    text = _REFERENCE.sub(_character, raw) if raw.startswith("&") else raw
    # An unknown entity stays, and so does `&#13;`, because a line end is read in its place.
    is_kept = raw.startswith("&") and text in (raw, "\r")
    return Event("other", start, stop) if is_kept else Event("text", start, stop, text=text)


def _attributes(raw: str, start: int, names: list[str]) -> dict[str, Attribute]:
    """Return the attributes of a start tag."""
    attributes = {}
    for name, match in zip(names, _VALUE.finditer(raw), strict=True):
        first, last = match.span(match.lastindex or 0)
        value = re.sub(r"\r\n|[\r\n\t]", " ", raw[first:last])
        value = _REFERENCE.sub(_character, value)
        attributes[name] = Attribute(value, start + first, start + last)
    return attributes


def _character(reference: re.Match[str]) -> str:
    """Return the characters of a reference, or the reference if its entity is unknown."""
    decimal, hexadecimal, name = reference.groups()
    if name:
        return html5.get(f"{name};", reference[0])
    return chr(int(decimal or hexadecimal, 10 if decimal else 16))


class _Namespaces:
    """The namespaces of the open elements."""

    def __init__(self):
        self._known = defaultdict(list, {"xml": [XML]})  # prefix -> namespaces, the last is valid
        self._declared: list[list[str]] = []  # the prefixes that each open element declares

    def open(self, name: str, attributes: dict[str, Attribute]) -> tuple[str, str]:
        """Open an element, and return its local name and its namespace."""
        declared = [x for x in attributes if x == "xmlns" or x.startswith("xmlns:")]
        for attribute in declared:
            self._known[attribute[6:]].append(attributes[attribute].value)
        self._declared.append([x[6:] for x in declared])
        return self._resolved(name)

    def close(self, name: str) -> tuple[str, str]:
        """Close an element, and return the same."""
        resolved = self._resolved(name)
        for prefix in self._declared.pop():
            self._known[prefix].pop()
        return resolved

    def _resolved(self, name: str) -> tuple[str, str]:
        prefix, _, local = name.rpartition(":")
        return local, (self._known.get(prefix) or [""])[-1]


class _Parser:
    """The places where expat's events begin, as indices of characters."""

    def __init__(self, name: str, text: str):
        self.found: list[tuple[int, str, Any]] = []
        self._name = name
        # Expat reports the places of bytes.
        self._data = text.encode("utf-8", "replace")
        self._byte = self._character = 0
        self._parser = parser = expat.ParserCreate("utf-8")  # not the declared one
        parser.buffer_text = False
        parser.ordered_attributes = parser.specified_attributes = True
        parser.UseForeignDTD(True)  # entities of HTML are not errors
        parser.StartElementHandler = lambda name, values: self._add(
            "start", [name, *list(values)[::2]]
        )
        parser.EndElementHandler = lambda name: self._add("end", name)
        parser.CharacterDataHandler = lambda _: self._add("text")
        parser.SkippedEntityHandler = lambda _, is_parameter: self._add(
            "other" if is_parameter else "text"
        )
        parser.StartCdataSectionHandler = lambda: self._add("cdata")
        parser.EndCdataSectionHandler = lambda: self._add("cdata")
        parser.DefaultHandler = lambda _: self._add("other")
        parser.EntityDeclHandler = self._refuse
        try:
            parser.Parse(self._data, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise UserError(f"{name}, line {error.lineno} is not valid XML: {reason}.") from None
        self._add("end of the text")
        self.found[-1] = (len(text), "", None)

    def _add(self, kind: str, value: Any = None) -> None:
        at = self._parser.CurrentByteIndex
        if at > self._byte:
            self._character += len(self._data[self._byte : at].decode())
            self._byte = at
        self.found.append((self._character, kind, value))

    def _refuse(self, name: str, *_: Any) -> None:
        raise UserError(
            f"{self._name} must not declare entities, with which a small file could expand to a "
            f"huge text. Replace them and remove the declarations. Received: the entity {name!r}"
        )
