"""Markdown: a paragraph, a heading and a cell of a table are units."""

import importlib
import itertools
import re
from bisect import bisect_right
from collections import ChainMap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from keras_transformer.documents.document import TextDocument, required, validate_lines
from keras_transformer.documents.text_part import LONGEST_UNIT, TextPart, Unit
from keras_transformer.protection.spans import MarkedText, Span

# Data, whose first line names a value. Text between two lines has none.
_FRONT_MATTER = re.compile(
    r"---[ \t]*\r?\n(?=[#\w\"'])(?:(?:[ \t#\]}-].*|[\w\"'][^:\r\n]*:(?:[ \t].*)?)?\r?\n)*?"
    r"(?:---|\.\.\.)[ \t]*\r?$|\+\+\+[ \t]*\r?\n(?:.*\n)*?\+\+\+[ \t]*\r?$",
    re.MULTILINE,
)
_REASONS = {
    **{"fence": "in code", "code_block": "in code", "html_block": "in HTML"},
    **dict.fromkeys(("math_block", "math_block_label"), "in math"),
}
_CELLS = ("th_open", "td_open")
_HEADS = ("container_block_open", "alert_open")  # blocks whose first line is not text
# The beginnings of lines that would begin another block, or underline a heading.
_BLOCK = re.compile(r"(?:[>+*=|~:-]|#{1,6}|\d+[.)]|!!|\?\?)(?=[\s=~:!?-]|\Z)")
_SPECIAL = re.compile(
    r"[*`\[\]$~]|\\(?=[\W_]|\Z)|<(?=[A-Za-z/!?]|\Z)|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|"
    r"(?<=\w)@|:(?=//)|!\Z|(?<=\s)#(?=#*\Z)"
)
_LABEL = re.compile(r"\[(?:[ xX]\][ \t]|!\w+\])")  # of a task or an alert
_SPACES = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"[ \t\r\n]+(?=[^\W\d_])")  # No line that begins with a letter begins a block.
_LINE = re.compile(r"[ \t]*\n[ \t]*")
_BLANK, _PARAGRAPH = " \t\r\n", "paragraph_open"
_FAILED = "with other marks after translation"


def _is_text(text: str) -> bool:
    return any(map(str.isalpha, text))


class _Block(NamedTuple):
    """The type of a unit's block, and the breaks between its lines, for writing it."""

    kind: str
    is_alone: bool
    breaks: list[str]
    width: int


class Markdown(TextDocument):
    """A Markdown file, whose blocks and marks markdown-it-py finds."""

    def _part(self, text: str) -> TextPart:
        return markdown_part(text, str(self.path))


def markdown_part(text: str, name: str = "The text") -> TextPart:
    """Find the units of a text in Markdown.

    Args:
        text: the text: CommonMark with GitHub's extensions, mathematics, containers, footnotes,
            definition lists and front matter.
        name: name of the file, for error messages.

    Raises:
        UserError: if markdown-it-py is not installed, or a line or a block is too long.
    """
    required("markdown_it", "markdown-it-py")
    required("mdit_py_plugins", "mdit-py-plugins")
    return _MarkdownPart(text, name)


