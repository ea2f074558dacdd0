"""Markdown: a paragraph, a heading and a cell of a table are units."""

import re
from collections.abc import Iterator
from itertools import pairwise

from keras_transformer.documents.document import TextDocument, required

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*\r?$", re.DOTALL | re.MULTILINE)
# The beginning of a footnote, a task, an alert or a definition.
_LABEL = re.compile(r"(?:\[\^[^\]]+\]:|\[[ xX]\](?=[ \t])|\[![A-Za-z]+\]|:(?=[ \t]))[ \t]*")
# The beginnings of lines that would begin another block, or underline a heading.
_BLOCK = re.compile(r"(?:[>+*=|~-]|#{1,6}|\d+[.)])(?=[\s=~-]|$)")
_KEPT = re.compile(r"(`+)[^`].*?\1|\]\([^()\s]*|\]\[[^\]]*\]", re.DOTALL)
_HARD_BREAK = re.compile(r" {2,}$|(?<!\\)(?:\\\\)*\\$")

Span = tuple[int, int]


class Markdown(TextDocument):
    """A Markdown file (CommonMark and tables), whose blocks markdown-it-py finds."""

    markup = "markdown"

    def _find_units(self) -> None:
        markdown_it = required("markdown_it", "markdown-it-py")
        self._check_lines()
        front = _FRONT_MATTER.match(self.text)
        start = front.end() if front else 0
        lines = []
        for end in re.finditer(r"\r\n?|\n|\Z", self.text[start:]):
            lines.append((lines[-1][2] if lines else start, start + end.start(), start + end.end()))
        self._lines = lines
        self._found: list[tuple[list[Span], bool]] = []  # lines of units; whether they are cells
        parser = markdown_it.MarkdownIt("commonmark").enable("table")
        parser.core.ruler.enableOnly(["normalize", "block"])
        block, cell = "", (-1, 0)  # the last line of a table, and the end of its last cell
        for token in parser.parse(self.text[start:]):
            if token.type != "inline":
                self.skipped["code and HTML blocks"] += token.type in _UNTOUCHED
                block = token.type
                continue
            is_cell = block in ("td_open", "th_open")
            first = token.map[0]
            begin = max(lines[first][0], cell[1] if cell[0] == first else 0)
            rows = self._placed(token.content.split("\n"), first, begin, is_cell)
            if rows is None:
                self.skipped["in an unusual place"] += 1
                continue
            if is_cell and rows:
                cell = (first, rows[-1][1])
            for group in self._groups(rows):
                span = group[0][0], group[-1][1]
                if self._add("\n".join(self.text[a:b] for a, b in group), span):
                    self._found.append((group, is_cell))

    def _placed(self, contents: list[str], first: int, begin: int, is_cell: bool):
        """Return the places of the lines of a block, without marks such as `>` and `#`, or None."""
        rows = []
        for number, content in enumerate(map(str.strip, contents), first):
            start, stop, _ = self._lines[number]
            place = self.text.rfind(content, start, stop)
            if is_cell:
                if content not in self.text[begin:stop]:
                    content = content.replace("|", r"\|")
                place = self.text.find(content, begin, stop)
            if place < 0:
                return None
            rows.append((place, place + len(content)))
        if rows and (label := _LABEL.match(self.text, *rows[0])):
            rows[0] = label.end(), rows[0][1]
        return [row for row in rows if row[0] < row[1]]

    def _groups(self, rows: list[Span]) -> Iterator[list[Span]]:
        """Divide the lines of a block at its hard line breaks."""
        group = []
        for start, stop in rows:
            end = re.compile(r"[ \t]*").match(self.text, stop).end()  # type: ignore[union-attr]
            hard = _HARD_BREAK.search(self.text[start:end])
            if hard:
                stop = start + len(self.text[start : min(stop, start + hard.start())].rstrip())
            group.append((start, stop))
            if hard:
                yield group
                group = []
        if group:
            yield group

    def _replacement(self, index: int, translation: str) -> str:
        (rows, is_cell), unit = self._found[index], self.units[index]
        kept, found = (sorted(x[0] for x in _KEPT.finditer(text)) for text in (unit, translation))
        if kept != found:
            self.skipped["with other code or links after translation"] += 1
            return self.text[slice(*self._places[index])]
        lines = [line.strip() for line in translation.split("\n")]
        if len(lines) != len(rows):
            width = max(stop - start for start, stop in rows) if len(rows) > 1 else None
            lines = _wrapped(" ".join(translation.split()), width)
        if is_cell:
            lines = [re.sub(r"(?<!\\)\|", r"\\|", line) for line in lines]
        between = [self.text[a[1] : b[0]] for a, b in pairwise(rows)]
        parts = []
        for number, line in enumerate(lines):
            source = self.text[slice(*rows[min(number, len(rows) - 1)])]
            if (start := _BLOCK.match(line)) and not _BLOCK.match(source):
                line = f"{line[: start.end() - 1]}\\{line[start.end() - 1 :]}"
            parts += [between[min(number, len(between)) - 1] if number else "", line]
        return "".join(parts)


_UNTOUCHED = ("fence", "code_block", "html_block")


def _wrapped(text: str, width: int | None) -> list[str]:
    """Divide a text into lines, before words with a first letter, which cannot begin a block."""
    if width is None:
        return [text]
    lines = [""]
    for part in re.split(r"\s(?=[^\W\d_])", text):
        if lines[-1] and len(lines[-1]) + 1 + len(part) > width:
            lines.append(part)
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    return lines
