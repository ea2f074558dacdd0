"""Pieces of a text that are taken out: its spans, and what patterns found."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from keras_transformer.protection.patterns import tag_of
from keras_transformer.protection.spans import MarkedText

# A skeleton has one of these letters for each piece, and the text between the pieces.
PLACEHOLDER, EMPTY, OPEN, CLOSE = "\ue000\ue001\ue002\ue003"
LETTERS = re.compile(f"[{PLACEHOLDER}-{CLOSE}]")
SPACELESS = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese, Japanese
LETTER = rf"[^\W{SPACELESS}]"
_KINDS = {"open": OPEN, "close": CLOSE, "placeholder": PLACEHOLDER}
_QUOTE = "[\"'`«»‹›„“”‘’]"
_MERGED = re.compile(
    # Letters of the same word, as in `%dpx` and `{name}'s`.
    rf"(?<![\w-]){LETTER}(?:{LETTER}|-)*+{PLACEHOLDER}"
    rf"|{PLACEHOLDER}(?:{LETTER}|-|['’](?={LETTER}))+"
    # Quotes and brackets around it.
    rf"|\({PLACEHOLDER}\)|\[{PLACEHOLDER}\]|<{PLACEHOLDER}>|{_QUOTE}{PLACEHOLDER}{_QUOTE}"
    # Several with only punctuation or spaces between them, as in `%d.%d` and `%s: %s`.
    rf"|{PLACEHOLDER}(?:(?:[^\w\s{PLACEHOLDER}-{CLOSE}]{{0,3}}|[,:;]?[^\S\n]+){PLACEHOLDER})+"
    # A pair of tags without other text.
    rf"|{OPEN}[^\S\n]*+(?:{PLACEHOLDER}[^\S\n]*+)?{CLOSE}"
)
_MOST_MERGES = 8  # of what belongs to the same placeholder


@dataclass(eq=False)
class Piece:
    """A piece that is taken out of a text.

    Attributes:
        content: what is put back.
        letter: the letter for it in a skeleton.
        name: the name of a tag; other than all other names for a half of a pair of spans.
        is_span: whether it is a `Span` of the text.
        separates: whether the words before and after it are two words.
        is_replaceable: whether a reserved symbol may stand for it.
        end: the closing half of an opening one.
    """

    content: MarkedText
    letter: str = PLACEHOLDER
    name: Any = ""
    is_span: bool = False
    separates: bool = False
    is_replaceable: bool = False
    end: "Piece | None" = None
    # Where it stands: see `spacing`.
    position: int = 0  # in the text that the model reads
    before: str = ""  # white space of the source that the text does not have
    after: str = ""
    added: str = ""  # white space of the text that the source does not have
    is_left: bool = False  # whether it stands on the left of white space
    is_spaced: bool = False  # whether white space is on its left
    precedes: str = ""  # the letter before it, without white space between
    follows: str = ""  # the letter after it and after white space
    is_joined: bool = False  # whether that letter follows without white space
    next: "Piece | None" = None  # the piece after it, without words between

    @property
    def raw(self) -> str:
        return str(self.content)


def joined(parts: Iterable[str | MarkedText], is_wrapped: bool = False) -> MarkedText:
    """Return the parts of a text as one."""
    texts, spans, length = [], [], 0
    for part in parts:
        text = part if isinstance(part, str) else part.text
        if not isinstance(part, str):
            spans += [(length + position, span) for position, span in part.spans]
        texts.append(text)
        length += len(text)
    return MarkedText("".join(texts), tuple(spans), is_wrapped)


def skeleton_of(
    marked: MarkedText, found: Sequence[tuple[int, int]], symbols: Sequence[tuple[int, int]] = ()
) -> tuple[str, list[Piece]]:
    """Return a text with one letter for each piece, and the pieces.

    Args:
        marked: the text.
        found: start and stop of the placeholders and tags in it.
        symbols: start and stop of characters that a vocabulary lacks.
    """
    text, spans = marked.text, [*marked.spans]
    parts, pieces, last, index = [], [], 0, 0

    def add(stop: int, piece: Piece, resume: int) -> None:
        nonlocal last
        parts.extend([text[last:stop], piece.letter])
        pieces.append(piece)
        last = resume

    lacked = {*symbols}
    for start, stop in [*sorted([*found, *symbols]), (len(text), len(text) + 1)]:
        while index < len(spans) and spans[index][0] <= start:
            add(spans[index][0], _of_span(spans[index][1]), spans[index][0])
            index += 1
        inner = index
        while index < len(spans) and spans[index][0] < stop:
            index += 1
        if stop > len(text):
            break
        # A pair that is partly inside is moved around the placeholder.
        inside = spans[inner:index]
        known = {id(span) for _, span in inside}
        halves = [(x, s) for x, s in inside if s.partner is not None and id(s.partner) not in known]
        for _, span in halves:
            if span.kind == "open":
                add(start, _of_span(span), start)
        kept = [(x - start, s) for x, s in inside if (x, s) not in halves]
        content = MarkedText(text[start:stop], tuple(kept))
        is_lacked = (start, stop) in lacked
        add(start, Piece(content, EMPTY, separates=True) if is_lacked else _of_text(content), stop)
        for _, span in halves:
            if span.kind == "close":
                add(stop, _of_span(span), stop)
    parts.append(text[last:])
    _pair(pieces)
    letters = iter(pieces)
    return LETTERS.sub(lambda _: next(letters).letter, "".join(parts)), pieces


def _of_span(span) -> Piece:
    letter = _KINDS.get(span.kind, EMPTY)
    name = id(span.partner) if span.kind == "close" else id(span)
    return Piece(
        *(MarkedText("", ((0, span),)), letter, name),
        is_span=True,
        separates=span.kind == "separator",
        is_replaceable=span.kind == "placeholder",
    )


def _of_text(content: MarkedText) -> Piece:
    kind, name = tag_of(content.text) or ("placeholder", "")
    return Piece(
        *(content, _KINDS.get(kind, EMPTY), name),
        separates=kind not in ("placeholder", "mark"),
        is_replaceable=kind in ("placeholder", "empty"),
    )


def _pair(pieces: Iterable[Piece]) -> None:
    """Join opening and closing halves. One without the other stands for itself.

    Halves of which only one is in a pair of spans do not belong together.
    """
    opened: list[Piece] = []
    places: defaultdict[Any, list[int]] = defaultdict(list)
    floors = [0]
    for piece in pieces:
        if piece.letter == OPEN:
            places[piece.name].append(len(opened))
            opened.append(piece)
            if piece.is_span:
                floors.append(len(opened))
        elif piece.letter == CLOSE:
            if piece.is_span and places[piece.name]:
                floors.pop()
            if not places[piece.name] or places[piece.name][-1] < floors[-1]:
                piece.letter = EMPTY
                continue
            first = places[piece.name][-1]
            for other in opened[first:]:
                places[other.name].pop()
                other.letter = EMPTY
            opened[first].letter, opened[first].end = OPEN, piece
            del opened[first:]
    for other in opened:
        other.letter = EMPTY


def merged(skeleton: str, pieces: list[Piece]) -> tuple[str, list[Piece]]:
    """Join placeholders with what belongs to them."""
    for _ in range(_MOST_MERGES):
        last, letters, kept, number = 0, [], [], 0
        for match in _MERGED.finditer(skeleton):
            start, stop = match.span()
            first = number + len(LETTERS.findall(skeleton, last, start))
            inner = pieces[first : first + len(LETTERS.findall(match[0]))]
            contents = iter(inner)
            parts = [next(contents).content if LETTERS.match(x) else x for x in match[0]]
            letter = PLACEHOLDER if PLACEHOLDER in match[0] else EMPTY
            letters += [skeleton[last:start], letter]
            kept += [*pieces[number:first], Piece(joined(parts), letter)]
            number, last = first + len(inner), stop
        if not letters:
            break
        skeleton, pieces = "".join([*letters, skeleton[last:]]), kept + pieces[number:]
    return skeleton, pieces
