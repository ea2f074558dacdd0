"""Texts without the parts that are not translated, and how these are put back."""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

from keras_transformer.protection.alignment import SYMBOL, WHOLE_SYMBOL, Alignment, Link
from keras_transformer.protection.patterns import compiled, find
from keras_transformer.protection.pieces import LETTERS, Piece, joined, merged, skeleton_of
from keras_transformer.protection.placement import place, with_all_symbols, written
from keras_transformer.protection.spacing import without_pieces
from keras_transformer.protection.spans import MarkedText
from keras_transformer.untranslated import SYMBOLS

_JOINERS = "[\u200d\ufe0e\ufe0f]*"  # characters in emoji that join others, or choose their style


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
        parts, replaced = [translation], iter(())
        if self.replaced:
            translation, links, pieces = with_all_symbols(
                self.text, self.replaced, translation, list(links)
            )
            parts, replaced = [translation], iter(pieces)
        if self.pieces:
            alignment = Alignment(self.text, translation, links)
            parts = written(place(self.pieces, alignment), alignment)
        contents = []
        for part in parts:
            if isinstance(part, str) and self.replaced:
                text, *others = SYMBOL.split(part)
                contents.append(text)
                for text in others:
                    contents += [next(replaced).content, text]
            else:
                contents.append(part)
        return joined(contents, self.marked.is_wrapped)


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
    own = compiled(patterns) if placeholders else None
    skeleton, pieces = _taken(marked, own, symbols, lacked)
    if source is not None:
        skeleton, pieces = _also_in(source.found, skeleton, pieces)
    if not pieces:
        return Protected(skeleton, marked)
    replaced = [piece for piece in pieces if piece.letter in SYMBOLS]
    others = [piece for piece in pieces if piece.letter not in SYMBOLS]
    skeleton, others = merged(skeleton, others)
    return Protected(without_pieces(skeleton, others), marked, others, replaced, pieces)


def _taken(
    marked: MarkedText,
    patterns: tuple[re.Pattern[str], ...] | None,
    symbols: bool,
    lacked: str,
) -> tuple[str, list[Piece]]:
    """Return the skeleton of a text, with reserved symbols, and the pieces."""
    if patterns is None:
        found = [match.span() for match in LETTERS.finditer(marked.text)]
    else:
        found = find(marked.text, patterns)
    characters = _between(marked.text, found, lacked) if lacked else []
    if not (found or characters or marked.spans):
        return marked.text, []
    skeleton, pieces = skeleton_of(marked, found, characters)
    replaced = [piece for piece in pieces if symbols and piece.is_replaceable]
    for piece, symbol in zip(replaced, cycle(SYMBOLS)):
        piece.letter = symbol
    return _with_letters(skeleton, pieces), pieces


def _between(text: str, found: list[tuple[int, int]], lacked: str) -> list[tuple[int, int]]:
    """Return the start and stop of characters that the vocabulary lacks, outside of `found`."""
    pattern = re.compile(rf"(?:[{re.escape(lacked)}]+{_JOINERS})+")
    bounds = zip([0, *(stop for _, stop in found)], [*(start for start, _ in found), len(text)])
    return [match.span() for start, stop in bounds for match in pattern.finditer(text, start, stop)]


def _with_letters(skeleton: str, pieces: Iterable[Piece]) -> str:
    letters = (piece.letter for piece in pieces)
    return LETTERS.sub(lambda _: next(letters), skeleton)


def _also_in(
    source: Iterable[Piece], skeleton: str, pieces: Iterable[Piece]
) -> tuple[str, list[Piece]]:
    """Return the skeleton of a translation with the pieces that its source has too."""
    letters, common, texts = defaultdict(deque), [], []
    for piece in source:
        letters[piece.raw].append(piece.letter)
    for piece in pieces:
        if letters[piece.raw]:
            piece.letter = letters[piece.raw].popleft()
            common.append(piece)
            texts.append(piece.letter)
        else:
            texts.append(piece.raw)
    parts = iter(texts)
    return re.sub(f"{LETTERS.pattern}|{SYMBOL.pattern}", lambda _: next(parts), skeleton), common
