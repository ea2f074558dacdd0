"""Parts of a text that are not translated: a model does not read them, and they are put back."""

import html
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from typing import Any, Literal, cast

from keras_transformer import untranslated
from keras_transformer.errors import UserError
from keras_transformer.untranslated import SYMBOLS
from keras_transformer.validation import check_choice, check_strings

Markup = Literal["html", "markdown"]
Link = tuple[int, int, int, int]  # start and stop in the source, start and stop in the translation

_CODE = "|".join(("code", "kbd", "samp", "var", "textarea"))
_HTML_ONLY = (
    r"<!--.*?(?:-->|\Z)|<(?P<raw>script|style)\b.*?(?:</(?P=raw)\s*>|\Z)|<[!?][^<>]*>"
    rf"|<(?P<code>{_CODE})\b[^<>]*>(?:(?!</?(?P=code)\b).)*+</(?P=code)\s*>"
)
_HTML_TAG = r"""</?[A-Za-z](?:[^<>"']|"[^"]*"|'[^']*')*+>|</?[A-Za-z][^<>]*>"""
_MARKDOWN = (
    r"(?<!`)(?P<ticks>`++).*?(?<!`)(?P=ticks)(?!`)"
    r"|<[A-Za-z][\w+.-]*:[^\s<>]*>|<!--.*?(?:-->|\Z)"
    r"|(?P<block>^[ \t]*(?:\#{1,6}|>|[-*+]|\d+[.)])(?=[ \t]))"
    r"|(?P<opens>!?\[)(?!\^)|(?P<closes>\](?:\((?:<[^<>\n]*>|[^()\s<>]|\([^()\s]*\))*+"
    r"""(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)|\[[^\[\]]*\]))"""
    r"|\[\^[^\[\]\s]*\]"
    r"|(?P<marks>\*{1,3}|(?<![^\W_])_{1,3}(?=\S)|(?<=\S)_{1,3}(?![^\W_])|~~)"
    r"|\\[!-/:-@\[-`{-~]"
)
_PATTERNS = {
    # Not entities, which Moses's tokenizer writes for apostrophes: models read them.
    None: f"(?P<tag>{untranslated.TAG})|{untranslated.PLACEHOLDER}",
    "html": f"(?P<kept>{_HTML_ONLY})|(?P<tag>{_HTML_TAG})|&lt;/?[A-Za-z][^<>&]*&gt;"
    # Private characters.
    r"|&\#(?:0*(?:5[7-9]|6[0-3])\d{3}|[xX]0*(?:[eE][\da-fA-F]|[fF][0-8])[\da-fA-F]{2});"
    f"|{untranslated.PLACEHOLDER}",
    "markdown": f"{_MARKDOWN}|(?P<tag>{untranslated.TAG})|{untranslated.ENTITY}"
    f"|{untranslated.PLACEHOLDER}",
}
_FOUND = {name: re.compile(x, re.DOTALL | re.MULTILINE) for name, x in _PATTERNS.items()}
# A text without these characters has nothing to protect.
_HINTS = {
    None: re.compile(r"[%{<@$\ue000-\uf8ff]|://|mailto:|www\."),
    "html": re.compile(r"[%{<&@$\ue000-\uf8ff]|://|mailto:|www\."),
    "markdown": re.compile(r"[%{<&@$\ue000-\uf8ff`*_~\[\\#>+.)-]|://"),
}
_VOID = frozenset(
    "area base basefont br col embed hr img input link meta param source track wbr".split()
)
_BLOCK = frozenset(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 head header hr html legend li main nav ol option p para "
    "pre section select summary table tbody td tfoot th thead title tr ul".split()
)
_BLOCK_BREAK = "\n\n"


