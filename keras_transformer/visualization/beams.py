"""The hypotheses of a beam search as a tree: live, finished and dropped ones."""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keras_transformer.decoding.beam_trace import (
    CONTINUED,
    DROPPED,
    FINISHED,
    LIVE,
    BeamHistory,
    Hypothesis,
    replay,
)
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write
from keras_transformer.visualization import svg
from keras_transformer.visualization.attention import plain_tokens
from keras_transformer.visualization.style import ending_of

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
# Pixels: height of a line, width of a letter, gap between tokens, margin.
_ROW, _LETTER, _GAP, _MARGIN = 24, 8, 34, 12


class BeamTree:
    """All hypotheses of a search. `print` shows them as text, a notebook as a picture.

    Args:
        history: a `BeamHistory`.
        names: dict of token id -> string. Defaults to the ids.
    """

    def __init__(self, history: BeamHistory, names: Mapping[int, str] | None = None):
        self.history = history
        self.names = names or {}
        self._by_tokens = {each.tokens: each for each in history.hypotheses}
        self._children = defaultdict(list)
        for each in sorted(history.hypotheses, key=lambda each: -each.score):
            self._children[each.tokens[:-1]].append(each)
        self._of_results = {
            each.tokens[:length]
            for each in history.results
            for length in range(1, len(each.tokens) + 1)
        }

    def __repr__(self):
        counts = Counter(each.status for each in self.history.hypotheses)
        told = ", ".join(f"{counts[status]} {status}" for status in _MARKS)
        return f"<BeamTree of {self.history.num_steps} steps: {told}>"

    def __str__(self):
        return self.text()

    def _repr_svg_(self):
        return self.svg()

    def save(self, path: str | os.PathLike) -> None:
        """Write the picture if the path ends with .svg, and the text if it ends with .txt.

        Raises:
            UserError: if it ends otherwise.
        """
        text = self.svg() if ending_of(path, ".svg", ".txt") == ".svg" else self.text() + "\n"
        with atomic_write(path) as new:
            new.write_text(text, "utf-8")

    def text(self) -> str:
        """Return the tree as text of several lines.

        A line contains the tokens up to a branch. A finished hypothesis ends with ✓, its rank if it
        is a result, and its score. A dropped hypothesis ends with ✗, and a hypothesis that was live
        at the end with …, and their log-probabilities.
        """
        lines: list[str] = []
        waiting: list[tuple[Hypothesis, str, bool | None]]
        waiting = [(child, "", None) for child in reversed(self._children[()])]
        while waiting:
            hypothesis, indent, is_last = waiting.pop()
            tokens = [self._name(hypothesis)]
            while len(children := self._children[hypothesis.tokens]) == 1:
                (hypothesis,) = children
                tokens.append(self._name(hypothesis))
            branch = "" if is_last is None else "└─ " if is_last else "├─ "
            lines.append(f"{indent}{branch}{' '.join(tokens)}{self._end(hypothesis)}")
            indent += "" if is_last is None else "   " if is_last else "│  "
            for child in reversed(children):
                waiting.append((child, indent, child is children[-1]))
        return "\n".join(lines)

    def svg(self) -> str:
        """Return an SVG picture, from left to right, for light and dark pages."""
        rows, order = self._rows()
        starts = self._columns()
        widest = max(starts) + _LETTER * 16
        root = svg.document(max(widest, 620) + 2 * _MARGIN, (order + 4.5) * _ROW + 2 * _MARGIN)
        frame = svg.element(
            root, "g", font_family=_FONT, font_size=13, fill="none", stroke_width=1.3
        )
        for hypothesis in self._by_tokens.values():
            self._draw(frame, hypothesis, rows, starts)
        for number, (status, meaning) in enumerate(_MEANINGS.items()):
            y = _MARGIN + (order + 1.5 + number) * _ROW
            svg.element(frame, "text", f"{_MARKS[status]} {meaning}", x=_MARGIN, y=y,
                        css=_COLORS[status])  # fmt: skip
        return svg.to_string(root)

    def _draw(self, frame, hypothesis, rows, starts):
        """Draw a token, the line to it, and its status."""
        tokens, depth = hypothesis.tokens, len(hypothesis.tokens)
        x, y = _MARGIN + starts[depth - 1], _MARGIN + (rows[tokens] + 0.5) * _ROW
        color = _COLORS[hypothesis.status]
        if len(tokens) > 1:
            parent = self._by_tokens[tokens[:-1]]
            left = _MARGIN + starts[depth - 2] + _LETTER * len(self._name(parent)) + 4
            above = _MARGIN + (rows[tokens[:-1]] + 0.5) * _ROW
            bend = x - _GAP / 2
            path = f"M{left:.0f},{above:.0f} H{bend:.0f} V{y:.0f} H{x - 4:.0f}"
            on_the_way = "good" if tokens in self._of_results else "muted"
            svg.element(frame, "path", d=path, css=on_the_way)
        weight = {"font_weight": "bold"} if tokens in self._of_results else {}
        text = svg.element(
            frame, "text", self._name(hypothesis), x=f"{x:.0f}", y=f"{y + 4:.0f}", css=color,
            **weight,
        )  # fmt: skip
        title = svg.element(text, "title", f"{hypothesis.status}, {hypothesis.score:.3f}")
        title.tail = self._end(hypothesis)

    def _name(self, hypothesis):
        token_id = hypothesis.tokens[-1]
        return self.names.get(token_id, str(token_id))

    def _end(self, hypothesis):
        if hypothesis.status == CONTINUED:
            return ""
        results = self.history.results
        rank = f" {results.index(hypothesis) + 1}." if hypothesis in results else ""
        return f" {_MARKS[hypothesis.status]}{rank} {hypothesis.score:.2f}"

    def _rows(self):
        """Return the row of each hypothesis, and the number of rows. The best child has its
        parent's row."""
        rows, count, waiting = {}, 0, list(reversed(self._children[()]))
        while waiting:
            hypothesis = waiting.pop()
            rows[hypothesis.tokens] = count
            children = self._children[hypothesis.tokens]
            count += not children
            waiting += reversed(children)
        return rows, count

    def _columns(self):
        """Return the x coordinate of the tokens of each depth, and of the end of the last."""
        widths = defaultdict(int)
        for each in self.history.hypotheses:
            widths[len(each.tokens)] = max(widths[len(each.tokens)], len(self._name(each)))
        starts = [0]
        for depth in range(1, max(widths, default=0) + 1):
            starts.append(starts[-1] + widths[depth] * _LETTER + _GAP)
        return starts


