"""The colors and fonts of pictures, for light pages and for dark ones."""

import contextlib
import functools
import io
import logging
import math
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

DPI = 150  # dots per inch of a file
MAX_PIXELS = 40e6  # of a PNG file: 160 MB in memory, and a few seconds


class Theme(NamedTuple):
    """The colors of a picture."""

    background: str
    text: str
    muted: str  # grids and dropped hypotheses
    accent: str
    good: str
    bad: str
    missing: str


LIGHT = Theme("#ffffff", "#1f2328", "#8c959f", "#0b62c4", "#1a7f37", "#c9252d", "#a15c00")
DARK = Theme("#0d1117", "#e6edf3", "#7d8590", "#6cb6ff", "#57ab5a", "#ff7b72", "#e3a03a")
# Colors of heads and lines, distinguishable on both backgrounds.
COLORS = (
    *("#4c8dd6", "#e8833a", "#4fa65b", "#d9534f", "#9a72c7"),
    *("#a0705f", "#dd7fb9", "#8a8f94", "#b0ad33", "#35aebd"),
)


def colors(count: int) -> list[str]:
    """Return `count` colors as `#rrggbb`."""
    if count <= len(COLORS):
        return list(COLORS[:count])
    import colorsys

    shades = (colorsys.hsv_to_rgb(i / count, 0.6, 0.85) for i in range(count))
    return ["#" + "".join(f"{round(255 * part):02x}" for part in shade) for shade in shades]


@contextlib.contextmanager
def figure_style(dark: bool = False, families: Sequence[str] | None = None) -> Iterator[Theme]:
    """Set the colors of matplotlib's figures within the block, and return the `Theme`.

    Args:
        dark: whether pictures are for a dark page.
        families: list of fonts, from `font_families`. Defaults to matplotlib's own.
    """
    import matplotlib
    from cycler import cycler

    theme = DARK if dark else LIGHT
    own: dict[Any, Any] = {
        "figure.facecolor": theme.background,
        "axes.facecolor": theme.background,
        "axes.edgecolor": theme.muted,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "grid.color": theme.muted,
        "grid.alpha": 0.3,
        "legend.frameon": False,
        "axes.prop_cycle": cycler(color=COLORS),
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"),
            theme.text,
        ),
    }
    if families:
        own["font.family"] = families
    with matplotlib.rc_context(own):
        yield theme


@contextlib.contextmanager
def picture(
    size: tuple[float, float], path: str | os.PathLike | None = None, dark: bool = False
) -> Iterator["Figure"]:
    """Make a `matplotlib.figure.Figure` of a size in inches, and save it after the block."""
    with figure_style(dark):
        figure = figure_class()(figsize=size, layout="constrained")
        yield figure
        save_figure(figure, path)


def ending_of(path: str | os.PathLike, *endings: str) -> str:
    """Return the ending of a path in small letters.

    Args:
        path: the path of a file to write.
        *endings: the endings of the formats that there are, such as `".svg"`.

    Raises:
        UserError: if the path has another ending.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in endings:
        raise UserError(
            f"`path` must end with {' or '.join(endings)}. Received: path={str(path)!r}"
        )
    return ending


@functools.cache
def figure_class() -> "type[Figure]":
    """Return a class of figures that a notebook shows, even if it has not imported pyplot."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self):
            content = io.BytesIO()
            self.savefig(content, format="png")
            return content.getvalue()

    return NotebookFigure


def save_figure(figure: "Figure", path: str | os.PathLike | None) -> None:
    """Write a figure as PNG or SVG, by the path's ending, if there is a path.

    A figure has 150 dots per inch, or fewer if it would have more than `MAX_PIXELS`.

    Raises:
        UserError: if the path does not end with .png or .svg.
    """
    dpi = math.sqrt(MAX_PIXELS / math.prod(figure.get_size_inches()))
    figure.set_dpi(min(figure.dpi, dpi))  # for a notebook
    if path is None:
        return
    if ending_of(path, ".png", ".svg") == ".png" and dpi < DPI:
        logger.warning(
            "%s has %d dots per inch instead of %d, to limit its number of pixels. For larger "
            "text, draw fewer words or heads, or write an SVG file.",
            path,
            dpi,
            DPI,
        )
    figure.savefig(path, dpi=min(dpi, DPI))


def font_families(texts: Iterable[str]) -> list[str]:
    """Return the names of installed fonts that have all letters of some texts.

    Matplotlib's own font does not have Chinese letters, for example. Other fonts are searched only
    for missing letters.

    Args:
        texts: iterable of strings.

    Returns:
        A list for matplotlib's `font.family`, beginning with its own fonts. The first font that
        has a letter draws it.
    """
    import matplotlib
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    families = list(matplotlib.rcParams["font.family"])
    lacking = set(map(ord, "".join(texts))) - _letters(findfont(FontProperties()))
    # Prefer faces that are neither bold nor slanted. "Last Resort" draws a box for every letter.
    fonts = (font for font in fontManager.ttflist if not font.name.startswith("Last Resort"))
    plainest = sorted(fonts, key=_distance_from_plain)
    for font in plainest:
        if not lacking:
            break
        if found := lacking & _letters(font.fname):
            families.append(font.name)
            lacking -= found
    return families


def _distance_from_plain(font):
    weight = font.weight if isinstance(font.weight, int) else 1000  # a weight with a name
    return font.style != "normal", abs(weight - 400)


def text_width(text: str) -> int:
    """Return the approximate width of a text in Latin letters; a Chinese character counts as 2."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


@functools.cache
def _letters(path):
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(path).get_charmap())