# A skeleton has one of these letters for each span, and the text between the spans.
_PLACEHOLDER, _EMPTY, _OPEN, _CLOSE = "\ue000\ue001\ue002\ue003"
_SYMBOL = re.compile(f"[{''.join(SYMBOLS)}]")
_SPACELESS = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese, Japanese
_SPACELESS_LETTER = re.compile(f"[{_SPACELESS}]")
_LETTER = rf"[^\W{_SPACELESS}]"
_WHOLE_SYMBOL = re.compile(rf"(?<!{_LETTER}){_SYMBOL.pattern}|{_SYMBOL.pattern}(?!{_LETTER})")
_QUOTE = "[\"'`«»‹›„“”‘’]"
_MERGED = re.compile(
    # Letters of the same word, as in `%dpx` and `{name}'s`.
    rf"(?<![\w-]){_LETTER}(?:{_LETTER}|-)*+{_PLACEHOLDER}"
    rf"|{_PLACEHOLDER}(?:{_LETTER}|-|['’](?={_LETTER}))+"
    # Quotes and brackets around it.
    rf"|\({_PLACEHOLDER}\)|\[{_PLACEHOLDER}\]|<{_PLACEHOLDER}>|{_QUOTE}{_PLACEHOLDER}{_QUOTE}"
    # Several with only punctuation or spaces between them, as in `%d.%d` and `%s: %s`.
    rf"|{_PLACEHOLDER}(?:(?:[^\w\s{_PLACEHOLDER}-{_CLOSE}]{{0,3}}|[,:;]?[^\S\n]+){_PLACEHOLDER})+"
    # A pair of tags without other text.
    rf"|{_OPEN}[^\S\n]*{_PLACEHOLDER}?[^\S\n]*{_CLOSE}"
)
_CLUSTER = re.compile(rf"(?<!\s)\s*[{_PLACEHOLDER}-{_CLOSE}](?:\s|[{_PLACEHOLDER}-{_CLOSE}])*")
# Placeholders whose order is their meaning: `%s`, `{}`.
_ORDERED = re.compile(r"%(?![%@]|\d+\$|\(|<|\{|L?\d+(?![\d.]*[a-zA-Z]))|(?<![$#@%{])\{[:!}]")

_POINTS = (
    r"!-/:-@\[-`{-~¡-©«-´¶-¹»-¿\u2010-\u205e\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40"
)
# A letter of Chinese or Japanese, a word of another language, or a punctuation mark.
_UNIT = re.compile(
    rf"[{_SPACELESS}]"
    rf"|[^\s{_POINTS}{_SPACELESS}](?:[^\s{_SPACELESS}]*[^\s{_POINTS}{_SPACELESS}])?"
    r"|\S"
)
_ENDS = ".,;:!?…"
_OPENING, _CLOSING = "([{¿¡«„“‘‚‹「『（", ".,;:!?…)]}»”’›。，、；：！？」』）%"

# The weight of a word for the place of a span, by its distance from the span.
_WEIGHTS = (1.0, 0.5, 0.25, 0.125, 0.0625)
_PUNCTUATION = 0.3  # of a punctuation mark, in comparison
_UNLINKED = 0.4  # how much a word without links belongs to a pair of tags
_TIE = 1e-3
_DEEPEST = 50  # tags in tags


@dataclass(eq=False)
class _Span:
    raw: str
    letter: str = _PLACEHOLDER
    name: str = ""
    end: "_Span | None" = None  # the closing tag of an opening tag
    position: int = 0  # in the text that the model reads
    before: str = ""  # white space of the source that the text does not have
    after: str = ""
    added: str = ""  # white space of the text that the source does not have
    is_left: bool = False  # whether it stands on the left of white space
    is_spaced: bool = False  # whether white space is on its left
    precedes: str = ""  # the letter before it, without white space between
    follows: str = ""  # the letter after it and after white space
    is_joined: bool = False  # whether that letter follows without white space
    next: "_Span | None" = None  # the span after it, without words between

    @property
    def is_block(self) -> bool:
        return self.name in _BLOCK

    @property
    def is_replaceable(self) -> bool:
        """Whether a reserved symbol may stand for it."""
        is_empty = self.letter == _EMPTY and self.raw.endswith("/>")
        is_named = self.name in _VOID or self.is_block
        return self.letter == _PLACEHOLDER or (is_empty and not is_named)


