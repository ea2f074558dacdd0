"""OpenDocument texts and presentations: the text of a paragraph between breaks is a unit."""

import re
from collections.abc import Iterable, Sequence

from keras_transformer.documents.markup import Event, Rules, add_units
from keras_transformer.documents.text_part import Edit, TextPart
from keras_transformer.documents.xml_events import xml_events
from keras_transformer.documents.zipped import ZippedDocument, validate_depth
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText

_MEMBERS = ("content.xml", "styles.xml", "meta.xml")
_PARAGRAPHS = (
    *("p", "h", "index-title-template"),
    *("title", "desc", "subject", "description", "keyword"),
)
_BREAKS = ("tab", "line-break")
_AROUND = ("span", "a", "ruby", "ruby-base", "meta", "meta-field", "hidden-paragraph")
_REASONS = {"deletion": "in deleted text", "ruby-text": "in ruby text"}


class OpenDocument(ZippedDocument):
    """An OpenDocument file."""

    def _read_parts(self) -> None:
        manifest = "META-INF/manifest.xml"
        if manifest in self.names and "encryption-data" in self._text(manifest):
            raise UserError(f"{self.path} is encrypted. Expected a file without a password.")
        self._text(_MEMBERS[0])
        for name in self.names:
            if name.rpartition("/")[2] in _MEMBERS:
                part = _Part(self._text(name), self._name(name))
                part.read()
                self._keep(name, part)


class _Part(TextPart):
    """A part in which languages have countries.

    Attributes:
        countries: the place of the country, by the beginning of the place of its language.
    """

    def __init__(self, text: str, name: str):
        super().__init__(text, name)
        self.countries: dict[int, tuple[int, int]] = {}

    def read(self) -> None:
        """Find the units of the part."""
        inline: set[int] = set()  # places of the elements in paragraphs
        streams = _streams(self, self._with_languages(xml_events(self.text, self.name)), inline)

        def reason(event: Event) -> str | None:
            if event.name in _REASONS:
                return _REASONS[event.name]
            is_field = event.start in inline and event.kind == "start" and event.name not in _AROUND
            return "in fields" if is_field else None

        rules = Rules(
            is_inline=lambda event: event.start in inline and event.name not in _BREAKS,
            reason=reason,
            alone=lambda event: "separator" if event.name == "s" else "mark",
            language="",
        )
        for stream in streams:
            add_units(self, stream.events, rules)
        self.units.sort(key=lambda unit: unit.start)

    def _with_languages(self, events: Iterable[Event]) -> Iterable[Event]:
        is_language = False
        for event in events:
            if language := event.attributes.get("fo:language"):
                self.languages.append((language.start, language.stop))
                if country := event.attributes.get("fo:country"):
                    self.countries[language.start] = country.start, country.stop
            if event.kind == "text" and is_language:
                self.languages.append((event.start, event.stop))
            is_language = event.kind == "start" and event.name == "language"
            yield event

    def rendered(
        self, translations: Sequence[MarkedText | None], edits: Sequence[Edit] = ()
    ) -> str:
        new: list[Edit] = []
        for start, stop, code in edits:
            if start in self.countries:
                code, *rest = re.split("[-_]", code)
                country = next((x for x in rest if len(x) == 2), "none")
                new.append(
                    (*self.countries[start], country.upper() if country in rest else country)
                )
            new.append((start, stop, code))
        return super().rendered(translations, new)


class _Stream:
    """Events without the notes, frames and others in paragraphs, which are streams of their own."""

    def __init__(self, level: int = 0):
        self.events: list[Event] = []
        self.depth = 0  # number of open paragraphs
        self.level = level  # number of streams that it is in


def _streams(part: TextPart, events: Iterable[Event], inline: set[int]) -> list[_Stream]:
    """Divide events into streams.

    An element that is a stream stands in the one around it as an empty element. Text outside of
    paragraphs is data, and in no stream.

    Args:
        part: the part.
        events: its events.
        inline: set that gets the places of all elements in paragraphs.
    """
    opened: list[tuple[Event, _Stream]] = []  # elements, and the streams that they are in
    streams = [stream := _Stream()]
    for event in events:
        if stream.depth and event.kind in ("start", "empty"):
            inline.add(event.start)
        if event.kind == "start":
            opened.append((event, stream))
            if stream.depth and _is_nested(event):
                streams.append(stream := _Stream(stream.level + 1))
                validate_depth(part, event, stream.level)
                continue
        elif event.kind == "end":
            start, outer = opened.pop()
            if stream is outer:
                stream.depth -= _is_paragraph(start)
            else:
                stream, event = outer, start._replace(kind="empty", stop=event.stop)
        if stream.depth or event.name:
            stream.events.append(event)
        stream.depth += _is_paragraph(event)
    return streams


def _is_nested(event: Event) -> bool:
    return event.name == "note" or not event.namespace.endswith(":text:1.0")


def _is_paragraph(event: Event) -> bool:
    # A title of a chart consists of paragraphs.
    is_chart = event.namespace.endswith(":chart:1.0")
    return event.kind == "start" and event.name in _PARAGRAPHS and not is_chart
