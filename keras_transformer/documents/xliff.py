"""XLIFF 1.2 and 2.x: segments without a translation are units."""

import html
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras_transformer.documents.document import Edit, TextDocument, local_name, parse_xml, splice
from keras_transformer.documents.fragments import (
    COMMENT,
    TAG,
    Dialect,
    Fragment,
    fragments,
    with_attribute,
)
from keras_transformer.errors import UserError

_PIECE = re.compile(rf"<!\[CDATA\[.*?\]\]>|{COMMENT}|(?P<tag>{TAG})", re.DOTALL)
_NOT_TRANSLATED = re.compile(r"""\s(?:translate|mtype)\s*=\s*["'](?:no|protected)["']""")
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)#?\w+;")
_UNTRANSLATED = ("new", "needs-translation", "needs-adaptation", "needs-l10n", "initial")
# Elements that contain code of another format.
_CODE = frozenset(("ph", "bpt", "ept", "it"))

DIALECT = Dialect(
    kept=lambda tag, name: name in _CODE or bool(_NOT_TRANSLATED.search(tag)),
    has_placeholders=True,
)


class _Place(NamedTuple):
    """The indices of an element: its start tag, its content, and its end tag."""

    start: int
    content_start: int
    content_stop: int
    stop: int


class Xliff(TextDocument):
    """An XLIFF file. Its text is not rewritten, except the `target` elements that are filled.

    In XLIFF 1 they get the state `needs-review-translation`; in XLIFF 2 their segment gets the
    state `translated` and the substate `kt:needs-review`.
    """

    markup = "html"
    _encoding = re.compile(rb"""\A\s*<\?xml[^>]*encoding\s*=\s*["']([\w.:-]+)""")

    def _find_units(self) -> None:
        root = parse_xml(self.path.read_bytes(), str(self.path))
        if local_name(root) != "xliff":
            raise UserError(f"{self.path} is not an XLIFF file: its first element is {root.tag}.")
        self._is_2 = root.get("version", "").startswith("2")
        # The start tags stand in the order of the elements.
        self._place = dict(zip(root.iter("*"), self._places_of_elements()))
        self._attribute = "trgLang" if self._is_2 else "target-language"
        self._owners = [root] if self._is_2 else list(root.iter("{*}file"))
        self.language = next(filter(None, (x.get(self._attribute) for x in self._owners)), None)
        # The elements, their children by name, and their units.
        self._segments: list[tuple[Any, dict[str, Any], list[tuple[Fragment, int]]]] = []
        for element in root.iter("{*}segment" if self._is_2 else "{*}trans-unit"):
            children = {local_name(child): child for child in element.iterchildren("*")}
            if reason := self._skip_reason(element, children):
                self.skipped[reason] += 1
                continue
            place = self._place[children["source"]]
            units = []
            for part in fragments(self.text, DIALECT, place.content_start, place.content_stop):
                if self._add(part.text, part[:2]):
                    units.append((part, len(self.units) - 1))
            if units:
                self._segments.append((element, children, units))

    def _places_of_elements(self) -> list[_Place]:
        places, opened = [], []
        for found in _PIECE.finditer(self.text):
            tag = found["tag"]
            if tag is None:
                continue
            if tag.startswith("</"):
                index, start, content = opened.pop()
                places[index] = _Place(start, content, found.start(), found.end())
            elif tag.endswith("/>"):
                places.append(_Place(found.start(), found.end(), found.end(), found.end()))
            else:
                opened.append((len(places), found.start(), found.end()))
                places.append(None)
        return places

    def _skip_reason(self, element: Any, children: dict[str, Any]) -> str | None:
        """Return why a segment is not translated, or None."""
        marked = (x.get("translate") for x in (element, *element.iterancestors()))
        if next(filter(None, marked), "yes") == "no":
            return 'with translate="no"'
        if "source" not in children:
            return "without a source"
        target = children.get("target")
        if target is None or not ("".join(target.itertext()).strip() or len(target)):
            return None
        state = (element if self._is_2 else target).get("state")
        return None if state in _UNTRANSLATED else "translated"

    def _rendered(self, translations: Sequence[str | None]) -> str:
        edits = [
            self._tag_edit(owner, self._attribute, self.language)
            for owner in self._owners
            if self.language and owner.get(self._attribute) is None
        ]
        for element, children, units in self._segments:
            place = self._place[children["source"]]
            new = [
                (part.start, part.stop, text)
                for part, number in units
                if (text := self._restored(part, translations[number], self.text.__getitem__))
            ]
            if len(new) < len(units):
                continue
            content = splice(self.text, new, place.content_start, place.content_stop)
            if "target" in children:
                start, inner, _, stop = self._place[children["target"]]
                space, tag = "", re.sub(r"\s*/>$", ">", self.text[start:inner])
            else:
                start = stop = self._place[children.get("seg-source", children["source"])].stop
                before = self.text[: place.start]
                space = before[len(before.rstrip()) :]
                tag = self.text[place.start : place.content_start]
                tag = re.sub(r"source\b[^>]*", "target", tag)
            if self._is_2:
                marks = ("state", "translated", "subState", "kt:needs-review")
                edits.append(self._tag_edit(element, *marks))
            else:
                tag = with_attribute(tag, "state", "needs-review-translation")
            name = re.match(r"<([^\s>]+)", tag)[1]  # type: ignore[index]
            edits.append((start, stop, f"{space}{tag}{content}</{name}>"))
        return splice(self.text, sorted(edits))

    def _restored(self, fragment: Fragment, translation: str | None, piece: Any) -> str | None:
        if translation is not None:
            # An entity of HTML, such as `&nbsp;`, would damage the file.
            translation = _ENTITY.sub(
                lambda x: x[0] if x[0] in fragment.text else html.escape(html.unescape(x[0])),
                translation,
            )
        return super()._restored(fragment, translation, piece)

    def _tag_edit(self, element: Any, *attributes: str) -> Edit:
        """Return the edit that gives attributes, names and values in turn, to an element."""
        start, stop, *_ = self._place[element]
        tag = self.text[start:stop]
        for name, value in zip(attributes[::2], attributes[1::2]):
            tag = with_attribute(tag, name, value)
        return start, stop, tag

    def render(self, translations: Sequence[str | None], path: Any) -> None:
        super().render(translations, path)
        parse_xml(path.read_bytes(), str(self.path))  # a translation must not damage it
