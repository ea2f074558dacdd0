"""White space around the pieces that are taken out of a text and put back."""

import re
from itertools import pairwise

from keras_transformer.protection.pieces import (
    CLOSE,
    EMPTY,
    LETTERS,
    OPEN,
    PLACEHOLDER,
    SPACELESS,
    Piece,
)

_SPACELESS_LETTER = re.compile(f"[{SPACELESS}]")
_CLUSTER = re.compile(rf"(?<!\s)\s*[{PLACEHOLDER}-{CLOSE}](?:\s|[{PLACEHOLDER}-{CLOSE}])*")
_ENDS = ".,;:!?…"
OPENING, CLOSING = "([{¿¡«„“‘‚‹「『（", ".,;:!?…)]}»”’›。，、；：！？」』）%"


def has_no_spaces(text: str) -> bool:
    """Return whether a text begins with a letter of a language without spaces between words."""
    return bool(_SPACELESS_LETTER.match(text))


def without_pieces(skeleton: str, pieces: list[Piece]) -> str:
    """Return the text of a skeleton without its pieces, and set their places."""
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
            piece.is_left = i < split
            piece.is_spaced = bool(spaces[i])
        for piece, other in pairwise(found):
            piece.next = other
        found[0].precedes = "" if spaces[0] else skeleton[max(start - 1, 0) : start]
        found[-1].is_joined = not spaces[-1]
        found[-1].follows = skeleton[stop : stop + 1]
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


def _divided(skeleton, start, stop, found, spaces) -> tuple[int, int | None, str]:
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
    if any(spaces):
        breaks = [i for i, space in enumerate(spaces) if "\n" in space]
        split = (breaks or [i for i, space in enumerate(spaces) if space])[0]
        return split, split, ""
    split = max((i for i, piece in enumerate(found, 1) if piece.letter == CLOSE), default=0)
    is_inner = skeleton[start - 1] not in OPENING and skeleton[stop] not in CLOSING
    is_separate = is_inner and any(x.separates and x.letter == EMPTY for x in found)
    return split, None, " " if is_separate else ""


def space_before(piece: Piece, previous: str | Piece | None, last: str) -> str:
    """Return the white space before a piece.

    Args:
        piece: the `Piece`.
        previous: the part of the translation before it.
        last: the last character of that part, or an empty string.
    """
    before = piece.before
    is_neighbor = isinstance(previous, Piece) and previous.next is piece
    is_first = isinstance(previous, Piece) and previous.letter == OPEN
    if not last.strip() or (is_first and not is_neighbor):
        return ""
    if before or is_neighbor or has_no_spaces(last):
        return before
    is_placeholder = piece.letter == PLACEHOLDER
    is_joined = is_placeholder and last.isalnum() and not piece.precedes.isalnum()
    is_alone = piece.letter not in (OPEN, CLOSE) and last not in OPENING
    return " " if is_joined or (is_alone and piece.is_spaced) else ""


def space_after(piece: Piece, following: str | Piece | None) -> str:
    """Return the white space after a piece, before the next part of the translation."""
    if following is None:
        return "" if piece.follows or piece.next else piece.after
    if isinstance(following, Piece):
        return piece.after if following is piece.next else ""
    letter = following[0]
    if piece.after:
        is_unlike = letter in CLOSING and piece.follows not in CLOSING
        is_unlike |= has_no_spaces(letter) and not has_no_spaces(piece.follows)
        return "" if is_unlike or letter.isspace() else piece.after
    if piece.letter == PLACEHOLDER and letter.isalnum() and not has_no_spaces(letter):
        return "" if piece.is_joined and piece.follows.isalnum() else " "
    return ""
