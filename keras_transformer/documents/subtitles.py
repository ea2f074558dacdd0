"""Subtitles, SubRip (`.srt`) and WebVTT (`.vtt`): a sentence over several cues is one unit."""

import html
import itertools
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from keras_transformer.documents.document import TextDocument
from keras_transformer.documents.markup import Event, Rules, add_units
from keras_transformer.documents.text_part import TextPart, Unit
from keras_transformer.errors import UserError
from keras_transformer.protection.pieces import joined
from keras_transformer.protection.spans import MarkedText, Span

LINE_LENGTH = 42  # columns, a common limit of style guides; wide characters take two
_LONGEST_PAUSE = 2.0  # seconds between cues of one sentence
_MOST_CUES = 8  # of one sentence

_LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|\Z)")
_TIME = r"(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:[.,](\d{1,9}))?"
_TIMES = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?![\d:.,])")
_ALMOST_TIMES = re.compile(r"\s*\d+:\S*\s*-->|.*-->\s*\d+:\d")
# Tags, times within a cue, and positions such as {\an8}.
_TAG, _MARK = r"</?(?P<name>[A-Za-z]+)[^<>\r\n]*>", r"</?[\d:.]*>|\{\\[^{}]*\}"
_TOKEN = re.compile(rf"(?P<tag>{_TAG})|(?P<mark>{_MARK})|[^<{{]+|.", re.DOTALL)
# A dash at the beginning of a line: another speaker.
_DASH = re.compile(
    rf"(?<=[\r\n])(?:[ \t]*(?:<[^<>\r\n]*>|{_MARK}))*([ \t]*(?!-->)[-–—]+[ \t]*)(?=\S)"
)
_LINE_END = re.compile(r"[ \t]*(?:(?:\r\n?|\n)[ \t]*)+")
_ENDS, _AFTER_END = ".!?…。！？:;♪#)]", " \t\r\n\"'”’»」』)♪"
# Chinese and Japanese, where a line may end between any two characters, but not before these.
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef]")
_NO_BEGIN = "、。，．！？：；）」』】〉》…ー々"


class Subtitles(TextDocument):
    """A file of subtitles. Times, numbers, settings, styles and comments are not touched."""

    def _part(self, text: str) -> TextPart:
        is_vtt = self.path.suffix.lower() == ".vtt"
        part = _SubtitlePart(text, str(self.path), is_vtt)
        if is_vtt and not re.match(r"WEBVTT(?![^ \t\r\n])", text):
            raise part.error(0, "expected WEBVTT at the beginning of a .vtt file")
        if not part.cues and not is_vtt:
            raise UserError(
                f"{self.path} has no cue. Expected times such as 00:00:01,000 --> 00:00:02,500"
            )
        return part


class Cue(NamedTuple):
    """A cue: its times in seconds, and the place of its text."""

    begin: float
    end: float
    start: int
    stop: int


class _Fragment(NamedTuple):
    """The part of a sentence in one cue: its text in one line, and its lines with their ends."""

    marked: MarkedText
    start: int
    stop: int
    lines: list[str]
    ends: list[str]