class _MarkdownPart(TextPart):
    def __init__(self, text: str, name: str):
        super().__init__(text, name)
        module = importlib.import_module("keras_transformer.documents.markdown_parser")
        self._parser, self._inline_text = module.make_parser(), module.InlineText
        self._env: dict[str, Any] = {"references": {}, "footnotes": {"refs": {}, "list": {}}}
        self._blocks: dict[int, _Block] = {}
        self._cell_stop = self._row_stop = 0
        self._plain = text.replace("\0", "\ufffd")  # as the parser reads it
        validate_lines(self)
        front = _FRONT_MATTER.match(text)
        self.skipped["in front matter"] += bool(front)
        start = begin = front.end() if front else 0
        self._lines: list[tuple[int, int]] = []
        for end in re.compile(r"\r\n?|\n|\Z").finditer(text, start):
            self._lines.append((begin, end.start()))
            begin = end.end()
        self._read(start)

    def _read(self, start: int) -> None:
        """Find the units of the text from a place."""
        kind, seen = "", set()
        for token in self._parser.parse(self.text[start:], self._env):
            if token.type != "inline":
                self._count(token)
            elif token.map and token.content:
                self._read_block(token, kind)
            if token.map and token.nesting == 0:
                seen.update(range(*token.map))
            elif token.type in _HEADS:
                seen.add(token.map[0])
            is_underlined = token.type == "heading_open" and token.markup in "=-"
            kind = _PARAGRAPH if is_underlined else token.type
        self._count_rest(seen)

    def _count_rest(self, seen: set[int]) -> None:
        """Count the lines whose numbers are not `seen`."""
        rest = [line for number, line in enumerate(self._lines) if number not in seen]
        self.skipped["outside of blocks"] += sum(_is_text(self.text[slice(*x)]) for x in rest)

    def _count(self, token: Any) -> None:
        """Count the text of a token that is not translated."""
        is_container = token.type == "container_block_open"
        has_title = token.meta.get("title") or (is_container and len(token.info.split()) > 1)
        self.skipped["in titles"] += bool(has_title)
        if token.type == "tr_open":
            self._cell_stop, self._row_stop = self._lines[token.map[0]]
        elif token.type == "tr_close":  # Cells without a column are not shown.
            rest = self.text[self._cell_stop : self._row_stop]
            self.skipped["in surplus cells"] += _is_text(rest)
        elif token.type in _REASONS and not token.content.lstrip().startswith("<!--"):
            self.skipped[_REASONS[token.type]] += _is_text(token.content)

    def _read_block(self, token: Any, kind: str) -> None:
        start = self._lines[token.map[0]][0]
        if len(token.content) > LONGEST_UNIT:
            problem = f"a text of {len(token.content):,} characters. Expected at most"
            raise self.error(start, f"{problem} {LONGEST_UNIT:,}")
        starts, places = zip(*self._places(token, kind))
        if places[-1] < 0:
            self.skipped["in unusual places"] += kind != "admonition_title_open"
            return

        def source(position: int) -> int:
            """Return the place of a position in the content of the block."""
            number = bisect_right(starts, position) - 1
            return places[number] + position - starts[number]

        found = self._inline_text(self._parser, token.content, self._env)
        self.skipped.update(found.kept)
        units = list(_divided(found.marked, len(token.content)))
        for marked, first, last in units:
            breaks = [
                self.text[source(begin) : source(end)]
                for begin, end in found.breaks
                if first <= begin < last
            ]
            for _, span in marked.spans:
                span.start, span.stop = source(span.start), source(span.stop)
                span.raw = self.text[span.start : span.stop]
            width = max(map(len, token.content[first:last].split("\n")))
            if self.add(marked, source(first), source(last)):
                self._blocks[source(first)] = _Block(kind, len(units) == 1, breaks, width)

    def _places(self, token: Any, kind: str) -> Iterator[tuple[int, int]]:
        """Yield positions in the content of a block, and where they are in the text, or -1."""
        position = 0
        for number, line in enumerate(token.content.split("\n"), token.map[0]):
            start, stop = self._lines[number]
            words = line.strip(_BLANK)
            if kind in _CELLS:
                words = words.replace("|", r"\|")
                place = self._plain.find(words, self._cell_stop, stop)
                self._cell_stop = place + len(words)
            elif kind == "admonition_title_open":
                place = self._plain.find(f'"{words}"', start, stop)
                place += place >= 0
            else:
                place = self._plain.rfind(words, start, stop)
            yield position, place - (len(line) - len(line.lstrip(_BLANK))) if place >= 0 else -1
            if place < 0:
                return
            if kind in _CELLS:
                pipes = enumerate(re.finditer(r"\|", line), place + 1)
                yield from ((pipe.end(), count + pipe.end()) for count, pipe in pipes)
            position += len(line) + 1

    def replacement(
        self, unit: Unit, translation: MarkedText, write: Callable[[Span], str]
    ) -> str | None:
        block = self._blocks[unit.start]
        spans, expected = (
            sorted((x.kind, x.content) for _, x in text.spans)
            for text in (translation, unit.marked)
        )
        # Characters that are not marks in one line may become marks next to another line.
        for escape in (list, _all_escaped)[not block.is_alone :] if spans == expected else ():
            parts = _labeled(escape(_laid_out(translation, block)))
            content = "".join(text for text, _ in parts)
            if self._is_read_as(block.kind, content, translation):
                breaks = itertools.chain(block.breaks, itertools.repeat((block.breaks or [""])[-1]))
                return "".join(
                    write(span)
                    if span
                    else next(breaks)
                    if text == "\n"
                    else text.replace("|", r"\|")
                    if block.kind in _CELLS
                    else text
                    for text, span in parts
                )
        self.skipped[_FAILED] += 1
        return None

    def _is_read_as(self, kind: str, content: str, expected: MarkedText) -> bool:
        """Return whether a block with this content is read as this text with its spans."""
        if _LABEL.match(content):
            return False
        first = "table_open" if kind in _CELLS else kind if kind == "heading_open" else _PARAGRAPH
        if kind in _CELLS:
            content = "|{}|\n|-|".format(content.replace("|", r"\|"))
        elif kind == "heading_open":
            content = f"# {content}"
        notes = self._env["footnotes"]
        env = {
            "references": ChainMap({}, self._env["references"]),
            "footnotes": {"refs": ChainMap({}, notes["refs"]), "list": notes["list"]},
        }
        tokens = self._parser.parse(content, env)
        if tokens[0].type != first or len(tokens) != (9 if kind in _CELLS else 3):
            return False
        (inline,) = (token for token in tokens if token.type == "inline")
        found = self._inline_text(self._parser, inline.content, env).marked
        return _normal_form(found) == _normal_form(expected)


