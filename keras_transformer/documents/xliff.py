"""XLIFF 1.2 and 2.x: segments without a translation are units."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keras_transformer.documents.document import TextDocument
from keras_transformer.documents.markup import Event, Rules, add_units, escape_xml_attribute
from keras_transformer.documents.text_part import Edit, TextPart, splice, within
from keras_transformer.documents.xml_events import declared_encoding, encoded_xml, xml_events
from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_tag, may_be_same_language
from keras_transformer.protection.spans import MarkedText, Span

_UNTRANSLATED = ("new", "needs-translation", "needs-adaptation", "needs-l10n", "initial")
_NOT_TRANSLATED = 'with translate="no"'
_SEGMENTS = ("trans-unit", "segment")
# Elements that contain code of another format, and the names that belong together.
_CODE = frozenset(("ph", "bpt", "ept", "it", "bx", "ex", "sc", "ec"))
_OPENING, _CLOSING = ("bpt", "bx", "sc"), ("ept", "ex", "ec")


def _reason(tag: Event) -> str | None:
    if tag.name in _CODE:
        return "in code"
    marked = "no" if tag.get("mtype") == "protected" else tag.get("translate")
    return {"no": _NOT_TRANSLATED, "yes": ""}.get("yes" if tag.name == "sub" else marked or "")


RULES = Rules(
    is_inline=lambda tag: tag.get("mtype") != "seg",
    reason=_reason,
    alone=lambda tag: "separator" if tag.get("ctype") == "lb" else "placeholder",
    language="",
)


@dataclass(eq=False)
class _Element:
    """An element: its first and last event, their indices, and the declarations for it."""

    tag: Event
    first: int
    parent: "_Element | None"
    end: Event | None = None
    last: int = -1
    children: dict[str, "_Element"] = field(default_factory=dict)  # the first of each name

    def __post_init__(self):
        around = self.parent
        self.is_nested = around and (around.is_nested or around.tag.name in _SEGMENTS)
        self.translate = self.tag.get("translate") or (around.translate if around else "yes")
        self.space = self.tag.get("xml:space") or (around.space if around else "default")
        language = self.tag.get("target-language") or self.tag.get("trgLang")
        self.language: str | None = language or (around.language if around else None)

    @property
    def source(self) -> "_Element | None":
        """The element whose content is translated: the source, in segments if it has them."""
        divided = self.children.get("seg-source")
        is_used = divided and divided.last > divided.first + 1
        return divided if is_used else self.children.get("source")


class XliffPart(TextPart):
    """The text of an XLIFF file.

    Attributes:
        target_lang: the language of the translations.
    """

    def __init__(self, text: str, name: str):
        super().__init__(text, name)
        self.target_lang: str | None = None
        # Each segment, and the indices of the first of its units and of the one after the last.
        self._segments: list[tuple[_Element, int, int]] = []
        self._owners: list[_Element] = []  # the elements that declare the language of translations
        events = list(xml_events(text, name))
        root = next(event for event in events if event.kind in ("start", "empty"))
        if root.name != "xliff":
            raise self.error(root.start, f"the first element must be `xliff`, not {root.name!r}")
        self._is_2 = (root.get("version") or "").startswith("2")
        element = None
        for index, event in enumerate(events):
            if event.kind in ("start", "empty"):
                element = _Element(event, index, element)
            if event.kind in ("end", "empty") and element:
                element.end, element.last = event, index
                if event.namespace == root.namespace:
                    self._read(element, events)
                element = element.parent
        self.skipped.pop("in code", None)  # Codes are not texts.
        self.language = next((x.language for x in self._owners if x.language), None)

    def _read(self, element: _Element, events: list[Event]) -> None:
        """Read a complete element of XLIFF."""
        if element.parent:
            element.parent.children.setdefault(element.tag.name, element)
        if element.tag.name == ("xliff" if self._is_2 else "file"):
            self._owners.append(element)
        if element.tag.name != _SEGMENTS[self._is_2] or element.is_nested:
            return
        source = element.source
        if element.translate == "no":
            self.skipped[_NOT_TRANSLATED] += 1
        elif source is None:
            self.skipped["without a source"] += 1
        elif self._is_translated(element, events):
            self.skipped["translated"] += 1
        else:
            first, self._is_wrapped = len(self.units), source.space != "preserve"
            add_units(self, events[source.first + 1 : source.last], RULES)
            if len(self.units) > first:
                self._segments.append((element, first, len(self.units)))

    def _is_translated(self, element: _Element, events: list[Event]) -> bool:
        if (target := element.children.get("target")) is None:
            return False
        state = (element if self._is_2 else target).tag.get("state")
        content = events[target.first + 1 : target.last]
        return state not in _UNTRANSLATED and any(map(_is_content, content))

    def add(self, marked: MarkedText, *place: Any) -> bool:
        _join_pairs([span for _, span in marked.spans])
        return super().add(replace(marked, is_wrapped=self._is_wrapped), *place)

    def select(self, target_lang: str | None) -> None:
        """Leave out the units of files with another target language, if there are others."""
        declared = {element.language: None for element, *_ in self._segments}
        if target_lang is None and len(declared.keys() - {None}) > 1:
            raise UserError(
                f"{self.name} declares translations into several languages. Pass one of them as "
                f"`target_lang`: {', '.join(filter(None, declared))}"
            )
        fitting = [x for x in declared if not x or may_be_same_language(x, target_lang or x)]
        if fitting:
            segments, self._segments, units, self.units = self._segments, [], self.units, []
            for element, first, last in segments:
                if element.language in fitting:
                    start = len(self.units)
                    self.units += units[first:last]
                    self._segments.append((element, start, len(self.units)))
                else:
                    self.skipped["for another language"] += 1
            self.language = next(filter(None, fitting), None)

    def rendered(
        self, translations: Sequence[MarkedText | None], edits: Sequence[Edit] = ()
    ) -> str:
        contents, new = self.edits(translations), list(edits)
        attribute = "trgLang" if self._is_2 else "target-language"
        if language := self.language or (self.target_lang and language_tag(self.target_lang)):
            for owner in self._owners:
                if not owner.language:
                    new += self._with_attributes(owner.tag, {attribute: language})
        for element, first, last in self._segments:
            if None not in translations[first:last]:
                new += self._filled(element, contents)
        return splice(self.text, sorted(new))

    def _filled(self, element: _Element, contents: list[Edit]) -> list[Edit]:
        """Return the edits that write the target of a segment."""
        children, source = element.children, element.source
        marks, target_marks = {"state": "translated", "subState": "kt:needs-review"}, {}
        if not self._is_2:
            marks = {"approved": "no"} if element.tag.get("approved") else {}
            target_marks = {"state": "needs-review-translation"}
        assert source and source.end
        if (target := children.get("target")) and target.end:
            start, stop, space = target.tag.start, target.end.stop, ""
            if target.tag.get("state-qualifier"):
                target_marks["state-qualifier"] = "leveraged-mt"
            edits = self._with_attributes(target.tag, target_marks)
            tag = re.sub(r"\s*/>$", ">", splice(self.text, edits, start, target.tag.stop))
        else:
            start = stop = children.get("seg-source", children["source"]).end.stop  # type: ignore
            before = children["source"].tag.start
            space = re.split(r"[^\s]", self.text[max(0, before - 100) : before])[-1]
            prefix = re.match("<([^ \t\r\n/>]*:)?", self.text[source.tag.start : source.tag.stop])
            preserved = {"xml:space": "preserve"} if source.tag.get("xml:space") else {}
            tag = f"<{prefix[1] or ''}target{_written(preserved | target_marks)}>"  # type: ignore
        inner = source.tag.stop, source.end.start
        content = splice(self.text, within(contents, *inner), *inner)
        name = re.split(r"[\s>]", tag, maxsplit=1)[0]
        new = f"{space}{tag}{content}</{name[1:]}>"
        return [*self._with_attributes(element.tag, marks), (start, stop, new)]

    def _with_attributes(self, tag: Event, attributes: dict[str, str]) -> list[Edit]:
        """Return the edits that give attributes to a start tag, in order."""
        old = [(tag.attributes[x], attributes[x]) for x in attributes if x in tag.attributes]
        end = tag.start + len(self.text[tag.start : tag.stop].rstrip("/>").rstrip())
        new = _written({x: y for x, y in attributes.items() if x not in tag.attributes})
        places = [(place.start, place.stop, escape_xml_attribute(value)) for place, value in old]
        return sorted([*places, (end, end, new)])


def _written(attributes: dict[str, str]) -> str:
    return "".join(f' {x}="{escape_xml_attribute(y)}"' for x, y in attributes.items())


def _is_content(event: Event) -> bool:
    """Return whether an event shows that a target is translated."""
    is_code = event.kind in ("start", "empty") and event.name != "mrk"
    return is_code or bool(event.text.strip())


def _join_pairs(spans: Sequence[Span]) -> None:
    """Make pairs of the codes that belong together, unless they overlap with others."""
    opened: list[tuple[str | None, Span]] = []  # with the id of a code, or None for an element
    for span in spans:
        tag: Event = span.content
        key = next(filter(None, map(tag.get, ("rid", "startRef", "id"))), "")
        if span.kind == "open" or tag.name in _OPENING:
            opened.append((None if span.kind == "open" else key, span))
        elif span.kind == "close":
            while opened.pop()[0] is not None:
                pass
        elif tag.name in _CLOSING and opened and opened[-1][0] == key:
            span.partner = opened.pop()[1]
            span.partner.partner = span
            span.partner.kind, span.kind = "open", "close"


class Xliff(TextDocument):
    """An XLIFF file. Its text is not rewritten, except the `target` elements that are filled.

    In XLIFF 1 they get the state `needs-review-translation`; in XLIFF 2 their segment gets the
    state `translated` and the substate `kt:needs-review`.
    """

    parts: list[XliffPart]

    def _part(self, text: str) -> XliffPart:
        return XliffPart(text, str(self.path))

    def _declared(self, data: bytes) -> str | None:
        return declared_encoding(data)

    def _encoded(self, text: str) -> bytes:
        return encoded_xml(text, self._codec, str(self.path))

    def select(self, target_lang: str | None) -> None:
        self.parts[0].select(target_lang)

    def _texts(self, translations: Any, source_lang: Any, target_lang: str | None) -> list[str]:
        self.parts[0].target_lang = target_lang
        return super()._texts(translations, source_lang, target_lang)