def beam_tree(
    task: "Translator | ConstituencyParser", sentence: Any, num_results: int = 1
) -> BeamTree:
    """Run the search for a sentence, and return all hypotheses of the beam.

    ```python
    print(beam_tree(translator, "A dog runs."))
    beam_tree(translator, "A dog runs.", num_results=2).save("beam.svg")
    ```

    Args:
        task: a `Translator` or a `ConstituencyParser`, with a beam search.
        sentence: a sentence, as the task takes it.
        num_results: the number of outputs.

    Returns:
        A `BeamTree`. For a `Transformer`, use `BeamTree(replay(search, model, token_ids))` with
        `keras_transformer.decoding.beam_trace.replay`.

    Raises:
        UserError: if the task's search is stochastic, or the argument is not a sentence.
    """
    if not hasattr(task, "search_sentence"):
        raise UserError(
            "`task` must be a `Translator` or a `ConstituencyParser`. "
            f"Received: {type(task).__name__}"
        )
    _, history = task.search_sentence(sentence, num_results, run=replay)
    return task_beam_tree(task, history)


def task_beam_tree(task: "Translator | ConstituencyParser", history: BeamHistory) -> BeamTree:
    """Return the `BeamTree` of a task's `BeamHistory`, with the names of its tokens."""
    used = sorted({token for each in history.hypotheses for token in each.tokens})
    return BeamTree(history, dict(zip(used, plain_tokens(task.output_tokens(used)))))
