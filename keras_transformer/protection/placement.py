"""Places of pieces in a translation."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, compress, count

from keras_transformer.protection.alignment import SYMBOL, Alignment, Link
from keras_transformer.protection.pieces import (
    CLOSE,
    CLOSING,
    OPEN,
    OPENING,
    PLACEHOLDER,
    SPACELESS,
    Piece,
)
from keras_transformer.untranslated import SYMBOLS

# Placeholders whose order is their meaning: `%s`, `{}`.
_ORDERED = re.compile(r"%(?![%@]|\d+\$|\(|<|\{|L?\d+(?![\d.]*[a-zA-Z]))|(?<![$#@%{])\{[:!}]")
_SPACELESS_LETTER = re.compile(f"[{SPACELESS}]")
_DEEPEST = 50  # pairs in pairs
_Node = tuple[Piece, list]  # a piece, and the nodes in the pair that it opens


def place(pieces: Sequence[Piece], alignment: Alignment) -> list[int | Piece]:
    """Return the numbers of the words of a translation, with the pieces between them."""
    nodes, depth = _tree(pieces)
    if depth <= _DEEPEST:
        placed = _placed(nodes, alignment, 0, len(alignment.target))
        if ordered(placed) == ordered(pieces):
            return placed
    # In the order of the source.
    placed, at, end = [], 0, len(alignment.target)
    for piece in pieces:
        gap = alignment.gap(piece, at, end)
        placed += [*range(at, gap), piece]
        at = gap
    return [*placed, *range(at, end)]


def _tree(pieces: Iterable[Piece]) -> tuple[list[_Node], int]:
    """Return nodes, pairs of a piece and the nodes inside it; and the depth of the tree."""
    nodes, opened, deepest = [], [], 0
    for piece in pieces:
        inner = opened[-1][1] if opened else nodes
        if piece.letter == CLOSE:
            opened.pop()
            continue
        inner.append((piece, []))
        if piece.end is not None:
            opened.append(inner[-1])
            deepest = max(deepest, len(opened))
    return nodes, deepest


def ordered(placed: Iterable[int | Piece]) -> list[Piece]:
    """Return the pieces whose order is their meaning."""
    pieces = (x for x in placed if isinstance(x, Piece))
    return [x for x in pieces if x.letter in (PLACEHOLDER, *SYMBOLS) and _ORDERED.search(x.raw)]


def _placed(nodes: Sequence[_Node], alignment: Alignment, low: int, high: int) -> list[int | Piece]:
    """Return the numbers of the words from `low` to `high`, with the nodes between them."""
    taken, pairs, alone = set(), [], {}
    for number, (piece, _) in enumerate(nodes):
        if piece.end is None:
            alone[number] = alignment.gap(piece, low, high)
            continue
        start, stop = alignment.interval(piece, low, high, taken)
        if start < stop:
            pairs.append((start, True, number, stop))
        else:
            alone[number] = start
    pairs.sort()
    items = [*pairs]
    for number, gap in alone.items():
        # What encloses no words is not moved into a pair of tags.
        before = bisect_left(pairs, (gap,)) - 1
        if before >= 0 and gap < pairs[before][3]:
            start, _, other, stop = pairs[before]
            gap = start if number < other else stop
        items.append((gap, False, number, gap))
    placed, at = [], low
    for start, _, number, stop in sorted(items):
        piece, inner = nodes[number]
        placed += [*range(at, start), piece]
        if piece.end is not None:
            placed += [*_placed(inner, alignment, start, stop), piece.end]
        at = stop
    return [*placed, *range(at, high)]


def written(placed: Iterable[int | Piece], alignment: Alignment) -> Iterator[str | Piece]:
    """Yield the parts of a translation with its pieces and the white space around them."""
    parts = [part for part in _parts(placed, alignment) if part]
    last = ""
    for previous, part, following in zip([None, *parts], parts, [*parts[1:], None]):
        if isinstance(part, str):
            yield part
            last = f"{last}{part}"[-2:]
            continue
        after = _space_after(part, following)
        if getattr(previous, "end", None) is part and not (part.is_joined or after):
            after = " " * _is_word(following)  # after a pair that encloses no words
        yield from (_space_before(part, previous, last), part, after)
        last = f"{last}{part.raw}{after}"[-2:]


def _parts(placed: Iterable[int | Piece], alignment: Alignment) -> Iterator[str | Piece]:
    """Yield the words of a translation with the pieces and white space between them."""
    run, position, translation = [], 0, alignment.translation
    for item in [*placed, None]:
        if isinstance(item, Piece):
            run.append(item)
            continue
        start, stop = (len(translation),) * 2 if item is None else alignment.target[item]
        space = translation[position:start]
        for piece in run:
            space = space.replace(piece.added, "", 1) if piece.added else space
        split = next((i for i, piece in enumerate(run) if not piece.is_left), len(run))
        yield from (*run[:split], space, *run[split:], translation[start:stop])
        run, position = [], stop


def _space_before(piece: Piece, previous: str | Piece | None, last: str) -> str:
    """Return the white space before a piece, after a part whose last two characters are given."""
    letter, before = last[-1:], piece.before
    if isinstance(previous, Piece):
        if previous.next is piece:
            return before if letter.strip() else ""
        before = "" if previous.letter == OPEN else before
    if not letter.strip() or before or getattr(previous, "letter", "") == OPEN:
        return before if letter.strip() else ""
    return " " if _is_apart(piece, last) and not _has_no_spaces(letter) else ""


def _is_apart(piece: Piece, last: str) -> bool:
    """Return whether there is white space between a text and a piece that has another neighbor."""
    if piece.letter == PLACEHOLDER and last[-1].isalnum() and not piece.precedes.isalnum():
        return True
    is_opening = last[-1] in OPENING and not last[:-1].strip()
    return piece.is_spaced and piece.letter not in (OPEN, CLOSE) and not is_opening


def _space_after(piece: Piece, following: str | Piece | None) -> str:
    """Return the white space after a piece, before the next part of the translation."""
    if following is None:
        return "" if piece.follows or piece.next else piece.after
    if isinstance(following, Piece):
        is_apart = (piece.letter, following.letter) == (PLACEHOLDER, OPEN)
        return piece.after if following is piece.next else " " * is_apart
    if not piece.after:
        return " " if _begins_word(piece, following) else ""
    letter, is_spaceless = following[0], _has_no_spaces(following)
    is_unlike = letter in CLOSING and piece.follows not in CLOSING
    is_unlike |= is_spaceless and not _has_no_spaces(piece.follows)
    return "" if is_unlike or letter.isspace() else piece.after


def _begins_word(piece: Piece, following: str) -> bool:
    """Return whether a word begins after a placeholder that is not the source's."""
    is_same = piece.is_joined and piece.follows.isalnum()
    return piece.letter == PLACEHOLDER and _is_word(following) and not is_same