@dataclass(frozen=True)
class Protected:
    """A text without the parts that are not translated.

    Attributes:
        text: the text that a model reads.
        spans: the parts that were taken out, in their order.
        replaced: the parts for which the text has reserved symbols, in their order.
    """

    text: str
    markup: Markup | None = None
    spans: Sequence[_Span] = field(default=(), repr=False)
    replaced: Sequence[_Span] = field(default=(), repr=False)

    def needs_links(self, sentence: str, translation: str) -> bool:
        """Return whether `restore` uses the links between a sentence of the text and another."""
        symbols, others = _SYMBOL.findall(sentence), _WHOLE_SYMBOL.findall(translation)
        return bool(self.spans) or sorted(symbols) != sorted(others)

    def restore(self, translation: str, links: Iterable[Link] = ()) -> str:
        """Put the parts that were taken out into a translation of the text.

        Each is put back exactly once and unchanged, never inside a word. A pair of tags encloses
        the words that are linked with the words that it enclosed. Others stand next to the words
        that they stood next to.

        A reserved symbol is replaced by its part. A symbol that a sentence does not have as often
        as its source, or has inside a word, is removed, and its part is put back like the others.

        Args:
            translation: the translation of `text`.
            links: iterable of `(source_start, source_stop, target_start, target_stop)`, characters
                of `text` and of `translation` that belong together: tokens, without white space
                around them, and the white space between sentences. Without links, positions are
                proportional.

        Returns:
            The translation with these parts.
        """
        replaced = iter(())
        if self.replaced:
            translation, links, parts = _with_all_symbols(self, translation, list(links))
            replaced = iter(parts)

        def escaped(text):
            text = html.escape(text, quote=False) if self.markup == "html" else text
            return _SYMBOL.sub(lambda _: next(replaced).raw, text) if self.replaced else text

        if not self.spans:
            return escaped(translation)
        alignment = _Alignment(self.text, translation, links)
        nodes, depth = _tree(self.spans)
        placed = None
        if depth <= _DEEPEST:
            placed = _placed(nodes, alignment, 0, len(alignment.target))
        if placed is None or _ordered(placed) != _ordered(self.spans):
            placed = _in_order(self.spans, alignment)
        return "".join(_joined(placed, alignment, escaped))


def protect(
    text: str,
    markup: Markup | None = None,
    patterns: Iterable[str | re.Pattern[str]] = (),
    symbols: bool = False,
    source: str | None = None,
) -> Protected:
    r"""Take the parts out of a text that are not translated.

    They are placeholders (`%s`, `%1$d`, `{name}`, `${x}`, `{{ x }}`, plurals of ICU as a whole),
    web and e-mail addresses, and tags. Letters of the same word, and quotes and brackets
    around a placeholder, belong to it. A tag without its counterpart is placed like a placeholder.

    ```python
    protected = protect("A man pays %s for {name}.")
    protected.text  # "A man pays for."
    protected.restore("Ein Mann bezahlt für.")  # "Ein Mann bezahlt %s für {name}."
    ```

    Args:
        text: a string.
        markup: `"html"`, whose entities are also decoded for the model and encoded again;
            `"markdown"`, of which links, images, code and emphasis are kept too; or None for plain
            text, in which tags such as `<b>` and `<ph id="1"/>` are kept.
        patterns: iterable of regular expressions of further parts to keep.
        symbols: whether the model knows the reserved symbols. They stand for the parts in the text,
            without the letters and quotes around them. Pairs of tags are taken out.
        source: the string whose translation `text` is. Only the parts that the source has too are
            taken out, and symbols are the source's. Parts that occur several times are matched in
            their order. The result is not for `restore`.

    Returns:
        A `Protected`.

    Raises:
        UserError: if there is no such markup, or a pattern is not a regular expression.
    """
    check_markup(markup)
    own = compiled(patterns)
    if not own and not _HINTS[markup].search(text):
        return Protected(text, markup)
    found = _parts(text, markup, own, symbols)
    if source is not None:
        found = _also_in(_parts(source, markup, own, symbols), found)
    if not found and markup != "html":
        return Protected(text, markup)
    replaced = [span for *_, span in found if span.letter in SYMBOLS]
    skeleton, sources = _merged(*_skeleton(text, found, markup))
    shown, spans = _without_spans(skeleton, sources, markup)
    return Protected(shown, markup, spans, replaced)


def _parts(text, markup, patterns, symbols):
    """Return (start, stop, `_Span`) of the parts of a text, whose letters may be symbols."""
    found = _matched(text, _spans(text, markup, patterns))
    replaced = [span for *_, span in found if symbols and span.is_replaceable]
    for span, symbol in zip(replaced, cycle(SYMBOLS)):
        span.letter = symbol
    return found


