"""Figures 3 to 5 of the paper, for any model and sentence."""

import logging
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.errors import UserError
from keras_transformer.visualization.attention import KINDS, Attention, check_indices
from keras_transformer.visualization.style import (
    DPI,
    MAX_PIXELS,
    colors,
    figure_class,
    figure_style,
    font_families,
    save_figure,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

_STYLES = ("lines", "heatmap")
_FAINTEST = 0.01  # the smallest weight of a line that is drawn
# Inches: height of a line of text, width of a letter, width of a head's cell, distance of columns.
_LINE, _LETTER, _CELL, _BETWEEN = 0.25, 0.095, 0.14, 2.2
# Inches: height of the lowest line for a small letter, size of the smallest cell of a map.
_LOWEST_LINE, _SMALLEST_CELL = 0.13, 0.01
# Dots per inch at which small text is still readable.
_LOWEST_DPI = 72


def plot_attention(
    attention: Attention,
    kind: str = "encoder",
    layer: int = -1,
    heads: Sequence[int] | None = None,
    words: Sequence[str | int] | None = None,
    style: str = "lines",
    path: str | os.PathLike | None = None,
    dark: bool = False,
) -> "Figure":
    """Draw the attention of a layer (figures 3 to 5): lines between two columns, or heat maps.

    The color of a line shows its head, and its opacity the weight. With `words`, the weights of
    each head are also drawn next to the key tokens. Pictures have at most 40 million pixels: heat
    maps of long sentences have smaller cells and fewer labels, and PNG files have fewer dots per
    inch.

    ```python
    attention = kt.attention_weights(translator, "A dog runs.")
    plot_attention(attention, layer=2, heads=[0, 3], words=["dog"], path="dog.png")
    plot_attention(attention, kind="cross", style="heatmap", path="cross.svg")
    ```

    Args:
        attention: an `Attention`.
        kind: one of the three attentions: `"encoder"`, `"decoder"` or `"cross"`.
        layer: index of the layer, from 0; -1 is the last.
        heads: indices of the heads, from 0. Defaults to all.
        words: query tokens, or their positions, whose attention is drawn. Defaults to all.
        style: `"lines"`, or `"heatmap"`, one map per head.
        path: PNG or SVG file to write.
        dark: whether the picture is for a dark page.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        UserError: if there is no such kind, layer, head, word or style, or the path does not end
            with .png or .svg.
    """
    if style not in _STYLES:
        raise UserError(f"`style` must be one of {', '.join(_STYLES)}. Received: style={style!r}")
    queries, keys, weights = attention.of_kind(kind)
    num_layers, num_heads = weights.shape[:2]
    (layer,) = check_indices("layer", [layer], num_layers)
    heads = check_indices("heads", range(num_heads) if heads is None else heads, num_heads)
    rows = _positions(words, queries)
    draw = _draw_lines if style == "lines" else _draw_maps
    with figure_style(dark, font_families((*queries, *keys))) as theme:
        figure = draw(queries, keys, weights[layer], heads, rows, theme)
        figure.suptitle(f"{KINDS[kind]}, layer {layer}", fontsize="medium")
        save_figure(figure, path)
    return figure


def _positions(words, tokens):
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


def _draw_lines(queries, keys, weights, heads, rows, theme):
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    palette = colors(len(weights))
    # The width of the weights next to the keys of chosen words: one cell per head.
    cells = len(heads) * _CELL if len(rows) < len(queries) else 0
    left, right = (0.2 + _LETTER * max(map(text_width, tokens)) for tokens in (queries, keys))
    length = max(len(queries), len(keys))
    figure = figure_class()(
        figsize=(left + _BETWEEN + cells + right, _LINE * (length + 1.2) + 0.6),
        layout="constrained",
    )
    axes = figure.add_subplot()
    lines, shades = [], []
    for head in heads:
        for row in rows:
            for column in np.flatnonzero(weights[head, row] >= _FAINTEST):
                lines.append([(0, row), (_BETWEEN, column)])
                shades.append(to_rgba(palette[head], float(weights[head, row, column])))
    axes.add_collection(LineCollection(lines, colors=shades, linewidths=2))
    for row, token in enumerate(queries):
        color = theme.text if row in rows else theme.muted
        axes.text(-0.08, row, token, ha="right", va="center", color=color, parse_math=False)
    for column, token in enumerate(keys):
        for place, head in enumerate(heads if cells else ()):
            shade = to_rgba(palette[head], float(weights[head, rows, column].max()))
            corner = (_BETWEEN + 0.06 + place * _CELL, column - 0.4)
            axes.add_patch(_box(shade, corner, _CELL * 0.9, 0.8))
        at = _BETWEEN + 0.08 + cells
        axes.text(at, column, token, ha="left", va="center", parse_math=False)
    axes.set(xlim=(-left, _BETWEEN + cells + right), ylim=(length - 0.4, -0.6))
    axes.set_axis_off()
    handles = [_box(palette[head]) for head in heads]
    names = [f"head {head}" for head in heads]
    options = {"ncols": 4, "handlelength": 1, "handleheight": 1, "fontsize": "small"}
    figure.legend(handles, names, loc="outside lower center", **options)
    return figure


def _box(color, corner=(0.0, 0.0), width=1.0, height=1.0):
    from matplotlib.patches import Rectangle

    return Rectangle(corner, width, height, linewidth=0, facecolor=color)


def _draw_maps(queries, keys, weights, heads, rows, theme):
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("weight", [theme.background, theme.accent])
    columns = min(len(heads), 4)
    lines = math.ceil(len(heads) / columns)
    names = _LETTER * max(map(text_width, (*queries, *keys)))

    def size(cell):
        width = columns * (cell * len(keys) + 0.3) + names + 1
        return max(width, 3.5), lines * (cell * len(rows) + names + 0.4) + 0.4

    # The cells of many tokens shrink, at first with all labels, then with fewer labels.
    cell = _LINE
    for dpi, least in ((DPI, _LOWEST_LINE), (_LOWEST_DPI, _SMALLEST_CELL)):
        while cell > least and math.prod(size(cell)) * dpi**2 > MAX_PIXELS:
            cell = max(0.95 * cell, least)
    every = math.ceil(_LOWEST_LINE / cell)
    if every > 1:
        logger.warning(
            "The heat maps label only one in %d tokens. Draw fewer heads to label more.", every
        )
    figure = figure_class()(figsize=size(cell), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    options = {"fontsize": "small", "parse_math": False}
    for axes, head in zip(grid.flat, heads):
        image = axes.imshow(weights[head, rows], cmap=shades, vmin=0, vmax=1)
        axes.set_title(f"head {head}", fontsize="small")
        places = range(0, len(keys), every)
        axes.set_xticks(places, keys[::every], rotation=90, **options)
        places = range(0, len(rows), every)
        axes.set_yticks(places, [queries[row] for row in rows[::every]], **options)
        axes.tick_params(length=0)
        axes.spines[["top", "right"]].set_visible(True)
    for axes in list(grid.flat)[len(heads) :]:
        axes.set_axis_off()
    figure.colorbar(image, ax=grid, shrink=0.8, label="weight")
    return figure
