"""Places of pieces in a translation."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from keras_transformer.protection.alignment import SYMBOL, Alignment, Link
from keras_transformer.protection.pieces import CLOSE, PLACEHOLDER, Piece
from keras_transformer.protection.spacing import (
    OPENING,
    has_no_spaces,
    space_after,
    space_before,
)
from keras_transformer.protection.spans import MarkedText
from keras_transformer.untranslated import SYMBOLS

# Placeholders whose order is their meaning: `%s`, `{}`.
_ORDERED = re.compile(r"%(?![%@]|\d+\$|\(|<|\{|L?\d+(?![\d.]*[a-zA-Z]))|(?<![$#@%{])\{[:!}]")
_DEEPEST = 50  # pairs in pairs
_Node = tuple[Piece, list]  # a piece, and the nodes in the pair that it opens


def place(pieces: Sequence[Piece], alignment: Alignment) -> list[int | Piece]:
    """Return the numbers of the words of a translation, with the pieces between them."""
    nodes, depth = _tree(pieces)
    if depth <= _DEEPEST:
        placed = _placed(nodes, alignment, 0, len(alignment.target))
        if _ordered(placed) == _ordered(pieces):
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


def _ordered(placed: Iterable[int | Piece]) -> list[Piece]:
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


def written(placed: Iterable[int | Piece], alignment: Alignment) -> Iterator[str | MarkedText]:
    """Yield the parts of a translation with its pieces and the white space around them."""
    parts, run, position = [], [], 0
    translation = alignment.translation
    for item in [*placed, None]:
        if isinstance(item, Piece):
            run.append(item)
            continue
        start, stop = (len(translation),) * 2 if item is None else alignment.target[item]
        space = translation[position:start]
        for piece in run:
            space = space.replace(piece.added, "", 1) if piece.added else space
        split = next((i for i, piece in enumerate(run) if not piece.is_left), len(run))
        parts += [*run[:split], space, *run[split:], translation[start:stop]]
        run, position = [], stop
    parts = [part for part in parts if part]
    last = ""
    for previous, part, following in zip([None, *parts], parts, [*parts[1:], None]):
        if isinstance(part, str):
            yield part
            last = part[-1]
            continue
        after = space_after(part, following)
        yield from (space_before(part, previous, last), part.content, after)
        last = after[-1:] or part.raw[-1:] or last


def with_all_symbols(
    text: str, replaced: Sequence[Piece], translation: str, links: Sequence[Link]
) -> tuple[str, list[Link], list[Piece]]:
    """Return a translation with one reserved symbol for each piece, its links, and the pieces.

    The symbols that a sentence has as often as its source stay where they are. The others are
    removed, and stand next to the words that they stood next to in the source.

    Args:
        text: the text, with a symbol for each piece.
        replaced: the pieces.
        translation: its translation.
        links: see `Protected.restore`.
    """
    kept, added = _kept_symbols(Alignment(text, translation, links), replaced)
    pieces, new, starts, stops = [], [], [], []
    length = 0

    def next_letter(position):
        return translation[position + 1 : position + 2]

    def write(part):
        nonlocal length
        new.append(part)
        length += len(part)

    for position, letter in enumerate([*translation, ""]):
        stops.append(length)
        for piece in added[position]:
            pieces.append(piece)
            end = "".join(new[-2:])[-2:]
            write(_spaced_symbol(piece.letter, end, letter))
        starts.append(length)
        if position in kept:
            pieces.append(kept[position])
        if position in kept or letter not in SYMBOLS:
            write(letter)
        elif new and new[-1].endswith(" ") and not next_letter(position).isalnum():
            new[-1], length = new[-1][:-1], length - 1
    # Placeholders such as `%s` keep their order.
    ordered = iter(_ordered(replaced))
    pieces = [next(ordered) if _ordered([piece]) else piece for piece in pieces]
    moved = [(s0, s1, starts[t0], stops[t1]) for s0, s1, t0, t1 in links]
    return "".join(new), moved, pieces


def _kept_symbols(
    alignment: Alignment, replaced: Iterable[Piece]
) -> tuple[dict[int, Piece], dict[int, list[Piece]]]:
    """Return the pieces of the symbols that stay, and of those to add, by their positions."""
    places = (match.start() for match in SYMBOL.finditer(alignment.text))
    pieces, others = dict(zip(places, replaced)), alignment.symbols(True)
    kept, added = {}, defaultdict(list)
    for key, positions in alignment.symbols(False).items():
        if len(positions) == len(others[key]):
            kept |= {other: pieces[x] for x, other in zip(positions, others[key])}
            continue
        for position in positions:
            pieces[position].position = position
            added[alignment.position(pieces[position])].append(pieces[position])
    return kept, added


def _spaced_symbol(symbol: str, end: str, following: str) -> str:
    """Return a symbol with white space, between the end of a text and a letter."""
    is_opening = end[-1:] in OPENING and not end[-2:-1].strip()
    is_apart = not (is_opening or end[-1:].isspace() or has_no_spaces(end[-1:]))
    before = " " if is_apart else ""
    after = " " if following.isalnum() and not has_no_spaces(following) else ""
    return f"{before}{symbol}{after}"
