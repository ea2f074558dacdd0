"""EPUB books: the pages, the lists of contents and the titles."""

import posixpath
from collections.abc import Collection, Iterator
from itertools import pairwise
from urllib.parse import unquote

from keras_transformer.documents.html import html_part, xhtml_part
from keras_transformer.documents.markup import Event, Rules, add_units
from keras_transformer.documents.text_part import TextPart
from keras_transformer.documents.xml_events import xml_events
from keras_transformer.documents.zipped import ZippedDocument
from keras_transformer.errors import UserError

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES = {"application/xhtml+xml": xhtml_part, "text/html": html_part}
_CONTENTS = "application/x-dtbncx+xml"
# Elements of the package and of the list of contents -> why their text is not translated.
_REASONS = {
    **dict.fromkeys(("package", "ncx"), "in data about the book"),
    **dict.fromkeys(("title", "description", "subject", "reference", "docTitle", "navLabel"), ""),
}
_RULES = Rules(
    is_inline=lambda event: False,
    reason=lambda event: _REASONS.get(event.name),
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
        return xml_events(self._text(name), self._name(name))

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
            if kind == _CONTENTS:
                self._add_data(name)
            elif kind in _PAGES:
                self._keep(name, _PAGES[kind](self._text(name), self._name(name)))

    def _add_data(self, name: str) -> None:
        """Add the texts of a package or of a list of contents."""
        part = TextPart(self._text(name), self._name(name))
        events = list(xml_events(part.text, part.name))
        add_units(part, events, _RULES)
        for event, following in pairwise(events):
            if (event.kind, event.name, following.kind) == ("start", "language", "text"):
                part.languages.append((following.start, following.stop))
        self._keep(name, part)


def _path(address: str, folder: str = "") -> str:
    """Return the name of a member that an address means."""
    return posixpath.normpath(posixpath.join(folder, unquote(address.partition("#")[0])))