def _also_in(parts, found):
    """Return the found parts of a translation that its source has too, with its letters."""
    letters, common = defaultdict(deque), []
    for *_, span in parts:
        letters[span.raw].append(span.letter)
    for *place, span in found:
        if letters[span.raw]:
            span.letter = letters[span.raw].popleft()
            common.append((*place, span))
    return common


def check_markup(markup: str | None) -> None:
    """Raise a `UserError` if there is no such markup."""
    if markup is not None:
        check_choice("markup", markup, [name for name in _FOUND if name])


def compiled(patterns: Iterable[str | re.Pattern[str]]) -> tuple[re.Pattern[str], ...]:
    """Compile the regular expressions of parts to keep.

    Args:
        patterns: list of strings, or the result of this function.

    Raises:
        UserError: if one of them is not a regular expression.
    """
    if isinstance(patterns, tuple) and all(isinstance(x, re.Pattern) for x in patterns):
        return cast(tuple[re.Pattern[str], ...], patterns)
    return tuple(map(_compiled, check_strings("protect", cast(Iterable[str], patterns))))


def _compiled(pattern):
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UserError(
            f"`protect` must be regular expressions. Received: {pattern!r}: {error}"
        ) from None


# Find


def _spans(text, markup, patterns: tuple[re.Pattern[str], ...]) -> list[tuple[int, int, Any]]:
    """Return (start, stop, match or None) of the spans, which do not overlap."""
    found: list[tuple[int, int, Any]] = [
        (m.start(), m.end(), m) for m in _FOUND[markup].finditer(text)
    ]
    for pattern in patterns:
        found += [(m.start(), m.end(), None) for m in pattern.finditer(text) if m[0]]
    if not patterns:
        return found
    spans = []
    for start, stop, match in sorted(found, key=lambda x: (x[0], -x[1])):
        if not spans or start >= spans[-1][1]:
            spans.append((start, stop, match))
        elif stop > spans[-1][1]:
            spans[-1] = (spans[-1][0], stop, None)
    return spans


_TAG_NAME = re.compile(r"<(/?)([^\s<>/]+)")


def _matched(text, found):
    """Return (start, stop, `_Span`), with opening and closing tags in pairs.

    Tags without a counterpart stand for themselves. Marks of Markdown without one are text.
    """
    spans, opened, counts = [], [], Counter()

    def add(start, stop, letter, name):
        spans.append((start, stop, _Span(text[start:stop], letter, name)))
        if letter == _OPEN:
            opened.append(spans[-1][2])
            counts[name] += 1

    def close(start, stop, name):
        add(start, stop, _CLOSE if counts[name] else _EMPTY, name)
        while counts[name]:
            other = opened.pop()
            counts[other.name] -= 1
            if other.name == name:
                other.end = spans[-1][2]
                break
            other.letter = _EMPTY

    for start, stop, match in found:
        groups = match.groupdict() if match else {}
        if groups.get("tag"):
            is_end, name = cast(re.Match, _TAG_NAME.match(text, start)).groups()
            name = name.lower()
            if is_end:
                close(start, stop, name)
            else:
                is_alone = name in _VOID or text[stop - 2] == "/"
                add(start, stop, _EMPTY if is_alone else _OPEN, name)
        elif groups.get("kept") or groups.get("block"):
            name = (groups.get("raw") or "!").lower() if groups.get("kept") else "li"
            add(start, stop, _EMPTY, name)
        elif groups.get("opens"):
            add(start, stop, _OPEN, "[")
        elif groups.get("closes"):
            close(start, stop, "[") if counts["["] else add(start, stop, _PLACEHOLDER, "")
        elif groups.get("marks"):
            after, before = text[stop : stop + 1], text[start - 1 : start]
            while start < stop and before.strip() and opened:
                name = opened[-1].name
                if not name or not text.startswith(name, start, stop):
                    break
                close(start, start + len(name), name)
                start += len(name)
            if start < stop and after.strip():
                add(start, stop, _OPEN, text[start:stop])
        else:
            add(start, stop, _PLACEHOLDER, "")
    for other in opened:
        other.letter = _EMPTY
    if any(x.name[:1] in "[*_~" and x.name for x in opened):
        spans = [x for x in spans if x[2].letter != _EMPTY or x[2].name[:1] not in set("[*_~")]
    return spans


