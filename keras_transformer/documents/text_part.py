"""The text of a file, or of a member of a zipped one, whose units are replaced in place."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.language_codes import is_same_language, language_tag
from keras_transformer.protection.spans import MarkedText, Span

LONGEST_UNIT = 100_000  # characters
Edit = tuple[int, int, str]  # the start and stop of a place in a text, and its new text


class Unit(NamedTuple):
    """A text to translate, and its place.

    Attributes:
        marked: the `MarkedText`.
        start: index of its beginning in the text of the part.
        stop: index of its end there.
        escape: function of a piece of text that returns how it is written at this place.
    """

    marked: MarkedText
    start: int
    stop: int
    escape: Callable[[str], str] = str


class TextPart:
    """A text with units. Each of its other characters stays as it is.

    A unit may lie in a span of another one, as the attribute of a tag does.

    Args:
        text: the text.
        name: name of the file, and of its member, for error messages.

    Attributes:
        units: list of `Unit`.
        skipped: `Counter` of the texts that are not units, by reason.
        remarks: list of further observations.
        languages: places (start, stop) where the text declares the language of its own words.
        language: the language of the translations that the text declares, or None.
        source_lang: the language of the text when it is written, or None.
        target_lang: the language of the translations when the text is written, or None.
    """

    def __init__(self, text: str, name: str = "The text"):
        self.text = text
        self.name = name
        self.units: list[Unit] = []
        self.skipped: Counter[str] = Counter()
        self.remarks: list[str] = []
        self.languages: list[tuple[int, int]] = []
        self.language: str | None = None
        self.source_lang: str | None = None
        self.target_lang: str | None = None

    def add(
        self,
        marked: MarkedText,
        start: int,
        stop: int,
        escape: Callable[[str], str] = str,
    ) -> bool:
        """Add a unit, and return whether it is one: a text with a letter."""
        if not any(map(str.isalpha, marked.text)):
            self.skipped["without letters"] += bool(marked.text.strip())
            return False
        if len(marked.text) > LONGEST_UNIT:
            raise self.error(
                start,
                f"a text of {len(marked.text):,} characters. Expected at most {LONGEST_UNIT:,}",
            )
        self.units.append(Unit(marked, start, stop, escape))
        return True

    def error(self, position: int, problem: str) -> UserError:
        """Return an error that names the place."""
        return UserError(
            f"{self.name}, line {self.text.count(chr(10), 0, position) + 1}: {problem}"
        )

    def rendered(
        self, translations: Sequence[MarkedText | None], edits: Sequence[Edit] = ()
    ) -> str:
        """Return the text with translations in the places of the units.

        Args:
            translations: one per unit. None, and a translation that equals its unit, leave the
                place as it is.
            edits: further places and their new texts.
        """
        return splice(self.text, self.edits(translations, edits))

    def language_edits(self) -> list[Edit]:
        """Return the edits by which the text declares the language of the translations."""
        source, target = self.source_lang, self.target_lang
        if not (source and target):
            return []
        codes = [(*place, self.text[slice(*place)]) for place in self.languages]
        found = [x for x in codes if x[2].strip() and is_same_language(x[2], source)]
        return [(start, stop, language_tag(target)) for start, stop, _ in found]

    def edits(
        self, translations: Sequence[MarkedText | None], edits: Sequence[Edit] = ()
    ) -> list[Edit]:
        """Return the edits that `rendered` makes, in order. None of them is in another."""
        changes: list[tuple[int, int, Any]] = [
            (unit.start, unit.stop, (unit, new))
            for unit, new in zip(self.units, translations)
            if new is not None and new != unit.marked
        ]
        finished: list[Edit] = []
        # A place comes after those in it. An insertion at an end of a place is not in it.
        for start, stop, new in sorted(
            [*changes, *edits], key=lambda x: (x[1], x[0] == x[1], -x[0])
        ):
            first = bisect_right(finished, (start, start), key=lambda x: x[:2])
            if not isinstance(new, str):
                unit, translation = new
                new = self.replacement(unit, translation, partial(self._written, finished[first:]))
            if new is not None:
                finished[first:] = [(start, stop, new)]
        return finished

    def _written(self, edits: list[Edit], span: Span) -> str:
        found = within(edits, span.start, span.stop)
        return splice(self.text, found, span.start, span.stop) if found else span.raw

    def replacement(
        self, unit: Unit, translation: MarkedText, write: Callable[[Span], str]
    ) -> str | None:
        """Return what takes the place of a unit, or None if it must stay, which is counted.

        Args:
            unit: the `Unit`.
            translation: its translation, with the same spans.
            write: function of a span that returns its text, with the changes of units in it.
        """
        return translation.written(unit.escape, write)


def within(edits: list[Edit], start: int, stop: int) -> list[Edit]:
    """Return the edits, which must be in order, that begin between two places."""
    first, last = (bisect_left(edits, place, key=lambda x: x[0]) for place in (start, stop))
    return edits[first:last]


def splice(text: str, edits: Sequence[Edit], start: int = 0, stop: int | None = None) -> str:
    """Return a part of a text with other texts at some places, which must be in order."""
    parts = []
    for begin, end, new in edits:
        parts += [text[start:begin], new]
        start = end
    return "".join([*parts, text[start:stop]])