class _SubtitlePart(TextPart):
    """The text of a file of subtitles."""

    def __init__(self, text: str, name: str, is_vtt: bool):
        super().__init__(text, name)
        self._is_vtt = is_vtt
        self._escape = (lambda x: html.escape(x, quote=False)) if is_vtt else str
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._lines = [x.span(1) for x in _LINE.finditer(text)]
        self.cues = list(self._cues())
        self._sentences: dict[int, list[_Fragment]] = {}  # by their beginning
        for group in filter(None, self._groups()):
            sentence, start = _joined(fragment.marked for fragment in group), group[0].start
            if self.add(sentence, start, group[-1].stop, self._escape):
                self._sentences[start] = group
        if overlaps := [b.start for a, b in pairwise(self.cues) if b.begin < a.end]:
            lines = [str(text.count("\n", 0, start)) for start in overlaps[:5]]
            more = ", ..." if len(overlaps) > 5 else ""
            self.remarks.append(
                f"cues that begin before the last one ends, in lines {', '.join(lines)}{more}"
            )

    def _groups(self) -> Iterator[list[_Fragment]]:
        """Yield the parts of each sentence."""
        group: list[_Fragment] = []
        last, last_line = None, ""
        for cue in self.cues:
            lines = _plain(self.text[cue.start : cue.stop]).splitlines()
            lines = list(filter(None, map(str.strip, lines))) or [""]
            # Automatic captions show the last line again above the new one.
            is_rolling = bool(last_line) and lines[0] == last_line
            for fragment in self._fragments(cue, is_rolling and len(lines) > 1):
                if last and not is_rolling and self._continues(group, last, cue, fragment):
                    group.append(fragment)
                else:
                    yield group
                    group = [fragment]
                last = None
            last, last_line = cue if group and group[-1].start >= cue.start else None, lines[-1]
        yield group

    def _line(self, number: int) -> str:
        return self.text[slice(*self._lines[number])]

    def _cues(self) -> Iterator[Cue]:
        """Yield the cues, and count the texts outside of them."""
        found = []
        for number, (start, stop) in enumerate(self._lines):
            if times := _TIMES.match(self.text, start, stop):
                found.append((number, times))
            elif "-->" in (line := self.text[start:stop]) and _ALMOST_TIMES.match(line):
                raise self.error(
                    start,
                    "cannot read the times of a cue. Expected times such as "
                    f"00:00:01,000 --> 00:00:02,500. Received: {line.strip()[:80]!r}",
                )
        self._count_outside(0, found[0][0] if found else len(self._lines))
        for (number, times), limit in itertools.zip_longest(found, [x[0] for x in found[1:]]):
            begin, end = _seconds(times.groups()[:4]), _seconds(times.groups()[4:])
            if end < begin:
                raise self.error(times.start(), "a cue ends before it begins")
            first, last = number + 1, self._last_line(number + 1, limit)
            if last > first:
                yield Cue(begin, end, self._lines[first][0], self._lines[last - 1][1])
            if self._is_vtt:
                self._count_outside(last, len(self._lines) if limit is None else limit)

    def _last_line(self, first: int, limit: int | None) -> int:
        """Return the number of the line after the text of a cue."""
        last = len(self._lines) if limit is None else limit
        if self._is_vtt:  # Only an empty line ends a cue.
            return next((n for n in range(first, last) if not self._line(n)), last)
        last = self._without_blank(first, last)
        if limit is None or last == first or not self._line(last - 1).strip().isdecimal():
            return last
        before = self._without_blank(first, last - 1)
        is_number = last == limit or before in (first, *range(last - 1))
        return before if is_number else last

    def _without_blank(self, first: int, last: int) -> int:
        while last > first and not self._line(last - 1).strip():
            last -= 1
        return last

    def _count_outside(self, first: int, last: int) -> None:
        """Count the texts of lines outside of cues, and find the language of a header."""
        for is_text, block in groupby(range(first, last), lambda n: bool(self._line(n).strip())):
            numbers = list(block)
            if is_text and numbers[-1] + 1 == last < len(self._lines):
                numbers.pop()  # the number or the name of the cue
            if not is_text or not numbers:
                continue
            place = self._lines[numbers[0]][0], self._lines[numbers[-1]][1]
            text = self.text[slice(*place)]
            if self._is_vtt and numbers[0] == 0:
                found = re.search(r"^Language:[ \t]*(\S+)", text, re.MULTILINE)
                self.languages += [found.span(1)] if found else []
            elif any(map(str.isalpha, text)) and not re.match(r"(STYLE|REGION)\s", text):
                self.skipped["in notes" if re.match(r"NOTE\s", text) else "outside of cues"] += 1

    def _fragments(self, cue: Cue, is_rolling: bool) -> list[_Fragment]:
        """Return the parts of a cue. A dash, and a line that is shown again, end a part."""
        stops = {x.start(1): x.end(1) for x in _DASH.finditer(self.text, cue.start, cue.stop)}
        if is_rolling:
            shown = re.compile(r"\S[^\r\n]*").search(self.text, cue.start, cue.stop)
            stops |= {shown.end(): shown.end()} if shown else {}
        part = TextPart(self.text, self.name)
        add_units(part, self._events(cue, stops), _RULES)
        self.skipped.update(part.skipped)
        fragments = []
        for marked, start, stop, _ in part.units:
            ends = list(_LINE_END.finditer(marked.text))
            lines = _cut(marked, [end.span() for end in ends])
            texts = [line.text for line in lines]
            fragments.append(_Fragment(_joined(lines), start, stop, texts, [x[0] for x in ends]))
        return fragments

    def _events(self, cue: Cue, stops: dict[int, int]) -> Iterator[Event]:
        position = cue.start
        for begin, end in [*sorted(stops.items()), (cue.stop, cue.stop)]:
            for token in _TOKEN.finditer(self.text, position, begin):
                raw, place = token[0], token.span()
                if token["tag"]:
                    yield Event("end" if raw[1] == "/" else "start", *place, token["name"])
                elif token["mark"]:
                    yield Event("other", *place)
                else:
                    yield Event("text", *place, text=html.unescape(raw) if self._is_vtt else raw)
            yield Event("empty", begin, end, _STOP)
            position = end

    def _continues(self, group: list[_Fragment], last: Cue, cue: Cue, fragment: _Fragment) -> bool:
        """Return whether a cue continues the sentence of the unit before it."""
        before = self.text[cue.start : fragment.start]
        return (
            len(group) < _MOST_CUES
            and not _is_end(group[-1].marked.text)
            and 0 <= cue.begin - last.end <= _LONGEST_PAUSE
            and not re.search(r"[-–—]", _plain(before))
            and not re.match(r"<v\b", before)
        )

    def replacement(
        self, unit: Unit, translation: MarkedText, write: Callable[[Span], str]
    ) -> str | None:
        group = self._sentences[unit.start]
        owns = _divided(translation, [fragment.marked.text for fragment in group])
        text, last = "", unit.start
        for fragment, own in zip(group, owns):
            text += self.text[last : fragment.start] + self._laid_out(own, fragment)
            last = fragment.stop
        return text

    def _laid_out(self, own: MarkedText, fragment: _Fragment) -> str:
        """Return a cue's text in as many lines as its source, or in more if they are too long."""
        lines = fragment.lines
        limit = max(LINE_LENGTH, *map(_width, lines))
        least = max(len(lines), -(-_width(own.text) // limit))
        for count in range(least, least + 4):
            breaks = _breaks(own.text, lines if count == len(lines) else [" " * limit] * count)
            ends = [0, *itertools.chain(*breaks), len(own.text)]
            if all(_width(own.text[a:b]) <= limit for a, b in zip(ends[::2], ends[1::2])):
                break
        parts = [part.written(self._escape) for part in _cut(own, breaks)]
        ends = [*fragment.ends, *[self._newline] * len(parts)][: len(parts) - 1]
        return "".join(itertools.chain(*zip(parts, [*ends, ""])))


_STOP = "end of a unit"
_RULES = Rules(is_inline=lambda event: event.name != _STOP)


def _seconds(groups: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = (group or "0" for group in groups)
    return int(hours) * 3600 + int(minutes) * 60 + float(f"{seconds}.{fraction}")


def _plain(text: str) -> str:
    """Return a text without tags."""
    return _TOKEN.sub(lambda x: "" if x["tag"] or x["mark"] else x[0], text)


def _is_end(text: str) -> bool:
    """Return whether a sentence ends with a text."""
    before = text.rstrip(_AFTER_END)
    after = text[len(before) :]
    return before[-1:] in _ENDS or ")" in after or "♪" in after


def _joined(parts: Iterable[MarkedText]) -> MarkedText:
    """Return texts as one, with a space between two."""
    found, last = [], ""
    for part in parts:
        found += [_joint(last, part.text), part]
        last = part.text or last
    return joined(found)


def _joint(left: str, right: str) -> str:
    """Return what separates two lines: nothing in Chinese and Japanese."""
    is_wide = left and right and _WIDE.match(left[-1]) and _WIDE.match(right)
    return "" if is_wide or not left else " "


def _width(text: str) -> int:
    """Return the number of columns of a text."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def _breaks(text: str, sources: Sequence[str]) -> list[tuple[int, int]]:
    """Return where to divide a text, in proportion to the lengths of the parts of its source.

    There are fewer places than parts if the text has fewer words.
    """
    wanted, total, last = [], 0, ""
    for source in sources:
        total += len(_joint(last, source)) + _width(source)
        wanted.append(total)
        last = source
    columns, possible = 0, []  # (columns before it, its start, its stop)
    for found in re.finditer(r"\s+|\S", text):
        start, stop = found.span()
        is_wide = start and _WIDE.match(text, start) and _WIDE.match(text, start - 1)
        if found[0].isspace():
            possible.append((columns, start, stop))
        elif is_wide and found[0] not in _NO_BEGIN:
            possible.append((columns, start, start))
        columns += _width(found[0])
    breaks, first = [], 0
    for number, width in enumerate(wanted[:-1], start=2):
        # Leave places for the parts that follow, as far as there are any.
        last = min(len(possible), max(first + 1, len(possible) - len(wanted) + number))
        if first >= last:
            break
        target = width * columns / max(1, total)
        right = min(bisect_left(possible, (target,), first, last), last - 1)
        left = max(first, right - 1)
        chosen = min((left, right), key=lambda n: abs(possible[n][0] - target))
        breaks.append(possible[chosen][1:])
        first = chosen + 1
    return breaks


def _cut(marked: MarkedText, breaks: Sequence[tuple[int, int]]) -> list[MarkedText]:
    """Divide a text at places. White space there is left out."""
    parts, spans, begin, index = [], marked.spans, 0, 0
    for start, stop in [*breaks, (len(marked.text) + 1, 0)]:
        first = index
        while index < len(spans) and _is_before(*spans[index], start, stop):
            index += 1
        own = [(max(0, min(position, start) - begin), x) for position, x in spans[first:index]]
        parts.append(MarkedText(marked.text[begin:start], tuple(own)))
        begin = stop
    return parts


def _is_before(position: int, span: Span, start: int, stop: int) -> bool:
    """Return whether a span stands before white space where a text is divided."""
    if span.kind == "close":
        return position <= stop or position <= start
    return position < start or (position == start < stop and span.kind != "open")


def _divided(marked: MarkedText, sources: Sequence[str]) -> list[MarkedText]:
    """Divide a translation over the cues of its source.

    Tags that are open at the end of a part are closed there, and opened again in the next part. If
    there are fewer words than cues, the last ones show the last part again.
    """
    parts, opened = [], []
    for part in _cut(marked, _breaks(marked.text, sources) if len(sources) > 1 else []):
        spans = [(0, span) for span in opened] + list(part.spans)
        opened = []
        for _, span in spans:
            opened = [*opened, span] if span.kind == "open" else opened
            opened = [x for x in opened if x is not span.partner]
        ends = [(len(part.text), span.partner) for span in reversed(opened) if span.partner]
        parts.append(MarkedText(part.text, (*spans, *ends)))
    return parts + [parts[-1]] * (len(sources) - len(parts))