_ENTITY = re.compile(untranslated.ENTITY)


def _skeleton(text, spans, markup):
    """Return a text with one letter per span, and the source of each letter."""
    letters, sources, last = [], [], 0

    def add_text(start, stop):
        piece = text[start:stop]
        if markup == "html" and "&" in piece:
            position = 0
            for entity in _ENTITY.finditer(piece):
                add_plain(piece[position : entity.start()])
                position = entity.end()
                plain = html.unescape(entity[0])
                letters.extend(plain)
                sources.extend([entity[0], *[""] * (len(plain) - 1)])
            piece = piece[position:]
        add_plain(piece)

    def add_plain(piece):
        letters.extend(piece)
        sources.extend(piece)

    for start, stop, span in spans:
        add_text(last, start)
        letters.append(span.letter)
        sources.append(span)
        last = stop
    add_text(last, len(text))
    return "".join(letters), sources


def _merged(skeleton, sources):
    """Join placeholders with what belongs to them."""
    for _ in range(_DEEPEST):
        last, letters, kept = 0, [], []
        for match in _MERGED.finditer(skeleton):
            start, stop = match.span()
            parts = sources[start:stop]
            if any(isinstance(x, _Span) and x.is_block for x in parts):
                continue
            letter = _PLACEHOLDER if _PLACEHOLDER in match[0] else _EMPTY
            raw = "".join(x.raw if isinstance(x, _Span) else x for x in parts)
            letters += [skeleton[last:start], letter]
            kept += [*sources[last:start], _Span(raw, letter)]
            last = stop
        if not letters:
            break
        skeleton = "".join([*letters, skeleton[last:]])
        sources = kept + sources[last:]
    return skeleton, sources


def _without_spans(skeleton, sources, markup):
    """Return the text without the spans, and the spans with their places."""
    text, length, spans, last = [], 0, [], 0
    for cluster in _CLUSTER.finditer(skeleton):
        start, stop = cluster.span()
        text.append(skeleton[last:start])
        length += start - last
        last = stop
        found, spaces, plain = [], [""], [""]  # white space before, between and after spans
        for letter, source in zip(skeleton[start:stop], sources[start:stop]):
            if isinstance(source, _Span):
                found.append(source)
                spaces.append("")
                plain.append("")
            else:
                spaces[-1] += source
                plain[-1] += letter
        # The first `split` spans stand on the left of the white space that the text keeps.
        closing = [i for i, span in enumerate(found, 1) if span.letter == _CLOSE]
        split, kept, added = max(closing, default=0), None, ""
        if start == 0:
            split = kept = 0
        elif stop == len(skeleton):
            split = kept = len(found)
        elif any(span.is_block for span in found):
            added = _BLOCK_BREAK
        elif (
            found[-1].letter in (_PLACEHOLDER, _EMPTY) and skeleton[stop] in _ENDS and not plain[-1]
        ):
            split = len(found)  # the punctuation comes after the word before
        elif any(plain):
            breaks = [i for i, space in enumerate(plain) if "\n" in space and markup is None]
            split = kept = (breaks or [i for i, space in enumerate(plain) if space])[0]
        elif any(map(_separates, found)):
            is_inner = skeleton[start - 1] not in _OPENING and skeleton[stop] not in _CLOSING
            added = " " if is_inner else ""
        space = added if kept is None else plain[kept]
        for i, span in enumerate(found):
            span.position = length + (len(space) if i >= split else 0)
            span.is_left = i < split
            span.is_spaced = bool(spaces[i])
        for span, other in pairwise(found):
            span.next = other
        found[0].precedes = "" if spaces[0] else skeleton[:start][-1:]
        found[-1].is_joined = not spaces[-1]
        found[-1].follows = skeleton[stop : stop + 1]
        for i, source in enumerate(spaces):
            if i != kept and (i > split or i == len(found)):
                found[i - 1].after = source
            elif i != kept:
                found[i].before = source
        found[0].added = added
        text.append(space)
        length += len(space)
        spans += found
    return "".join([*text, skeleton[last:]]), spans


