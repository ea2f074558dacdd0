"""Texts without the parts that are not translated, and how these are put back."""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from operator import attrgetter

from keras_transformer.protection.alignment import SYMBOL, WHOLE_SYMBOL, Alignment, Link
from keras_transformer.protection.pieces import (
    LETTERS,
    Piece,
    compiled,
    find,
    joined,
    merged,
    taken,
    text_skeleton,
    without_pieces,
)
from keras_transformer.protection.placement import (
    ordered,
    place,
    without_wrong_symbols,
    written,
)
from keras_transformer.protection.spans import MarkedText
from keras_transformer.untranslated import SYMBOLS


@dataclass(frozen=True)
class Protected:
    """A text without the parts that are not translated.

    Attributes:
        text: the text that a model reads.
        marked: the text with all its parts.
        pieces: the parts that were taken out, in their order.
        replaced: the parts for which the text has reserved symbols, in their order.
        found: all these parts, before those that belong together are joined.
    """

    text: str
    marked: MarkedText
    pieces: Sequence[Piece] = field(default=(), repr=False)
    replaced: Sequence[Piece] = field(default=(), repr=False)
    found: Sequence[Piece] = field(default=(), repr=False)

    def needs_links(self, sentence: str, translation: str) -> bool:
        """Return whether `restore` uses the links between a sentence of the text and another."""
        symbols, others = SYMBOL.findall(sentence), WHOLE_SYMBOL.findall(translation)
        return bool(self.pieces) or (bool(self.replaced) and sorted(symbols) != sorted(others))

    def restore(self, translation: str, links: Iterable[Link] = ()) -> MarkedText:
        """Put the parts that were taken out into a translation of the text.

        Each is put back exactly once and unchanged, never inside a word. A pair encloses the words
        that are linked with the words that it enclosed. Others stand next to the words that they
        stood next to. The text itself becomes the text with all its parts.

        A reserved symbol is replaced by its part. A symbol that a sentence does not have as often
        as its source, or has inside a word, is removed, and its part is put back like the others.

        Args:
            translation: the translation of `text`.
            links: iterable of `(source_start, source_stop, target_start, target_stop)`, characters
                of `text` and of `translation` that belong together: tokens, without white space
                around them, and the white space between sentences. Without links, positions are
                proportional.

        Returns:
            A `MarkedText` with the spans of the text. Other parts are text again.
        """
        if translation == self.text:
            return self.marked
        if not (self.pieces or self.replaced):
            return replace(self.marked, text=translation)
        kept, moved, parts = [], [], [translation]
        if self.replaced:
            translation, links, kept, moved = without_wrong_symbols(
                self.text, self.replaced, translation, list(links)
            )
            parts = [translation]
        if pieces := sorted([*self.pieces, *moved], key=lambda piece: piece.position):
            alignment = Alignment(self.text, translation, links)
            parts = written(place(pieces, alignment), alignment)
        return joined(self._contents(parts, kept, moved), self.marked.is_wrapped)

    def _contents(
        self, parts: Iterable[str | Piece], kept: list[Piece], moved: list[Piece]
    ) -> Iterator[str | MarkedText]:
        """Yield the parts of a translation with pieces in the places of their symbols."""
        symbols, in_order, found = iter(kept), iter(ordered(self.replaced)), {*kept, *moved}
        for part in parts:
            for item in re.split(f"({SYMBOL.pattern})", part) if isinstance(part, str) else [part]:
                item = next(symbols, item) if item in SYMBOLS else item
                if item in found and ordered([item]):
                    item = next(in_order)  # placeholders such as `%s` keep their order
                yield item.content if isinstance(item, Piece) else item


def protect(
    text: str | MarkedText,
    patterns: Iterable[str | re.Pattern[str]] = (),
    symbols: bool = False,
    placeholders: bool = True,
    source: Protected | None = None,
    lacked: str = "",
) -> Protected:
    r"""Take the parts out of a text that are not translated.

    They are the spans of a `MarkedText`, placeholders (`%s`, `%1$d`, `{name}`, `${x}`, `{{ x }}`,
    plurals of ICU as a whole), web and e-mail addresses, and tags such as `<b>` and
    `<ph id="1"/>`. Letters of the same word, and quotes and brackets around a placeholder, belong
    to it. A tag without its counterpart is placed like a placeholder.

    ```python
    protected = protect("A man pays %s for {name}.")
    protected.text  # "A man pays for."
    str(protected.restore("Ein Mann bezahlt für."))  # "Ein Mann bezahlt %s für {name}."
    ```

    Args:
        text: a string or a `MarkedText`.
        patterns: iterable of regular expressions of further parts to keep, or names of sets of
            them: `"i18next"` for `<0>`, `<1/>` and `$t(key)`, `"laravel"` for `:name`.
        symbols: whether the model knows the reserved symbols. They stand for the parts in the text,
            without the letters and quotes around them. Pairs are taken out.
        placeholders: whether anything but the spans of a `MarkedText` is taken out.
        source: the `Protected` text whose translation `text` is. Only the parts that the source
            has too are taken out, and symbols are the source's. Parts that occur several times are
            matched in their order. The result is not for `restore`.
        lacked: characters that the vocabulary lacks and that are taken out, such as emoji.

    Returns:
        A `Protected`.

    Raises:
        UserError: if a pattern is not a regular expression.
    """
    marked = MarkedText(text) if isinstance(text, str) else text
    if placeholders:
        found = find(marked.text, compiled(patterns), lacked)
    else:
        found = [match.span() for match in LETTERS.finditer(marked.text)]
    texts, pieces = taken(marked, found, lacked)
    replaced = filter(attrgetter("is_replaceable"), pieces if symbols else [])
    for piece, symbol in zip(replaced, cycle(SYMBOLS)):
        piece.letter = symbol
    letters, pieces = _also_in(source.found if source else None, pieces)
    replaced = [piece for piece in pieces if piece.letter in SYMBOLS]
    skeleton = text_skeleton(texts, letters)
    skeleton, others = merged(skeleton, [x for x in pieces if x.letter not in SYMBOLS])
    return Protected(without_pieces(skeleton, others), marked, others, replaced, pieces)


def _also_in(source: Sequence[Piece] | None, pieces: list[Piece]) -> tuple[list[str], list[Piece]]:
    """Return the letters or texts of pieces, and the pieces that the source, if any, has too."""
    if source is None:
        return [piece.letter for piece in pieces], pieces
    letters, common, texts = defaultdict(deque), [], []
    for piece in source:
        letters[piece.raw].append(piece.letter)
    for piece in pieces:
        if found := letters[piece.raw]:
            piece.letter = found.popleft()
            common.append(piece)
        texts.append(piece.letter if common[-1:] == [piece] else piece.raw)
    return texts, common
