"""HTML: the content of a block with its inline tags is a unit, and so are some attributes."""

import bisect
import re
from collections.abc import Iterator, Sequence

from keras_transformer.documents.document import TextDocument
from keras_transformer.documents.fragments import Dialect, Fragment, fragments

_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark "
    "math nobr q rp rt ruby s samp script small span strike strong sub sup svg time tt u var wbr "
    "x-ph ph".split()
)
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_RAW = frozenset("script style textarea xmp".split())
_KEPT = frozenset("code kbd math pre samp svg template var".split())
_NOT_TRANSLATED = re.compile(
    r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b)""",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(
    r"""\s(?:alt|title|placeholder|aria-label)\s*=\s*(?:"([^"]+)"|'([^']+)')""", re.IGNORECASE
)
_QUOTES = {'"': "&quot;", "'": "&#39;"}

DIALECT = Dialect(
    inline=_INLINE.__contains__,
    kept=lambda tag, name: name in _KEPT or bool(_NOT_TRANSLATED.search(tag)),
    void=_VOID,
    raw=_RAW,
)


class Html(TextDocument):
    """An HTML file. Its units are found in its text, which is not rewritten."""

    markup = "html"
    _encoding = re.compile(
        rb"""<(?:\?xml[^>]*encoding=["']|meta[^>]*charset\s*=\s*["']?)([\w.:-]+)""", re.IGNORECASE
    )

    def _find_units(self) -> None:
        self._check_lines("[^<]", "text without a tag")
        found = [(fragment, None) for fragment in fragments(self.text, DIALECT)]
        self._found: list[tuple[Fragment, tuple[int, int] | None]] = []
        for fragment, tag in sorted([*found, *self._attributes()]):
            if self._add(fragment.text, fragment[:2]):
                self._found.append((fragment, tag))

    def _attributes(self) -> Iterator[tuple[Fragment, tuple[int, int]]]:
        """Yield the units in attributes, each with the place of its tag."""
        for item in DIALECT.items(self.text):
            if item.name and self.text[item.start + 1] != "/":
                tag = DIALECT.tokens.match(self.text, item.start)
                if tag and not DIALECT.kept(tag[0], item.name):
                    for found in _ATTRIBUTE.finditer(self.text, *tag.span()):
                        start, stop = found.span(found.lastindex or 0)
                        yield Fragment(start, stop, self.text[start:stop], []), tag.span()

    def _rendered(self, translations: Sequence[str | None]) -> str:
        starts = [fragment.start for fragment, _ in self._found]

        def rendered(start: int, stop: int, first: int) -> str:
            """Return the text between two places with its translated units, not before `first`."""
            parts, index = [], max(first, bisect.bisect_left(starts, start))
            while index < len(starts) and starts[index] < stop:
                fragment = self._found[index][0]
                following = bisect.bisect_left(starts, fragment.stop)
                parts += [self.text[start : fragment.start], unit(index, following)]
                start, index = fragment.stop, following
            return "".join([*parts, self.text[start:stop]])

        def unit(index: int, following: int) -> str:
            (fragment, tag), text = self._found[index], translations[index]
            if text is not None and tag is not None:
                quote = self.text[fragment.start - 1]
                text = text.replace(quote, _QUOTES[quote])
            text = self._restored(
                fragment, text, lambda place: rendered(place.start, place.stop, index + 1)
            )
            if text is None:
                return rendered(fragment.start, fragment.stop, index + 1)
            # Attributes of the tags in it. (Attributes of kept pieces are translated by now.)
            tags = (self._found[inner][1] for inner in range(index + 1, following))
            for start, stop in dict.fromkeys(filter(None, tags)):
                new = rendered(start, stop, index + 1)
                text = text.replace(self.text[start:stop], new, 1)
            return text

        return rendered(0, len(self.text), 0)
