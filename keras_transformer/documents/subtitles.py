"""Subtitles, SubRip (`.srt`) and WebVTT (`.vtt`): a sentence over several cues is one unit."""

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from keras_transformer.documents.document import TextDocument, splice
from keras_transformer.documents.fragments import (
    KEPT,
    TAG,
    Dialect,
    Fragment,
    escape_strays,
    fragments,
)
from keras_transformer.errors import UserError

LINE_LENGTH = 42  # columns, a common limit of style guides; wide characters take two
_LONGEST_PAUSE = 2.0  # seconds between cues of one sentence
_MOST_CUES = 8  # of one sentence

_TIME = r"(?:(\d+):)?(\d+):(\d+)(?:[.,](\d+))?"
_TIMES = re.compile(rf"^[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?![\d:.,])[^\r\n]*", re.MULTILINE)
_ARROW = re.compile(r"^.*-->.*$", re.MULTILINE)
_BLANK = re.compile(r"(?<=\n)[ \t]*\r?\n")
_NUMBER = re.compile(r"(?<=\n)[ \t]*\d+\s*\Z")
_SENTENCE_END = re.compile(r"""[.!?…。！？:;♪#)\]][\s"'”’»」』)♪]*$""")
_LINE_END = re.compile(r"[ \t]*\r?\n[ \t]*")
# Times within a cue, and positions such as {\an8}.
_MARKS = r"<\d[\d:.]*>|\{\\[^{}]*\}"
_PIECE = re.compile(rf"(?P<hidden>{TAG}|{_MARKS})|(?P<space>\s+)|.", re.DOTALL)
# Chinese and Japanese, where a line may end between any two characters, but not before these.
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef]")
_NO_BEGIN = "、。，．！？：；）」』】〉》…ー々"

DIALECT = Dialect(
    marks=_MARKS,
    # A dash at the beginning of a line: another speaker.
    ends=r"(?<=\n)[ \t]*[-–—]+[ \t]*(?=\S)|(?<=>)[-–—][ \t]+",
)


class Cue(NamedTuple):
    """A cue: its times in seconds, and the place of its text."""

    begin: float
    end: float
    start: int
    stop: int