def _separates(span):
    """Return whether the words before and after a span are two words."""
    return span.letter == _EMPTY and span.name not in ("", "wbr", "!")


# Put back


class _Alignment:
    """The words of a text and of its translation, and which of them belong together."""

    def __init__(self, text: str, translation: str, links: Iterable[Link]):
        self.text, self.translation = text, translation
        self.source = [m.span() for m in _UNIT.finditer(text)]
        self.target = [m.span() for m in _UNIT.finditer(translation)]
        starts, stops = ([[x[i] for x in self.source], [x[i] for x in self.target]] for i in (0, 1))
        self._starts, self._stops = starts[0], stops[0]
        bounds, tokens, last = [], [], (0, 0)
        for s0, s1, t0, t1 in sorted(links):
            piece = text[s0:s1]
            if piece == piece.strip() or piece != translation[t0:t1]:
                tokens.append((s0, s1, t0, t1))
            elif s0 >= last[0] and t0 >= last[1]:
                bounds += [(s0, t0), (s1, t1)]
                last = s1, t1
        # Segments: ranges of words of both sides, between the seams of sentences and in them.
        s = t = 0
        self.segments = []
        for s1, t1 in [*bounds, (len(text), len(translation))]:
            next_s, next_t = bisect_left(starts[0], s1), bisect_left(starts[1], t1)
            self.segments.append((s, next_s, t, next_t))
            s, t = next_s, next_t
        # What stands at the begin of a seam belongs to the sentence before it.
        self._bounds = [2 * s1 + 1 - i % 2 for i, (s1, _) in enumerate(bounds)]
        # The linked words of the text, for each word of the translation; and the reverse.
        self.sources = [[] for _ in self.target]
        for s0, s1, t0, t1 in tokens:
            words = range(bisect_right(stops[0], s0), bisect_left(starts[0], s1))
            for i in range(bisect_right(stops[1], t0), bisect_left(starts[1], t1)):
                self.sources[i].extend(words)
        for segment in self.segments:
            self._complete(*segment)
        self.targets = [[] for _ in self.source]
        for i, words in enumerate(self.sources):
            for word in words:
                self.targets[word].append(i)

    def _complete(self, s0, s1, t0, t1):
        """Link words that both sides have once, and all words if none is linked."""
        sides = (self.text, self.source[s0:s1]), (self.translation, self.target[t0:t1])
        words, others = ([text[slice(*x)] for x in units] for text, units in sides)
        once = Counter(words)
        places = {word: i for i, word in enumerate(words, s0) if once[word] == 1}
        once = Counter(others)
        for i in range(t0, t1):
            self.sources[i] = [word for word in self.sources[i] if s0 <= word < s1]
        has_links = any(self.sources[t0:t1])
        for i, other in enumerate(others, t0):
            if other in places and once[other] == 1:
                self.sources[i] = [places[other]]
            elif not has_links and s0 < s1:
                self.sources[i] = [s0 + (i - t0) * (s1 - s0) // (t1 - t0)]
        if s0 < s1 and t0 < t1 and not any(x[-1].isalnum() for x in (words[-1], others[-1])):
            self.sources[t1 - 1] = [s1 - 1]

    def symbols(self, is_target: bool) -> dict[tuple[int, str], list[int]]:
        """Return the positions of reserved symbols, by the number of the segment and the symbol."""
        text, words = ((self.text, self.source), (self.translation, self.target))[is_target]
        starts, ends = [start for start, _ in words], [x[1 + 2 * is_target] for x in self.segments]
        found = defaultdict(list)
        for match in (_WHOLE_SYMBOL if is_target else _SYMBOL).finditer(text):
            word = bisect_right(starts, match.start()) - 1
            found[bisect_right(ends, word), match[0]].append(match.start())
        return found

    def position(self, span: _Span) -> int:
        """Return the position in the translation of a span that is put after a word."""
        place = self.gap(span, 0, len(self.target))
        first = self.segments[self._segment(span.position)][2]
        if first < place or place == len(self.target) > 0:
            return self.target[place - 1][1]
        return self.target[place][0] if self.target else 0

    def _segment(self, position):
        return bisect_right(self._bounds, 2 * position)

    def gap(self, span: _Span, low: int, high: int) -> int:
        """Return the place of a span in the translation: the number of words before it.

        It is the place from `low` to `high` that separates the fewest words near the span from the
        side of the span on which they stood.
        """
        s0, s1, t0, t1 = self.segments[self._segment(span.position)]
        low, high = max(low, min(t0, high)), min(high, max(t1, low))
        word = bisect_right(self._stops, span.position)
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

    def _weight(self, word):
        start, stop = self.source[word]
        is_word = any(map(str.isalnum, self.text[start:stop]))
        return 1 if is_word else _PUNCTUATION

    def interval(self, span: _Span, low: int, high: int, taken: set[int]) -> tuple[int, int]:
        """Return the range of words, from `low` to `high`, that a pair of tags encloses.

        It has the most words that are linked with words in the pair, and the fewest others. Words
        that are `taken` are not in it, and its words are taken afterwards.
        """
        limits, start, stop = (low, high), span.position, cast(_Span, span.end).position
        first, last = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        places = slice(self._segment(start), self._segment(stop) + 1)
        segments, total, most, begin, best = self.segments[places], 0.0, 0.0, low, None
        for segment in segments:
            s0, s1, t0, t1 = segment
            is_whole = s0 < s1 and first <= s0 and s1 <= last
            linked = [
                i for word in range(max(first, s0), min(last, s1)) for i in self.targets[word]
            ]
            if not is_whole and segment == segments[0]:
                low = max(low, min(linked, default=t1))
            if not is_whole and segment == segments[-1]:
                high = min(high, max(linked, default=t0 - 1) + 1)
            for i in range(max(t0, low), min(t1, high)):
                if total <= 0 or i in taken:
                    total, begin = 0.0, i
                if i in taken:
                    continue
                words = self.sources[i]
                share = sum(first <= x < last for x in words) / len(words) if words else _UNLINKED
                total += 0.5 if is_whole else share - 0.5 + _TIE
                if total > most:
                    most, best = total, (begin, i + 1)
        if best is None:
            place = self.gap(span, *limits)
            while limits[0] < place < limits[1] and place - 1 in taken and place in taken:
                place -= 1
            best = place, place
        taken.update(range(*best))
        return best


def _with_all_symbols(protected, translation, links):
    """Return a translation with one reserved symbol for each replaced part, its links, the parts.

    The symbols that a sentence has as often as its source stay where they are. The others are
    removed, and stand next to the words that they stood next to in the source.
    """
    alignment = _Alignment(protected.text, translation, links)
    places = (match.start() for match in _SYMBOL.finditer(protected.text))
    spans, others = dict(zip(places, protected.replaced)), alignment.symbols(True)
    kept, added = {}, defaultdict(list)
    for key, positions in alignment.symbols(False).items():
        if len(positions) == len(others[key]):
            kept |= {other: spans[x] for x, other in zip(positions, others[key])}
            continue
        for position in positions:
            spans[position].position = position
            added[alignment.position(spans[position])].append(spans[position])
    parts, new, starts, stops = [], "", [], []
    for position, letter in enumerate([*translation, ""]):
        stops.append(len(new))
        for span in added[position]:
            parts.append(span)
            is_opening = new[-1:] in _OPENING and not new[-2:-1].strip()
            is_apart = not (is_opening or new[-1].isspace() or _has_no_spaces(new[-1]))
            before = " " if is_apart else ""
            after = " " if letter.isalnum() and not _has_no_spaces(letter) else ""
            new += f"{before}{span.letter}{after}"
        starts.append(len(new))
        if position in kept:
            parts.append(kept[position])
        if position in kept or letter not in SYMBOLS:
            new += letter
        elif new.endswith(" ") and not translation[position + 1 : position + 2].isalnum():
            new = new[:-1]
    # Placeholders such as `%s` keep their order.
    ordered = iter(_ordered(protected.replaced))
    parts = [next(ordered) if _ORDERED.search(part.raw) else part for part in parts]
    return new, [(s0, s1, starts[t0], stops[t1]) for s0, s1, t0, t1 in links], parts


def _tree(spans):
    """Return nodes, pairs of a span and the nodes inside it; and the depth of the tree."""
    nodes, opened, deepest = [], [], 0
    for span in spans:
        inner = opened[-1][1] if opened else nodes
        if span.letter == _CLOSE:
            opened.pop()
            continue
        inner.append((span, []))
        if span.end is not None:
            opened.append(inner[-1])
            deepest = max(deepest, len(opened))
    return nodes, deepest


def _ordered(placed):
    """Return the spans whose order is their meaning."""
    return [x for x in placed if isinstance(x, _Span) and _ORDERED.search(x.raw)]


def _placed(nodes, alignment, low, high):
    """Return the numbers of the words from `low` to `high`, with the spans between them."""
    taken, pairs, alone = set(), [], {}
    for number, (span, _) in enumerate(nodes):
        if span.end is None:
            alone[number] = alignment.gap(span, low, high)
            continue
        start, stop = alignment.interval(span, low, high, taken)
        if start < stop:
            pairs.append((start, True, number, stop))
        else:
            alone[number] = start
    pairs.sort()
    items = [*pairs]
    for number, place in alone.items():
        # What encloses no words is not moved into a pair of tags.
        before = bisect_left(pairs, (place,)) - 1
        if before >= 0 and place < pairs[before][3]:
            start, _, other, stop = pairs[before]
            place = start if number < other else stop
        items.append((place, False, number, place))
    placed, at = [], low
    for start, _, number, stop in sorted(items):
        span, inner = nodes[number]
        placed += [*range(at, start), span]
        if span.end is not None:
            placed += [*_placed(inner, alignment, start, stop), span.end]
        at = stop
    return [*placed, *range(at, high)]


def _in_order(spans, alignment):
    """Return the numbers of all words, with the spans between them in the order of the source."""
    placed, at, end = [], 0, len(alignment.target)
    for span in spans:
        place = alignment.gap(span, at, end)
        placed += [*range(at, place), span]
        at = place
    return [*placed, *range(at, end)]


def _joined(placed, alignment, escape):
    """Yield the parts of the translation with its spans."""
    parts, run, position = [], [], 0
    for item in [*placed, None]:
        if isinstance(item, _Span):
            run.append(item)
            continue
        words = alignment.target
        start, stop = (len(alignment.translation),) * 2 if item is None else words[item]
        space = alignment.translation[position:start]
        for span in run:
            space = space.replace(span.added, "", 1) if span.added else space
        split = next((i for i, span in enumerate(run) if not span.is_left), len(run))
        parts += [*run[:split], space, *run[split:], alignment.translation[start:stop]]
        run, position = [], stop
    parts = [part for part in parts if part]
    last = ""
    for previous, part, following in zip([None, *parts], parts, [*parts[1:], None]):
        text = _spaced(part, previous, last, following) if isinstance(part, _Span) else escape(part)
        yield text
        last = text[-1]


def _spaced(span, previous, last, following):
    """Return a span with white space, between two parts of the translation.

    The letter `last` is the end of the part before it.
    """
    before, after = span.before, span.after
    is_placeholder = span.letter == _PLACEHOLDER
    is_first = isinstance(previous, _Span) and previous.letter == _OPEN
    if not last.strip() or (is_first and previous.next is not span):
        before = ""
    elif not before and getattr(previous, "next", None) is not span and not _has_no_spaces(last):
        is_joined = is_placeholder and last.isalnum() and not span.precedes.isalnum()
        is_alone = span.letter not in (_OPEN, _CLOSE) and last not in _OPENING
        before = " " if is_joined or (is_alone and span.is_spaced) else ""
    if following is None:
        after = "" if span.follows or span.next else after
    elif isinstance(following, _Span):
        after = after if following is span.next else ""
    elif after:
        next_letter = following[0]
        is_unlike = next_letter in _CLOSING and span.follows not in _CLOSING
        is_unlike |= _has_no_spaces(next_letter) and not _has_no_spaces(span.follows)
        after = "" if is_unlike or next_letter.isspace() else after
    elif is_placeholder and following[0].isalnum() and not _has_no_spaces(following):
        after = "" if span.is_joined and span.follows.isalnum() else " "
    return f"{before}{span.raw}{after}"


def _has_no_spaces(letter):
    return bool(_SPACELESS_LETTER.match(letter))
