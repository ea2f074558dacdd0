"""Texts with spans: pieces that a translation keeps, each at a place of the text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(eq=False)
class Span:
    """A piece that is not translated, such as a tag.

    Attributes:
        raw: the text that stands in the file.
        kind: `"open"` or `"close"` for the halves of a pair, which encloses words;
            `"placeholder"` for a piece that stands for words, such as code; `"separator"` for one
            that stands between two words, such as a line break; `"mark"` for any other, such as a
            comment.
        start: index of its beginning in the text that was read.
        stop: index of its end there.
        partner: the other half of a pair.
        content: anything else that its reader needs to write it.
    """

    raw: str
    kind: Literal["open", "close", "placeholder", "separator", "mark"] = "placeholder"
    start: int = -1
    stop: int = -1
    partner: "Span | None" = field(default=None, repr=False)
    content: Any = None


@dataclass(frozen=True)
class MarkedText:
    """A text with spans. Its string has what stands in the file in the place of each span.

    Attributes:
        text: the text without the spans.
        spans: pairs of a position in `text` and the `Span` there, in order. The halves of pairs
            are nested.
        is_wrapped: whether a line break is white space within a sentence, as in HTML.
    """

    text: str
    spans: Sequence[tuple[int, Span]] = ()
    is_wrapped: bool = field(default=False, compare=False)

    def written(
        self,
        escape: Callable[[str], str] = str,
        write: Callable[[Span], str] = lambda span: span.raw,
    ) -> str:
        """Return the text with its spans.

        Args:
            escape: function of a piece of the text that returns how the format writes it.
            write: function of a `Span` that returns how it is written.
        """
        parts, last = [], 0
        for position, span in self.spans:
            parts += [escape(self.text[last:position]), write(span)]
            last = position
        return "".join([*parts, escape(self.text[last:])])

    def __str__(self) -> str:
        return self.written()