def _is_word(text: str | Piece | None) -> bool:
    return isinstance(text, str) and text[0].isalnum() and not _has_no_spaces(text)


def _has_no_spaces(text: str) -> bool:
    """Return whether a text begins with a letter of a language without spaces between words."""
    return bool(_SPACELESS_LETTER.match(text))


def without_wrong_symbols(
    text: str, replaced: Sequence[Piece], translation: str, links: Sequence[Link]
) -> tuple[str, list[Link], list[Piece], list[Piece]]:
    """Remove the symbols that a sentence does not have as often as its source.

    Args:
        text: the text, with a symbol for each piece.
        replaced: the pieces.
        translation: its translation.
        links: see `Protected.restore`.

    Returns:
        The translation, its links, the pieces of its symbols, and the pieces of those removed.
    """
    kept, moved = _kept_symbols(Alignment(text, translation, links), replaced)
    wrong = {m.start() for m in SYMBOL.finditer(translation)} - kept.keys()
    spaces = {x - 1 for x in wrong if x and translation[x - 1] == " "}
    wrong |= {x for x in spaces if not translation[x + 2 : x + 3].isalnum()}
    begin = next(x for x in count() if x not in wrong)
    if begin and translation[begin : begin + 1] == " ":
        wrong.add(begin)
    is_left = [x not in wrong for x in range(len(translation))]
    places = [0, *accumulate(is_left)]
    links = [(s0, s1, places[t0], places[t1]) for s0, s1, t0, t1 in links]
    return "".join(compress(translation, is_left)), links, [kept[x] for x in sorted(kept)], moved


def _kept_symbols(
    alignment: Alignment, replaced: Iterable[Piece]
) -> tuple[dict[int, Piece], list[Piece]]:
    """Return the pieces of right symbols by their positions, and the others, in the text's."""
    text, kept, moved, found = alignment.text, {}, [], alignment.symbols(True)
    pieces = dict(zip((match.start() for match in SYMBOL.finditer(text)), replaced))
    for key, positions in alignment.symbols(False).items():
        if len(positions) == len(found[key]):
            kept |= {other: pieces[x] for x, other in zip(positions, found[key])}
            continue
        for x in positions:
            before = text[max(x - 1, 0) : x]
            piece = replace(pieces[x], letter=PLACEHOLDER, position=x, precedes=before)
            piece.is_spaced = before.isspace()
            moved.append(piece)
    return kept, moved
