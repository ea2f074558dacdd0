"""Pieces of a text that are taken out: its spans, and what patterns found."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, pairwise, zip_longest
from typing import Any, cast

from keras_transformer import untranslated
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText, Span
from keras_transformer.validation import check_strings

# Not entities, which Moses's tokenizer writes for apostrophes: models read them.
_FOUND = re.compile(f"{untranslated.TAG}|{untranslated.PLACEHOLDER}")
# A text without these characters has nothing to protect.
_HINT = re.compile(r"[%{<@$\ue000-\uf8ff]|://|mailto:|www\.")
_TAG = re.compile(r"<(/?)([\w:.-]+)(?:\s[^<]*?)?(/?)>")
_VOID = frozenset(
    "area base basefont br col embed hr img input link meta param source track wbr".split()
)
_JOINERS = "[\u200d\ufe0e\ufe0f]*"  # characters in emoji that join others, or choose their style

# Sets of patterns by their names: placeholders of some libraries that are text elsewhere.
NAMED = {
    "i18next": (r"</?\d+\s*/?>", r"\$t\((?:[^()]|\([^()]*\))*+\)"),
    "laravel": (r"(?<![\w:]):[A-Za-z_]\w*(?![\w:])",),
}

# A skeleton has one of these letters for each piece, and the text between the pieces.
PLACEHOLDER, EMPTY, OPEN, CLOSE = "\ue000\ue001\ue002\ue003"
LETTERS = re.compile(f"[{PLACEHOLDER}-{CLOSE}]")
SPACELESS = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese, Japanese
LETTER = rf"[^\W{SPACELESS}]"
OPENING, CLOSING = "([{¿¡«„“‘‚‹「『（", ".,;:!?…)]}»”’›。，、；：！？」』）%"
_ENDS = ".,;:!?…"
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
    # A piece that stays as it is.
    rf"|{LETTERS.pattern}"
)
_MOST_MERGES = 8  # of what belongs to the same placeholder
_CLUSTER = re.compile(rf"(?<!\s)\s*{LETTERS.pattern}(?:\s|{LETTERS.pattern})*")


def compiled(patterns: Iterable[str | re.Pattern[str]]) -> tuple[re.Pattern[str], ...]:
    """Compile the regular expressions of parts to keep.

    Args:
        patterns: list of strings: regular expressions, or names of `NAMED` sets of them; or the
            result of this function.

    Raises:
        UserError: if one of them is not a regular expression.
    """
    if isinstance(patterns, tuple) and all(isinstance(x, re.Pattern) for x in patterns):
        return cast(tuple[re.Pattern[str], ...], patterns)
    names = check_strings("protect", cast(Iterable[str], patterns))
    return tuple(_compiled(x) for name in names for x in NAMED.get(name, (name,)))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UserError(
            f"`protect` must be regular expressions. Received: {pattern!r}: {error}"
        ) from None


def find(
    text: str, patterns: Iterable[re.Pattern[str]] = (), lacked: str = ""
) -> list[tuple[int, int]]:
    """Return the start and stop of each placeholder, address and tag of a text, in order.

    Args:
        text: a string.
        patterns: further patterns. Parts that overlap become one.
        lacked: characters that are parts too, each with the characters that change its style.
    """
    first = re.compile(f"{_FOUND.pattern}|[{re.escape(lacked)}]{_JOINERS}") if lacked else _FOUND
    used = [first, *patterns] if lacked or _HINT.search(text) else patterns
    found = [match.span() for pattern in used for match in pattern.finditer(text)]
    if not patterns:
        return found
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(found):
        if start < stop and (not merged or start >= merged[-1][1]):
            merged.append((start, stop))
        elif start < stop:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
    return merged


def tag_kind(raw: str) -> tuple[str, str] | None:
    """Return the kind of a tag, and its name; or None for another string.

    The kind is the kind of a `Span`, or `"empty"` for a tag such as `<x/>`.
    """
    if not (match := _TAG.fullmatch(raw)):
        return None
    is_end, name, is_alone = match.groups()
    name = name.lower()
    if name in _VOID:
        return ("mark" if name == "wbr" else "separator"), name
    return ("empty" if is_alone else "close" if is_end else "open"), name


@dataclass(eq=False)
class Piece:
    """A piece that is taken out of a text.

    Attributes:
        content: the text or span to put back.
        letter: the letter for it in a skeleton.
        name: the name of a tag; other than all other names for a half of a pair of spans.
        is_span: whether it is a `Span` of the text.
        separates: whether the words before and after it are two words.
        is_replaceable: whether a reserved symbol may stand for it.
        end: the closing half of an opening one.
    """

    content: str | MarkedText
    letter: str = PLACEHOLDER
    name: Any = ""
    is_span: bool = False
    separates: bool = False
    is_replaceable: bool = False
    end: "Piece | None" = None
    # Where it stands, which `without_pieces` sets.
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
        marked = MarkedText(part) if isinstance(part, str) else part
        spans += [(length + position, span) for position, span in marked.spans]
        texts.append(marked.text)
        length += len(marked.text)
    return MarkedText("".join(texts), tuple(spans), is_wrapped)


def text_skeleton(texts: Iterable[str], letters: Iterable[str]) -> str:
    """Return texts with letters between them."""
    return "".join(chain(*zip_longest(texts, letters, fillvalue="")))


def taken(
    marked: MarkedText, found: Sequence[tuple[int, int]], lacked: str = ""
) -> tuple[list[str], list[Piece]]:
    """Return the texts between pieces, and the pieces.

    Args:
        marked: the text. A span inside of a placeholder moves to its beginning.
        found: start and stop of the placeholders and tags in it.
        lacked: characters that a vocabulary lacks.
    """
    starts, items = [start for start, _ in found], []
    for position, span in marked.spans:
        index = bisect_left(starts, position) - 1
        if index >= 0 and position < found[index][1]:
            position = starts[index]
        items.append((position, False, position, _of_span(span)))
    for start, stop in found:
        items.append((start, True, stop, _of_text(marked.text[start:stop], lacked)))
    items.sort(key=lambda item: item[:2])
    bounds = [0, *(x for start, _, stop, _ in items for x in (start, stop)), len(marked.text)]
    texts = [marked.text[start:stop] for start, stop in zip(bounds[::2], bounds[1::2])]
    pieces = [piece for *_, piece in items]
    _pair(pieces)
    has_pairs = any(piece.end for piece in pieces)
    return _with_whole_notes(texts, pieces) if has_pairs else (texts, pieces)


def _with_whole_notes(texts: list[str], pieces: list[Piece]) -> tuple[list[str], list[Piece]]:
    """Join pairs without letters after a word, such as the number of a note, into one piece.

    A pair that remains would enclose the word, as tags do not split words.
    """
    numbers = {id(piece): number for number, piece in enumerate(pieces)}
    counts = [(any(map(str.isalpha, x)), bool(x.strip())) for x in texts]
    letters, filled = ([0, *accumulate(x)] for x in zip(*counts))
    new_texts, new_pieces, number, before = [texts[0]], [], 0, ""
    while number < len(pieces):
        before = texts[number][-1:] or before
        first, piece = number, pieces[number]
        stop = numbers[id(piece.end)] if piece.end else number
        is_note = letters[first + 1] == letters[stop + 1] and filled[first + 1] < filled[stop + 1]
        if is_note and before.strip() and before not in OPENING:
            parts = [piece.content]
            for number in range(first + 1, stop + 1):
                parts += [MarkedText(texts[number]), pieces[number].content]
            piece = Piece(joined(parts), is_span=True)
        new_pieces.append(piece)
        number += 1
        new_texts.append(texts[number])
    return new_texts, new_pieces


def _of_span(span: Span) -> Piece:
    letter, name = _KINDS.get(span.kind, EMPTY), id(span)
    name = id(span.partner) if span.kind == "close" else name
    is_separator, is_placeholder = span.kind == "separator", span.kind == "placeholder"
    return Piece(MarkedText("", ((0, span),)), letter, name, True, is_separator, is_placeholder)


def _of_text(text: str, lacked: str) -> Piece:
    kind, name = tag_kind(text) or ("separator" if text[0] in lacked else "placeholder", "")
    separates = kind not in ("placeholder", "mark")
    is_replaceable = kind in ("placeholder", "empty")
    return Piece(text, _KINDS.get(kind, EMPTY), name, False, separates, is_replaceable)


def _pair(pieces: Iterable[Piece]) -> None:
    """Join opening and closing halves. One without the other stands for itself.

    Two halves do not belong together if only one is in a pair of spans.
    """
    opened: list[Piece] = []
    places: defaultdict[Any, list[int]] = defaultdict(list)
    floors = [0]
    for piece in pieces:
        if piece.letter == OPEN:
            places[piece.name].append(len(opened))
            opened.append(piece)
            floors += [len(opened)] * piece.is_span
        elif piece.letter == CLOSE:
            found = places[piece.name]
            del floors[len(floors) - (piece.is_span and len(found)) :]
            if not found or found[-1] < floors[-1]:
                piece.letter = EMPTY
                continue
            first = found[-1]
            opened[first].end = piece
            for other in opened[first:]:
                places[other.name].pop()
                other.letter = OPEN if other.end else EMPTY
            del opened[first:]
    for other in opened:
        other.letter = EMPTY


def merged(skeleton: str, pieces: list[Piece]) -> tuple[str, list[Piece]]:
    """Join placeholders with what belongs to them."""
    for _ in range(_MOST_MERGES):
        source, kept = iter(pieces), []
        before, skeleton = skeleton, _MERGED.sub(partial(_merge, source, kept), skeleton)
        pieces = kept
        if skeleton == before:
            break
    return skeleton, pieces


def _merge(source: Iterator[Piece], kept: list[Piece], match: re.Match[str]) -> str:
    """Join the pieces of a match, and return the letter of the new one."""
    texts = LETTERS.split(match[0])
    found = [next(source) for _ in texts[1:]]
    if len(found) == 1 and found[0].is_span and _is_by_word(*texts):
        kept += found
        return match[0]
    if len(match[0]) > 1:
        parts = chain(*zip_longest(texts, (piece.content for piece in found), fillvalue=""))
        found = [Piece(joined(parts), PLACEHOLDER if PLACEHOLDER in match[0] else EMPTY)]
    kept += found
    return found[0].letter


def _is_by_word(before: str, after: str) -> bool:
    """Return whether a word, and not only an ending such as "s", is next to a piece."""
    texts = (before if before[-1:].isalpha() else "", 1), (after if after[:1].isalpha() else "", 2)
    return any(sum(map(str.isalpha, text)) > most for text, most in texts)


def without_pieces(skeleton: str, pieces: list[Piece]) -> str:
    """Return the text of a skeleton without its pieces, and set where they stand."""
    text, length, last, number = [], 0, 0, 0
    for cluster in _CLUSTER.finditer(skeleton):
        start, stop = cluster.span()
        spaces = LETTERS.split(cluster[0])
        found = pieces[number : number + len(spaces) - 1]
        number += len(found)
        split, kept, added = _divided(skeleton, start, stop, found, spaces)
        space = added if kept is None else spaces[kept]
        length += start - last
        for i, piece in enumerate(found):
            piece.position = length + (len(space) if i >= split else 0)
            piece.is_left, piece.is_spaced = i < split, bool(spaces[i])
        for piece, other in pairwise(found):
            piece.next = other
        found[0].precedes = "" if spaces[0] else skeleton[max(start - 1, 0) : start]
        found[-1].is_joined, found[-1].follows = not spaces[-1], skeleton[stop : stop + 1]
        for i, source in enumerate(spaces):
            if i != kept and (i > split or i == len(found)):
                found[i - 1].after = source
            elif i != kept:
                found[i].before = source
        found[0].added = added
        text += [skeleton[last:start], space]
        length += len(space)
        last = stop
    return "".join([*text, skeleton[last:]])


def _divided(
    skeleton: str, start: int, stop: int, found: list[Piece], spaces: list[str]
) -> tuple[int, int | None, str]:
    """Return how the white space around pieces is divided.

    Returns:
        The number of pieces on the left of the white space that the text keeps; the index of this
        white space, or None; and the white space that the text gets instead.
    """
    if start == 0:
        return 0, 0, ""
    if stop == len(skeleton):
        return len(found), len(found), ""
    if found[-1].letter in (PLACEHOLDER, EMPTY) and skeleton[stop] in _ENDS and not spaces[-1]:
        return len(found), None, ""  # the punctuation comes after the word before
    if not any(spaces):
        is_inner = skeleton[start - 1] not in OPENING and skeleton[stop] not in CLOSING
        split = "".join(piece.letter for piece in found).rfind(CLOSE) + 1
        return split, None, " " if is_inner and any(map(_separates, found)) else ""
    # The first white space, or that with a line break.
    split = min(range(len(spaces)), key=lambda i: ("\n" not in spaces[i], not spaces[i]))
    return split, split, ""


def _separates(piece: Piece) -> bool:
    return piece.separates and piece.letter == EMPTY
