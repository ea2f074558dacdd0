"""The events of an XML text, with the places that expat finds."""

import html
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from xml.parsers import expat

from keras_transformer.documents.markup import Attribute, Event
from keras_transformer.errors import UserError

# The values of a tag that expat has found to be well-formed, in which no quote stands elsewhere.
_VALUE = re.compile(r""""([^"]*)"|'([^']*)'""")
XML = "http://www.w3.org/XML/1998/namespace"


def xml_events(text: str, name: str) -> Iterator[Event]:
    """Yield the events of an XML text.

    Args:
        text: the text, whatever encoding it declares.
        name: name of the file, for error messages.

    Raises:
        UserError: if the text is not well-formed, or declares entities, with which a small text
            could expand to a huge one.
    """
    in_cdata = False
    namespaces: list[dict[str, str]] = [{"xml": XML}]
    for (start, kind, value), (stop, *_) in pairwise(_Parser(name, text).found):
        raw = text[start:stop]
        if kind == "cdata":
            in_cdata = value
        elif kind == "text":
            # Line ends are as in the file.
            decoded = raw if "&" not in raw or in_cdata else html.unescape(value)
            yield Event("cdata" if in_cdata else "text", start, stop, text=decoded)
        elif kind == "start":
            yield _start_event(raw, start, value, namespaces)
        elif kind == "end" and raw:  # The end of an empty element has no characters.
            local, namespace = _resolved(value, namespaces.pop())
            yield Event("end", start, stop, local, namespace=namespace)
        elif kind == "other":
            yield Event("other", start, stop)


def _start_event(raw: str, start: int, names: list[str], namespaces: list[dict[str, str]]) -> Event:
    """Return the event of a start tag, and add the namespaces of its content to `namespaces`."""
    attributes, known = {}, namespaces[-1]
    for attribute, match in zip(names[1:], _VALUE.finditer(raw), strict=True):
        first, last = match.span(match.lastindex or 0)
        value = html.unescape(raw[first:last])
        attributes[attribute] = Attribute(value, start + first, start + last)
        if attribute == "xmlns" or attribute.startswith("xmlns:"):
            known = {**known, attribute[6:]: value}
    is_empty = raw.endswith("/>")
    if not is_empty:
        namespaces.append(known)
    local, namespace = _resolved(names[0], known)
    kind, stop = "empty" if is_empty else "start", start + len(raw)
    return Event(kind, start, stop, local, attributes=attributes, namespace=namespace)


def _resolved(name: str, namespaces: dict[str, str]) -> tuple[str, str]:
    """Return the local name and the namespace of an element."""
    prefix, _, local = name.rpartition(":")
    return local, namespaces.get(prefix, "")


class _Parser:
    """The places where expat's events begin, as indices of characters."""

    def __init__(self, name: str, text: str):
        self.found: list[tuple[int, str, Any]] = []
        self._name = name
        # The places that expat reports are those of bytes.
        self._data = text.encode("utf-8", "replace")
        self._byte = self._character = 0
        self._parser = parser = expat.ParserCreate("utf-8")  # whatever the text declares
        parser.buffer_text = False
        parser.ordered_attributes = parser.specified_attributes = True
        parser.UseForeignDTD(True)  # entities of HTML are no errors
        parser.StartElementHandler = lambda name, values: self._add(
            "start", [name, *list(values)[::2]]
        )
        parser.EndElementHandler = lambda name: self._add("end", name)
        parser.CharacterDataHandler = lambda value: self._add("text", value)
        parser.SkippedEntityHandler = lambda name, _: self._add("text", f"&{name};")
        parser.StartCdataSectionHandler = lambda: self._add("cdata", True)
        parser.EndCdataSectionHandler = lambda: self._add("cdata", False)
        parser.DefaultHandler = lambda _: self._add("other")
        parser.EntityDeclHandler = self._refuse
        try:
            parser.Parse(self._data, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise UserError(f"{name}, line {error.lineno} is not valid XML: {reason}.") from None
        self._add("end of the text")
        self.found[-1] = (len(text), "", None)

    def _add(self, kind, value=None):
        at = self._parser.CurrentByteIndex
        if at > self._byte:
            self._character += len(self._data[self._byte : at].decode())
            self._byte = at
        self.found.append((self._character, kind, value))

    def _refuse(self, name, *_):
        raise UserError(
            f"{self._name} must not declare entities, with which a small file could expand to a "
            f"huge text. Replace them and remove the declarations. Received: the entity {name!r}"
        )
