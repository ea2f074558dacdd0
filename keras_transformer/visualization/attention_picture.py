"""Figures 3 to 5 of the paper, for any model and sentence."""

import itertools
from collections.abc import Sequence
from xml.etree import ElementTree

from keras_transformer.errors import UserError
from keras_transformer.visualization.attention import KINDS, Attention, validate_indices
from keras_transformer.visualization.drawing import colors, document, element, text_width, to_string

_FAINTEST = 0.01  # the smallest weight of a line that is drawn
# Pixels: height of a line of text, width of a letter, width of a head's cell, distance between the
# columns, margin, width of a head in the legend.
_ROW, _LETTER, _CELL, _BETWEEN, _MARGIN, _HEAD = 26, 9.2, 11, 240, 16, 80


def attention_svg(
    attention: Attention,
    kind: str = "encoder",
    layer: int = -1,
    heads: Sequence[int] | None = None,
    words: Sequence[str | int] | None = None,
) -> str:
    """Draw the attention of a layer as lines between two columns of tokens (figures 3 to 5).

    The color of a line shows its head, and its opacity the weight. With `words`, the weights of
    each head are also drawn next to the key tokens.

    ```python
    attention = kt.visualization.attention_weights(translator, "A dog runs.")
    picture = attention_svg(attention, "cross", layer=2, heads=[0, 3], words=["Hund"])
    ```

    Args:
        attention: an `Attention`.
        kind: one of the three attentions: `"encoder"`, `"decoder"` or `"cross"`.
        layer: index of the layer, from 0; -1 is the last.
        heads: indices of the heads, from 0. Defaults to all.
        words: query tokens, or their positions, whose attention is drawn. Defaults to all.

    Returns:
        An SVG picture for light and dark pages, a string of one line.

    Raises:
        UserError: if there is no such kind, layer, head or word.
    """
    queries, keys, weights = attention.of_kind(kind)
    num_layers, num_heads = weights.shape[:2]
    (layer,) = validate_indices("layer", [layer], num_layers)
    heads = validate_indices("heads", range(num_heads) if heads is None else heads, num_heads)
    rows = _positions(words, queries)
    shown, palette = weights[layer], colors(num_heads)
    # The cells next to the keys of chosen words: one per head.
    cells = _CELL * len(heads) if len(rows) < len(queries) else 0
    left = _MARGIN + _width(queries)
    right = left + _BETWEEN
    num_lines = max(len(queries), len(keys)) + 2
    width = max(right + cells + _width(keys), 2 * _MARGIN + min(4, len(heads)) * _HEAD)
    root = document(width, (num_lines + (len(heads) + 3) // 4) * _ROW)
    frame = element(root, "g", font_family="sans-serif", font_size=15)
    element(frame, "text", f"{KINDS[kind]}, layer {layer}", x=_MARGIN, y=_ROW - 8)
    for head, (row, column) in itertools.product(heads, itertools.product(rows, range(len(keys)))):
        if (weight := shown[head, row, column]) >= _FAINTEST:
            style = f"stroke:{palette[head]};stroke-opacity:{weight:.3f};stroke-width:2"
            ends = {"x1": left, "y1": _middle(row), "x2": right, "y2": _middle(column)}
            element(frame, "line", None, style=style, **ends)
    for row, token in enumerate(queries):
        place = {"x": left - 8, "y": _middle(row) + 5, "text_anchor": "end"}
        element(frame, "text", token, css="text" if row in rows else "muted", **place)
    for column, token in enumerate(keys):
        for place, head in enumerate(heads if cells else ()):
            weight = shown[head, rows, column].max()
            _draw_box(frame, right + 6 + place * _CELL, _middle(column), palette[head], weight)
        element(frame, "text", token, x=right + 8 + cells, y=_middle(column) + 5)
    for number, head in enumerate(heads):
        x, y = _MARGIN + number % 4 * _HEAD, _middle(num_lines - 1 + number // 4) - _ROW / 2
        _draw_box(frame, x, y, palette[head], 1)
        element(frame, "text", f"head {head}", x=x + _CELL + 5, y=y + 5)
    return to_string(root)


def _positions(words: Sequence[str | int] | str | int | None, tokens: list[str]) -> list[int]:
    """Return the sorted positions of words among tokens; all positions for None."""
    if words is None:
        return list(range(len(tokens)))
    positions = set()
    for word in [words] if isinstance(words, str | int) else words:
        found = [i for i, token in enumerate(tokens) if word in (i, token)]
        if not found:
            raise UserError(
                f"`words` must be among the tokens, or their positions: {tokens}. "
                f"Received: {word!r}"
            )
        positions.update(found)
    return sorted(positions)


def _draw_box(frame: ElementTree.Element, x: float, y: float, color: str, weight: float) -> None:
    shade = {"fill": color, "fill_opacity": f"{weight:.3f}"}
    element(frame, "rect", None, x=x, y=y - 9, width=_CELL - 1, height=18, **shade)


def _middle(row: int) -> float:
    """Return the y coordinate of the middle of a line of text."""
    return _ROW * (row + 1.5)


def _width(tokens: list[str]) -> float:
    return _MARGIN + _LETTER * max(map(text_width, tokens))
