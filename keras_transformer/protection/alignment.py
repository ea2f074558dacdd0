"""The words of a text and of its translation, and which of them belong together."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from keras_transformer.protection.pieces import LETTER, SPACELESS, Piece
from keras_transformer.untranslated import SYMBOLS

Link = tuple[int, int, int, int]  # start and stop in the source, start and stop in the translation

SYMBOL = re.compile(f"[{''.join(SYMBOLS)}]")
WHOLE_SYMBOL = re.compile(rf"(?<!{LETTER}){SYMBOL.pattern}|{SYMBOL.pattern}(?!{LETTER})")
_POINTS = (
    r"!-/:-@\[-`{-~¡-©«-´¶-¹»-¿\u2010-\u205e\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40"
)
_ALONE = f"{SPACELESS}{''.join(SYMBOLS)}"
# A letter of Chinese or Japanese, a symbol, a word of another language, or a punctuation mark.
_UNIT = re.compile(
    rf"[{_ALONE}]|[^\s{_POINTS}{_ALONE}](?:[^\s{_ALONE}]*[^\s{_POINTS}{_ALONE}])?|\S"
)
# The weight of a word for the place of a piece, by its distance from the piece.
_WEIGHTS = (1.0, 0.5, 0.25, 0.125, 0.0625)
_PUNCTUATION = 0.3  # of a punctuation mark, in comparison
_UNLINKED = 0.4  # how much a word without links belongs to a pair of tags
_TIE = 1e-3


class Alignment:
    """The words of a text and of its translation, and which of them belong together.

    Args:
        text: the text that a model read.
        translation: its translation.
        links: see `Protected.restore`.
    """

    def __init__(self, text: str, translation: str, links: Iterable[Link]):
        self.text, self.translation = text, translation
        self.source = [m.span() for m in _UNIT.finditer(text)]
        self.target = [m.span() for m in _UNIT.finditer(translation)]
        self._starts, self._stops = _sides(self.source)
        starts, stops = _sides(self.target)
        self._gaps: dict[tuple[int, int, int], int] = {}
        bounds, tokens = _seams(text, translation, links)
        # Segments: ranges of words of both sides, between the seams of sentences and in them.
        self.segments, s, t = [], 0, 0
        for s1, t1 in [*bounds, (len(text), len(translation))]:
            next_s, next_t = bisect_left(self._starts, s1), bisect_left(starts, t1)
            self.segments.append((s, next_s, t, next_t))
            s, t = next_s, next_t
        # What stands at the begin of a seam belongs to the sentence before it.
        self._bounds = [2 * s1 + 1 - i % 2 for i, (s1, _) in enumerate(bounds)]
        # The linked words of the text, for each word of the translation; and the reverse.
        self.sources: list[list[int]] = [[] for _ in self.target]
        for s0, s1, t0, t1 in tokens:
            words = range(bisect_right(self._stops, s0), bisect_left(self._starts, s1))
            for i in range(bisect_right(stops, t0), bisect_left(starts, t1)):
                self.sources[i].extend(words)
        for segment in self.segments:
            self._complete(*segment)
        self.targets: list[list[int]] = [[] for _ in self.source]
        for i, words in enumerate(self.sources):
            for word in words:
                self.targets[word].append(i)

    def _complete(self, s0: int, s1: int, t0: int, t1: int) -> None:
        """Link words that both sides have once, and all words if none is linked."""
        linked = [[x for x in words if s0 <= x < s1] for words in self.sources[t0:t1]]
        if s0 < s1 and not any(linked):
            linked = [[s0 + i * (s1 - s0) // (t1 - t0)] for i in range(t1 - t0)]
        self.sources[t0:t1] = linked
        if s0 == s1 or t0 == t1:
            return
        places = _places_of_unique_words(self.text, self.source, s0, s1)
        for word, i in _places_of_unique_words(self.translation, self.target, t0, t1).items():
            if word in places:
                self.sources[i] = [places[word]]
        ends = self.text[self.source[s1 - 1][1] - 1], self.translation[self.target[t1 - 1][1] - 1]
        if not any(map(str.isalnum, ends)):
            self.sources[t1 - 1] = [s1 - 1]

    def symbols(self, is_target: bool) -> dict[tuple[int, str], list[int]]:
        """Return the positions of reserved symbols, by the number of the segment and the symbol."""
        text, words = ((self.text, self.source), (self.translation, self.target))[is_target]
        starts, ends = [start for start, _ in words], [x[1 + 2 * is_target] for x in self.segments]
        found = defaultdict(list)
        for match in (WHOLE_SYMBOL if is_target else SYMBOL).finditer(text):
            word = bisect_right(starts, match.start()) - 1
            found[bisect_right(ends, word), match[0]].append(match.start())
        return found

    def _segment(self, position: int) -> int:
        return bisect_right(self._bounds, 2 * position)

    def gap(self, piece: Piece, low: int, high: int) -> int:
        """Return the place of a piece in the translation: the number of words before it.

        It is the place from `low` to `high` that separates the fewest words near the piece from the
        side of the piece on which they stood.
        """
        key = piece.position, low, high
        if key not in self._gaps:
            self._gaps[key] = self._gap(*key)
        return self._gaps[key]

    def _gap(self, position: int, low: int, high: int) -> int:
        s0, s1, t0, t1 = self.segments[self._segment(position)]
        low, high = max(low, min(t0, high)), min(high, max(t1, low))
        word = bisect_right(self._stops, position)
        changes, bonus = defaultdict(float, {low: 0.0, high: 0.0}), defaultdict(float)
        for distance, weight in enumerate(_WEIGHTS):
            for near, sign in ((word - 1 - distance, -1), (word + distance, 1)):
                if not s0 <= near < s1:
                    continue
                share = weight * self._weight(near) / max(len(self.targets[near]), 1)
                for i in self.targets[near]:
                    changes[i + 1] += sign * share
                    if near == word - 1:
                        bonus[i + 1] += share
        cost, best, least = 0.0, low, float("inf")
        for place in sorted({*changes, *bonus}):
            cost += changes[place]
            if low <= place <= high and cost - bonus[place] < least - _TIE:
                best, least = place, cost - bonus[place]
        return best

    def _weight(self, word: int) -> float:
        start, stop = self.source[word]
        is_word = any(map(str.isalnum, self.text[start:stop]))
        return 1 if is_word else _PUNCTUATION

    def interval(self, piece: Piece, low: int, high: int, taken: set[int]) -> tuple[int, int]:
        """Return the range of words, from `low` to `high`, that a pair encloses.

        It has the most words that are linked with words in the pair, and the fewest others. Words
        that are `taken` are not in it, and its words are taken afterwards.
        """
        assert piece.end is not None
        start, stop = piece.position, piece.end.position
        first, last = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        total, most, begin, best = 0.0, 0.0, low, None
        for i, share in self._shares(first, last, self._segment(start), self._segment(stop)):
            if not low <= i < high:
                continue
            if total <= 0 or i in taken:
                total, begin = 0.0, i
            if i in taken:
                continue
            total += share
            if total > most:
                most, best = total, (begin, i + 1)
        if best is None:
            place = self.gap(piece, low, high)
            return place, place
        taken.update(range(*best))
        return best

    def _shares(self, first: int, last: int, begin: int, end: int) -> Iterable[tuple[int, float]]:
        """Yield the words that a pair may enclose, with how much each belongs to it.

        Args:
            first: the first word of the text in the pair.
            last: the word after its last.
            begin: index of the segment in which the pair begins.
            end: index of the segment in which it ends.
        """
        for index in range(begin, end + 1):
            s0, s1, t0, t1 = self.segments[index]
            if s0 < s1 and first <= s0 and s1 <= last:
                yield from ((i, 0.5) for i in range(t0, t1))
                continue
            low, high = self._linked(max(first, s0), min(last, s1))
            # A pair of several segments extends to the seam.
            low = max(low, t0) if index == begin else t0
            for i in range(low, min(high, t1) if index == end else t1):
                words = self.sources[i]
                share = sum(first <= x < last for x in words) / len(words) if words else _UNLINKED
                yield i, share - 0.5 + _TIE

    def _linked(self, first: int, last: int) -> tuple[int, int]:
        """Return the range of the words that are linked with a range of words of the text."""
        linked = [i for words in self.targets[first:last] for i in words]
        return min(linked, default=len(self.target)), max(linked, default=-1) + 1


def _places_of_unique_words(
    text: str, words: Sequence[tuple[int, int]], first: int, last: int
) -> dict[str, int]:
    """Return the words that occur once in a range of words, with their indices."""
    found = [text[start:stop] for start, stop in words[first:last]]
    counts = Counter(found)
    return {word: i for i, word in enumerate(found, first) if counts[word] == 1}


def _sides(words: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the starts and the stops of words."""
    return [start for start, _ in words], [stop for _, stop in words]


def _seams(
    text: str, translation: str, links: Iterable[Link]
) -> tuple[list[tuple[int, int]], Sequence[Link]]:
    """Return the bounds of the white space between sentences, and the links of words."""
    bounds, tokens, last = [], [], (0, 0)
    for s0, s1, t0, t1 in sorted(links):
        piece = text[s0:s1]
        if piece == piece.strip() or piece != translation[t0:t1]:
            tokens.append((s0, s1, t0, t1))
        elif s0 >= last[0] and t0 >= last[1]:
            bounds += [(s0, t0), (s1, t1)]
            last = s1, t1
    return bounds, tokens
