"""The hypotheses of a beam search as a tree: live, finished and dropped ones."""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from keras_transformer.decoding.beam_trace import (
    CONTINUED,
    DROPPED,
    FINISHED,
    LIVE,
    BeamHistory,
    Hypothesis,
)
from keras_transformer.visualization.attention import plain_tokens
from keras_transformer.visualization.drawing import document, element, save, text_width, to_string

if TYPE_CHECKING:
    from keras_transformer.parsing.constituency_parser import ConstituencyParser
    from keras_transformer.translation.translator import Translator

_MARKS = {FINISHED: "✓", LIVE: "…", DROPPED: "✗"}
_COLORS = {CONTINUED: "text", FINISHED: "good", LIVE: "accent", DROPPED: "muted"}
_MEANINGS = {
    FINISHED: "finished, with its score",
    LIVE: "live when the search stopped, with its log-probability",
    DROPPED: "dropped: its continuations found no place in the beam",
}
_FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_ROW, _LETTER, _MARGIN = 18, 8, 12  # pixels: height of a line, width of a letter, margin


class BeamTree:
    """All hypotheses of a search. `print` shows them as text, a notebook as a picture.

    Args:
        history: a `BeamHistory`.
        names: dict of token id -> string. Defaults to the ids.
    """

    def __init__(self, history: BeamHistory, names: Mapping[int, str] | None = None):
        self.history = history
        self.names = names or {}
        self._children = defaultdict(list)
        for each in sorted(history.hypotheses, key=lambda each: -each.score):
            self._children[each.tokens[:-1]].append(each)
        self._of_results = {
            each.tokens[:length]
            for each in history.results
            for length in range(1, len(each.tokens) + 1)
        }

    def __repr__(self) -> str:
        counts = Counter(each.status for each in self.history.hypotheses)
        told = ", ".join(f"{counts[status]} {status}" for status in _MARKS)
        return f"<BeamTree of {self.history.num_steps} steps: {told}>"

    def __str__(self) -> str:
        """Return the tree as text of several lines.

        A line contains the tokens up to a branch. A finished hypothesis ends with ✓, its rank if it
        is a result, and its score. A dropped hypothesis ends with ✗, and a hypothesis that was live
        at the end with …, and their log-probabilities.
        """
        return "\n".join("".join(text for text, *_ in line) for line in self._lines())

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | os.PathLike) -> None:
        """Write the picture if the path ends with .svg, and the text if it ends with .txt.

        Raises:
            UserError: if it ends otherwise.
        """
        save(path, svg=self.svg, txt=self.__str__)

    def svg(self) -> str:
        """Return the text as an SVG picture for light and dark pages, with the results in green and
        the log-probability of each hypothesis as a tooltip.
        """
        meanings = [
            [(f"{mark} {_MEANINGS[status]}", _COLORS[status], "")]
            for status, mark in _MARKS.items()
        ]
        lines = [*self._lines(), [], *meanings]
        width = max(sum(text_width(text) for text, *_ in line) for line in lines)
        root = document(width * _LETTER + 2 * _MARGIN, len(lines) * _ROW + 2 * _MARGIN)
        frame = element(root, "g", font_family=_FONT, font_size=13)
        for number, line in enumerate(lines, start=1):
            row = element(frame, "text", x=_MARGIN, y=_MARGIN + number * _ROW)
            for text, color, tooltip in line:
                # Browsers collapse plain spaces.
                piece = element(row, "tspan", text.replace(" ", "\u00a0"), css=color)
                if tooltip:
                    element(piece, "title", tooltip)
        return to_string(root)

    def _lines(self) -> list[list[tuple[str, str, str]]]:
        """Return the lines of the tree: lists of pieces of text, their colors and tooltips."""
        lines: list[list[tuple[str, str, str]]] = []
        waiting: list[tuple[Hypothesis, str, bool | None]]
        waiting = [(child, "", None) for child in reversed(self._children[()])]
        while waiting:
            hypothesis, indent, is_last = waiting.pop()
            branch = "" if is_last is None else "└─ " if is_last else "├─ "
            line = [(indent + branch, "muted", ""), self._piece(hypothesis)]
            while len(children := self._children[hypothesis.tokens]) == 1:
                (hypothesis,) = children
                line += [(" ", "text", ""), self._piece(hypothesis)]
            lines.append([*line, (self._end(hypothesis), line[-1][1], "")])
            indent += "" if is_last is None else "   " if is_last else "│  "
            for child in reversed(children):
                waiting.append((child, indent, child is children[-1]))
        return lines

    def _piece(self, hypothesis: Hypothesis) -> tuple[str, str, str]:
        """Return the last token, its color and its tooltip."""
        is_result = hypothesis.tokens in self._of_results
        color = "good" if is_result else _COLORS[hypothesis.status]
        token_id = hypothesis.tokens[-1]
        name = self.names.get(token_id, str(token_id))
        return name, color, f"{hypothesis.status}, {hypothesis.score:.3f}"

    def _end(self, hypothesis: Hypothesis) -> str:
        if hypothesis.status == CONTINUED:
            return ""
        results = self.history.results
        rank = f" {results.index(hypothesis) + 1}." if hypothesis in results else ""
        return f" {_MARKS[hypothesis.status]}{rank} {hypothesis.score:.2f}"


def task_beam_tree(task: "Translator | ConstituencyParser", history: BeamHistory) -> BeamTree:
    """Return the `BeamTree` of a task's `BeamHistory`, with the names of its tokens."""
    used = sorted({token for each in history.hypotheses for token in each.tokens})
    return BeamTree(history, dict(zip(used, plain_tokens(task.output_tokens(used)))))
