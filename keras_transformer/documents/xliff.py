"""XLIFF 1.2 and 2.x: segments without a translation are units."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from keras_transformer.documents.document import TextDocument
from keras_transformer.documents.markup import Event, Rules, add_units, escape_xml_attribute
from keras_transformer.documents.text_part import Edit, TextPart, splice, within
from keras_transformer.documents.xml_events import declared_encoding, encoded_xml, xml_events
from keras_transformer.errors import UserError
from keras_transformer.language_codes import may_be_same_language
from keras_transformer.protection.spans import MarkedText

_UNTRANSLATED = ("new", "needs-translation", "needs-adaptation", "needs-l10n", "initial")
_NOT_TRANSLATED = 'with translate="no"'
# Elements that contain code of another format, and those of them that belong together.
_CODE = frozenset(("ph", "bpt", "ept", "it", "bx", "ex", "sc", "ec"))
_SEGMENTS = ("trans-unit", "segment")
_OPENING, _CLOSING = ("bpt", "bx", "sc"), ("ept", "ex", "ec")


def _reason(tag: Event) -> str | None:
    if tag.name in _CODE or tag.name.startswith("#"):
        return "in code"
    marked = "no" if tag.get("mtype") == "protected" else tag.get("translate")
    marked = "yes" if tag.name == "sub" else marked
    return {"no": _NOT_TRANSLATED, "yes": ""}.get(marked or "")


RULES = Rules(
    is_inline=lambda tag: tag.get("mtype") != "seg",
    reason=_reason,
    alone=lambda tag: "separator" if tag.get("ctype") == "lb" else "placeholder",
    # The halves of a pair of codes have names of their own, and their kind as namespace.
    kept=lambda tag: tag.namespace if tag.name.startswith("#") else "placeholder",
    language="",
)


@dataclass(eq=False)
class _Element:
    """An element: its first and last event, their indices, and what is declared for it."""

    tag: Event
    first: int
    parent: "_Element | None"
    end: Event | None = None
    last: int = -1
    children: dict[str, "_Element"] = field(default_factory=dict)  # the first of each name

    def __post_init__(self):
        around = self.parent
        self.translate = self.tag.get("translate") or (around.translate if around else "yes")
        self.space = self.tag.get("xml:space") or (around.space if around else "default")
        self.is_nested = around and (around.is_nested or around.tag.name in _SEGMENTS)
        language = self.tag.get("target-language") or self.tag.get("trgLang")
        self.language: str | None = language or (around.language if around else None)


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
        self._read(list(xml_events(text, name)))
        self.skipped.pop("in code", None)  # Codes are not texts.
        self.language = next((x.language for x in self._owners if x.language), None)

    def _read(self, events: list[Event]) -> None:
        root = next(event for event in events if event.kind in ("start", "empty"))
        if root.name != "xliff":
            raise self.error(root.start, f"the first element must be `xliff`, not {root.name!r}")
        self._is_2 = (root.get("version") or "").startswith("2")
        owner, segment = ("xliff", "segment") if self._is_2 else ("file", "trans-unit")
        element = None
        for index, event in enumerate(events):
            if event.kind in ("start", "empty"):
                element = _Element(event, index, element)
                if event.name == owner and event.namespace == root.namespace:
                    self._owners.append(element)
            if event.kind in ("end", "empty") and element is not None:
                element.end, element.last = event, index
                if element.tag.namespace == root.namespace:
                    if element.parent:
                        element.parent.children.setdefault(element.tag.name, element)
                    if element.tag.name == segment and not element.is_nested:
                        self._read_segment(element, events)
                element = element.parent

    def _read_segment(self, segment: _Element, events: list[Event]) -> None:
        source, target = _source(segment), segment.children.get("target")
        content = events[target.first : target.last + 1] if target else []
        if segment.translate == "no":
            self.skipped[_NOT_TRANSLATED] += 1
        elif source is None:
            self.skipped["without a source"] += 1
        elif any(map(_is_content, content[1:])) and self._state(segment) not in _UNTRANSLATED:
            self.skipped["translated"] += 1
        else:
            first, self._is_wrapped = len(self.units), source.space != "preserve"
            add_units(self, _with_pairs(events[source.first + 1 : source.last]), RULES)
            if len(self.units) > first:
                self._segments.append((segment, first, len(self.units)))

    def _state(self, segment: _Element) -> str | None:
        element = segment if self._is_2 else segment.children["target"]
        return element.tag.get("state")

    def add(self, marked: MarkedText, *place: Any) -> bool:
        return super().add(replace(marked, is_wrapped=self._is_wrapped), *place)

    def select(self, target_lang: str | None) -> None:
        """Leave out the units of files with another target language, if there are others."""
        declared = {segment.language: segment for segment, *_ in self._segments}
        if target_lang is None and len(declared.keys() - {None}) > 1:
            names = ", ".join(filter(None, declared))
            raise UserError(
                f"{self.name} declares translations into several languages. Pass the one to "
                f"translate into as `target_lang`. Expected one of: {names}"
            )
        fitting = {x for x in declared if not (target_lang and x) or _may_be(x, target_lang)}
        if not fitting or fitting == declared.keys():
            return
        units, segments = [], []
        for segment, first, last in self._segments:
            if segment.language in fitting:
                segments.append((segment, len(units), len(units) + last - first))
                units += self.units[first:last]
            else:
                self.skipped["for another language"] += 1
        self.units, self._segments = units, segments
        self.language = next(filter(None, fitting), None)

    def rendered(
        self, translations: Sequence[MarkedText | None], edits: Sequence[Edit] = ()
    ) -> str:
        contents, new = self.edits(translations), list(edits)
        attribute = "trgLang" if self._is_2 else "target-language"
        if language := self.language or self.target_lang:
            for owner in self._owners:
                if not owner.language:
                    new += _with_attributes(owner.tag, self.text, {attribute: language})
        for segment, first, last in self._segments:
            if None not in translations[first:last]:
                new += self._filled(segment, contents)
        return splice(self.text, sorted(new))

    def _filled(self, segment: _Element, contents: list[Edit]) -> list[Edit]:
        """Return the edits that write the target of a segment."""
        source, target = _source(segment), segment.children.get("target")
        assert source and source.end
        marks, target_marks = {"state": "translated", "subState": "kt:needs-review"}, {}
        if not self._is_2:
            marks = {"approved": "no"} if segment.tag.get("approved") else {}
            target_marks = {"state": "needs-review-translation"}
            if target and target.tag.get("state-qualifier"):
                target_marks["state-qualifier"] = "leveraged-mt"
        if target and target.end:
            begin, stop, space = target.tag.start, target.end.stop, ""
            tag = splice(
                *(self.text, _with_attributes(target.tag, self.text, target_marks)),
                *(begin, target.tag.stop),
            )
            tag = re.sub(r"\s*/>$", ">", tag)
        else:
            after = segment.children.get("seg-source", segment.children["source"])
            begin = stop = after.end.stop  # type: ignore[union-attr]
            space = self._space_before(segment.children["source"].tag.start)
            prefix = re.match("<([^ \t\r\n/>]*:)?", self.text[source.tag.start : source.tag.stop])
            kept = {"xml:space": source.tag.get("xml:space")}
            attributes = {**{x: y for x, y in kept.items() if y}, **target_marks}
            tag = f"<{prefix[1] or ''}target{_written(attributes)}>"  # type: ignore[index]
        inner = source.tag.stop, max(source.tag.stop, source.end.start)
        content = splice(self.text, within(contents, *inner), *inner)
        name = re.split(r"[\s>]", tag, maxsplit=1)[0][1:]
        return [
            *_with_attributes(segment.tag, self.text, marks),
            (begin, stop, f"{space}{tag}{content}</{name}>"),
        ]

    def _space_before(self, place: int) -> str:
        start = place
        while self.text[start - 1] in " \t\r\n":
            start -= 1
        return self.text[start:place]


def _source(segment: _Element) -> _Element | None:
    """Return the element whose content is translated: the source, in segments if it has them."""
    divided = segment.children.get("seg-source")
    return (
        divided if divided and divided.last > divided.first + 1 else segment.children.get("source")
    )


def _is_content(event: Event) -> bool:
    """Return whether an event shows that a target is translated."""
    is_code = event.kind in ("start", "empty") and event.name != "mrk"
    return is_code or bool(event.text.strip())


def _may_be(code: str | None, other: str | None) -> bool:
    return not (code and other) or may_be_same_language(code, other)


def _written(attributes: dict[str, str]) -> str:
    return "".join(f' {x}="{escape_xml_attribute(y)}"' for x, y in attributes.items())


def _with_attributes(tag: Event, text: str, attributes: dict[str, str]) -> list[Edit]:
    """Return the edits that give attributes to a start tag."""
    old = {name: tag.attributes[name] for name in attributes if name in tag.attributes}
    end = tag.start + len(text[tag.start : tag.stop].rstrip("/>").rstrip())
    new = _written({name: value for name, value in attributes.items() if name not in old})
    places = [(x.start, x.stop, escape_xml_attribute(attributes[name])) for name, x in old.items()]
    return sorted([*places, (end, end, new)])


def _with_pairs(events: list[Event]) -> list[Event]:
    """Give codes that open and close a pair a name of their own, unless pairs overlap."""
    events = list(events)
    opened: list[int] = []  # indices of start tags
    ends: dict[int, int] = {}
    halves: list[tuple[str | None, int]] = []  # ids of opening codes, or None for other elements
    pairs: list[tuple[int, int, str]] = []
    for index, event in enumerate(events):
        if event.kind == "end":
            ends[opened.pop()] = index
            while event.name not in _CODE and halves.pop()[0] is not None:
                pass
        elif event.kind == "start":
            opened.append(index)
        key = event.get("rid") or event.get("startRef") or event.get("id") or ""
        if event.kind in ("start", "empty") and event.name in _OPENING:
            halves.append((key, index))
        elif event.kind in ("start", "empty") and event.name in _CLOSING:
            if halves and halves[-1][0] == key:
                pairs.append((halves.pop()[1], index, f"#{key}"))
        elif event.kind == "start" and event.name not in _CODE:
            halves.append((None, index))
    for first, last, name in pairs:
        for index, kind in ((first, "open"), (last, "close")):
            for place in (index, ends.get(index, index)):
                events[place] = events[place]._replace(name=name, namespace=kind)
    return events


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

    def render(
        self,
        translations: Sequence[MarkedText | None],
        path: Path,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> None:
        self.parts[0].target_lang = target_lang
        super().render(translations, path, source_lang, target_lang)