class Subtitles(TextDocument):
    """A file of subtitles. Times, numbers, settings, styles and comments are not touched."""

    markup = "html"

    def _find_units(self) -> None:
        self._newline = "\r\n" if "\r\n" in self.text else "\n"
        self._is_vtt = self.path.suffix.lower() == ".vtt"
        self._check_lines()
        if self._is_vtt and not self.text.startswith("WEBVTT"):
            raise self._error((0, 0), "expected WEBVTT at the beginning of a .vtt file")
        cues = list(self._cues())
        if not cues and not self._is_vtt:
            raise UserError(
                f"{self.path} has no cue. Expected times such as 00:00:01,000 --> 00:00:02,500"
            )
        groups: list[list[Fragment]] = []  # the parts of each sentence
        last = None
        for cue in cues:
            found = list(fragments(self.text, DIALECT, cue.start, cue.stop))
            if found and last and self._continues(groups[-1], last, cue, found[0]):
                groups[-1].append(found.pop(0))
            groups += [[part] for part in found]
            last = cue if groups and groups[-1][-1].start >= cue.start else None
        self._sentences: list[tuple[Fragment, list[Fragment]]] = []
        for group in groups:
            sentence = _one_fragment(group)
            if self._add(sentence.text, sentence[:2]):
                self._sentences.append((sentence, group))
        if overlaps := [b.start for a, b in pairwise(cues) if b.begin < a.end]:
            lines = [str(self.text.count("\n", 0, start)) for start in overlaps[:5]]
            more = ", ..." if len(overlaps) > 5 else ""
            self.remarks.append(
                f"cues that begin before the last one ends, in lines {', '.join(lines)}{more}"
            )

    def _cues(self) -> Iterator[Cue]:
        found = list(_TIMES.finditer(self.text))
        lines = {times.start() for times in found}
        for line in _ARROW.finditer(self.text):
            if line.start() not in lines:
                raise self._error(
                    line.span(),
                    "cannot read the times of a cue. Expected times such as "
                    f"00:00:01,000 --> 00:00:02,500. Received: {line[0].strip()[:80]!r}",
                )
        for times, following in zip(found, [*found[1:], None]):
            begin, end = _seconds(times.groups()[:4]), _seconds(times.groups()[4:])
            if end < begin:
                raise self._error(times.span(), "a cue ends before it begins")
            limit = following.start() if following else len(self.text)
            start = min(len(self.text), times.end() + len(self._newline))
            blank = _BLANK.search(self.text, start, limit)
            stop = blank.start() if blank else limit
            if following and not blank and (number := _NUMBER.search(self.text, start, stop)):
                stop = number.start()
            yield Cue(begin, end, start, max(start, stop))

    def _continues(self, group: list[Fragment], last: Cue, cue: Cue, part: Fragment) -> bool:
        """Return whether a cue continues the sentence of the unit before it."""
        return (
            len(group) < _MOST_CUES
            and not _SENTENCE_END.search(re.sub(TAG, "", group[-1].text))
            and 0 <= cue.begin - last.end <= _LONGEST_PAUSE
            and not re.search(r"\n[ \t]*[-–—]", self.text[cue.start - 1 : part.start])
        )

    def _rendered(self, translations: Sequence[str | None]) -> str:
        edits = []
        for (sentence, group), text in zip(self._sentences, translations):
            if text == sentence.text:
                continue  # Its lines may be divided within tags.
            text = self._restored(sentence, text, self.text.__getitem__)
            if text is None:
                continue
            for entity, character in () if self._is_vtt else _ESCAPED:
                # SubRip has no entities, except those that a file contains.
                if entity not in self.text[sentence.start : sentence.stop]:
                    text = text.replace(entity, character)
            sources = [self.text[part.start : part.stop] for part in group]
            owns = _divided(_one_line(text), list(map(_one_line, sources)))
            for part, source, own in zip(group, sources, owns):
                edits.append((part.start, part.stop, self._laid_out(own, source)))
        return splice(self.text, edits)

    def _laid_out(self, text: str, source: str) -> str:
        """Return a cue's text in as many lines as its source, or in more if they are too long."""
        lines, ends = _LINE_END.split(source), _LINE_END.findall(source)
        limit = max(LINE_LENGTH, *map(_width, lines))
        least = -(-_width(text) // limit)
        for count in range(max(len(lines), least), least + len(lines) + 3):
            trial = lines if count == len(lines) else [" " * limit] * count
            parts = [part for part in _divided(text, trial) if part]
            if all(_width(part) <= limit for part in parts):
                break
        ends += [self._newline] * len(parts)
        return "".join(itertools.chain(*zip(parts, [*ends[: len(parts) - 1], ""])))


_ESCAPED = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def _seconds(groups: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = (group or "0" for group in groups)
    return int(hours) * 3600 + int(minutes) * 60 + float(f"{seconds}.{fraction}")


def _one_fragment(group: list[Fragment]) -> Fragment:
    """Return the fragment of a sentence from its parts in several cues."""
    numbers = itertools.count(1)
    text = _joined([_one_line(part.text) for part in group])
    text = KEPT.sub(lambda _: f'<ph id="{next(numbers)}"/>', text)
    kept = [place for part in group for place in part.kept]
    return Fragment(group[0].start, group[-1].stop, escape_strays(text), kept)


def _one_line(text: str) -> str:
    return _joined(_LINE_END.split(text))


def _joined(lines: Sequence[str]) -> str:
    text = ""
    for line in lines:
        text += _joint(text, line) + line
    return text


def _joint(left: str, right: str) -> str:
    """Return what separates two lines: nothing in Chinese and Japanese."""
    is_wide = left and right and _WIDE.match(left[-1]) and _WIDE.match(right)
    return "" if is_wide or not left else " "


def _width(text: str) -> int:
    """Return the number of columns of a text without its tags."""
    return sum(map(_columns, _PIECE.sub(lambda x: "" if x["hidden"] else x[0], text)))


def _columns(character: str) -> int:
    return 1 + (unicodedata.east_asian_width(character) in "WF")


def _divided(text: str, sources: Sequence[str]) -> list[str]:
    """Divide a text between words, in proportion to the lengths of the parts of its source.

    Tags that are open at the end of a part are closed there, and opened again in the next part.
    """
    if len(sources) == 1:
        return [text]
    wanted, joined = [], ""
    for source in sources:
        joined += _joint(joined, source) + source
        wanted.append(_width(joined))
    breaks, position, last = [], 0, ""  # (columns before it, its start, its stop)
    for piece in _PIECE.finditer(text):
        if piece["hidden"]:
            continue
        if piece["space"]:
            breaks.append((position, *piece.span()))
        elif _WIDE.match(piece[0]) and _WIDE.match(last) and piece[0] not in _NO_BEGIN:
            breaks.append((position, piece.start(), piece.start()))
        position, last = position + _width(piece[0]), piece[0]
    parts, start, first = [], 0, 0
    for number, columns in enumerate(wanted[:-1], start=1):
        # Leave breaks for the parts that follow, as far as there are any.
        possible = breaks[first : max(first, len(breaks) - len(wanted) + 1 + number)]
        if not possible:
            parts.append("")
            continue
        target = columns * position / max(1, wanted[-1])
        chosen = min(range(len(possible)), key=lambda n: abs(possible[n][0] - target))
        parts.append(text[start : possible[chosen][1]])
        start, first = possible[chosen][2], first + chosen + 1
    return _closed([*parts, text[start:]])


def _closed(parts: list[str]) -> list[str]:
    result, opened = [], []
    for part in parts:
        part = "".join(opened) + part
        opened = []
        for tag in re.findall(TAG, part):
            if tag.startswith("</"):
                opened = opened[:-1]
            elif not tag.endswith("/>"):
                opened.append(tag)
        ends = "".join(f"</{re.split('[ .>]', tag[1:])[0]}>" for tag in reversed(opened))
        result.append(part + ends)
    return result