def _divided(marked: MarkedText, size: int) -> Iterator[tuple[MarkedText, int, int]]:
    """Divide a content at its hard line breaks, except those in pairs, and yield the places too."""
    begin = start = first = depth = 0
    for index, (position, span) in enumerate(marked.spans):
        depth += {"open": 1, "close": -1}.get(span.kind, 0)
        if not depth and _is_break(span):
            inner = [(x - begin, y) for x, y in marked.spans[first:index]]
            yield MarkedText(marked.text[begin:position], tuple(inner), True), start, span.start
            begin, start, first = position, span.stop, index + 1
    inner = [(x - begin, y) for x, y in marked.spans[first:]]
    yield MarkedText(marked.text[begin:], tuple(inner), True), start, size


def _is_break(piece: Any) -> bool:
    """Return whether a piece is a hard line break."""
    is_span = isinstance(piece, Span) and piece.kind == "separator"
    return is_span and "\n" in piece.content and not piece.content.strip(" \t\n\\")


def _pieces(marked: MarkedText) -> list[Any]:
    """Return the texts and spans of a text in order, with white space only within lines."""
    pieces, last = [], 0
    for position, span in marked.spans:
        pieces += [marked.text[last:position], span]
        last = position
    pieces.append(marked.text[last:])
    for index in range(0, len(pieces), 2):
        if index == 0 or _is_break(pieces[index - 1]):
            pieces[index] = pieces[index].lstrip(_BLANK)
        if index == len(pieces) - 1 or _is_break(pieces[index + 1]):
            pieces[index] = pieces[index].rstrip(_BLANK)
    return pieces


def _normal_form(marked: MarkedText) -> list[Any]:
    """Return what two texts with spans have in common if they differ only in white space."""
    return [
        (piece.kind, piece.content) if isinstance(piece, Span) else _SPACES.sub(" ", piece)
        for piece in _pieces(marked)
    ]


def _laid_out(marked: MarkedText, block: _Block) -> list[Any]:
    """Return the texts and spans of a translation, with `"\\n"` where a line ends.

    A translation keeps its lines if it has the number of its source's. Another one is wrapped.
    """
    keeps = marked.text.count("\n") == len(block.breaks)
    parts, size = [], -1
    for group in _groups(marked, _LINE if keeps else _WORD):
        length = sum(len(x.content if isinstance(x, Span) else x) for x in group)
        is_end = keeps or (block.breaks and size + 1 + length > block.width)
        parts += ["\n" if is_end else " ", *group]
        size = length if is_end else size + 1 + length
    return parts[1:]


def _groups(marked: MarkedText, seam: re.Pattern[str]) -> list[list[Any]]:
    """Return the texts and spans of a text, in groups between which lines may end."""
    groups: list[list[Any]] = [[]]
    for piece in _pieces(marked):
        if isinstance(piece, Span):
            groups[-1].append(piece)
            continue
        first, *rest = [_SPACES.sub(" ", text) for text in seam.split(piece)]
        groups[-1].append(first)
        groups += [[text] for text in rest]
    return groups


def _all_escaped(parts: list[Any]) -> list[Any]:
    """Escape all characters that could be marks."""
    found, is_first = [], True
    for part in parts:
        found.append(part if isinstance(part, Span) else _escaped(part, is_first))
        is_first = part == "\n" or (is_first and part == "")
    return found


def _escaped(text: str, is_first: bool) -> str:
    """Escape all characters of a text that could be marks."""
    start = _BLOCK.match(text) if is_first else None
    text = _SPECIAL.sub(r"\\\g<0>", text).replace("\xa0", "&nbsp;")
    if is_first and text.startswith(r"\["):  # With `\]` at the end, it would be mathematics.
        text = f"&#91;{text[2:]}"
    if start and text[: start.end()] == start[0]:
        text = f"{text[: start.end() - 1]}\\{text[start.end() - 1 :]}"
    return text


def _labeled(parts: list[Any]) -> list[tuple[str, Span | None]]:
    """Return how pieces are written in any block, with those that stay as they are.

    A link that has no other label than its text keeps its label if its text changes.
    """
    found, opened = [], []
    for part in parts:
        if not isinstance(part, Span):
            found.append((part, None))
            continue
        text, span = part.content, part
        if part.kind == "open":
            opened.append(len(found) + 1)
        elif part.kind == "close":
            inner = opened.pop()
            if part.raw in ("]", "][]"):
                label = "".join(text for text, _ in found[inner:])
                is_same = part.content == f"][{' '.join(label.split())}]"
                text, span = (part.raw, part) if is_same else (part.content, None)
        found.append((text, span))
    return found
