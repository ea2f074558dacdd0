"""SVG pictures and HTML pages, for light and dark screens.

A picture has its own background, and follows the color scheme of the reader's system. All style
rules are limited to the class `kt`, so that several pictures can be in one page.
"""

import colorsys
import functools
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write

_FOLDER = Path(__file__).parent
_NAMESPACE = "http://www.w3.org/2000/svg"
ElementTree.register_namespace("", _NAMESPACE)
_TITLE_HEIGHT = 30  # pixels


class Theme(NamedTuple):
    """The colors of a picture."""

    background: str
    text: str
    muted: str  # lines and dropped hypotheses
    accent: str
    good: str
    bad: str
    missing: str


LIGHT = Theme("#ffffff", "#1f2328", "#8c959f", "#0b62c4", "#1a7f37", "#c9252d", "#a15c00")
DARK = Theme("#0d1117", "#e6edf3", "#7d8590", "#6cb6ff", "#57ab5a", "#ff7b72", "#e3a03a")
# Colors of heads, distinguishable on both backgrounds.
_COLORS = (
    *("#4c8dd6", "#e8833a", "#4fa65b", "#d9534f", "#9a72c7"),
    *("#a0705f", "#dd7fb9", "#8a8f94", "#b0ad33", "#35aebd"),
)


def colors(count: int) -> list[str]:
    """Return `count` colors as `#rrggbb`."""
    if count <= len(_COLORS):
        return list(_COLORS[:count])
    shades = (colorsys.hsv_to_rgb(i / count, 0.6, 0.85) for i in range(count))
    return ["#" + "".join(f"{round(255 * part):02x}" for part in shade) for shade in shades]


# Pictures


def document(width: float, height: float) -> ElementTree.Element:
    """Return the root element of a picture of a size in pixels, with a background."""
    size = {"width": str(round(width)), "height": str(round(height))}
    root = element(None, "svg", viewBox=f"0 0 {size['width']} {size['height']}", **size)
    return with_style(root)


def with_style(root: ElementTree.Element) -> ElementTree.Element:
    """Insert the colors and the background at the beginning of a picture."""
    root.set("class", "kt")
    style = element(None, "style", _color_style())
    background = element(None, "rect", width="100%", height="100%", css="background")
    root[:0] = [style, background]
    return root


def element(
    parent: ElementTree.Element | None, name: str, text: str | None = None, **attributes: Any
) -> ElementTree.Element:
    """Return a new element, appended to its parent if there is one.

    The argument `stroke_width` becomes the attribute `stroke-width`, and `css` becomes `class`.
    """
    names = {"css": "class"}
    values = {names.get(k, k.replace("_", "-")): str(v) for k, v in attributes.items()}
    new = ElementTree.Element(f"{{{_NAMESPACE}}}{name}", values)
    new.text = text and xml_text(text)
    if parent is not None:
        parent.append(new)
    return new


def stacked(
    pictures: Sequence[ElementTree.Element], titles: Sequence[str] = ()
) -> ElementTree.Element:
    """Return a picture of several, one below the other, each below its title if there are titles.

    Args:
        pictures: the root elements of the pictures, whose width and height are in pixels.
        titles: one per picture, or none.
    """
    sizes = [
        [float(picture.get(name, "0").removesuffix("px")) for name in ("width", "height")]
        for picture in pictures
    ]
    above = _TITLE_HEIGHT if titles else 0
    root = document(max(w for w, _ in sizes), sum(h + above for _, h in sizes))
    top = 0
    for number, (picture, (_, height)) in enumerate(zip(pictures, sizes)):
        if titles:
            place = {"x": 8, "y": top + 18, "font_family": "sans-serif", "font_size": 13}
            element(root, "text", titles[number], css="muted", **place)
        picture.set("y", str(top + above))
        root.append(picture)
        top += above + height
    return root


def to_string(root: ElementTree.Element) -> str:
    """Return the picture as a string of one line."""
    return ElementTree.tostring(root, encoding="unicode").replace("\n", " ")


def xml_text(text: str) -> str:
    """Return a text with U+FFFD in place of the characters that XML cannot contain."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", text)


def text_width(text: str) -> int:
    """Return the approximate width of a text in Latin letters; a Chinese character counts as 2."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


@functools.cache
def _color_style() -> str:
    """Return the CSS rules for classes of elements, and for svgling's colors."""

    def rules(theme: Theme) -> str:
        parts = [
            f".kt .background{{fill:{theme.background}}}",
            f".kt text{{fill:{theme.text};stroke:none}}.kt line{{stroke:{theme.muted}}}",
        ]
        for name in ("muted", "accent", "good", "bad", "missing"):
            color, own = getattr(theme, name), getattr(LIGHT, name)
            parts.append(f'.kt .{name},.kt text[fill="{own}"]{{fill:{color}}}')
            parts.append(f'.kt line[stroke="{own}"]{{stroke:{color}}}')
        return "".join(parts)

    return f"{rules(LIGHT)}@media (prefers-color-scheme: dark){{{rules(DARK)}}}"


# Pages and files


def page(title: str, sections: Iterable[str]) -> str:
    """Return an HTML page with the given sections, strings of HTML."""
    return filled("page.html", title=escape(title), sections="\n".join(sections))


def in_frame(html: str, height: int = 520) -> str:
    """Return a page in a frame for a notebook, which separates their styles and scripts."""
    grow = "this.style.height=this.contentDocument.documentElement.scrollHeight+'px'"
    return (
        f'<iframe srcdoc="{escape(html)}" onload="{grow}" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )


def scrolled(picture: str) -> str:
    """Return a picture as HTML that can be scrolled."""
    return f'<div class="scroll">{picture}</div>'


def filled(name: str, **values: str) -> str:
    """Return a file of this folder, with values in place of their names in double braces."""
    text = (_FOLDER / name).read_text("utf-8")
    for key, value in values.items():
        text = text.replace("{{" + key + "}}", value)
    return text


def save(path: str | os.PathLike, **contents: Callable[[], str]) -> None:
    """Write a text in the form that the ending of its path names.

    Args:
        path: the path of a file to write.
        **contents: ending, such as `svg` -> function without arguments that returns the text.

    Raises:
        UserError: if the path has another ending.
    """
    ending = os.path.splitext(path)[1].lower().removeprefix(".")
    if ending not in contents:
        raise UserError(
            f"`path` must end with .{' or .'.join(contents)}. Received: path={str(path)!r}"
        )
    text = contents[ending]()
    with atomic_write(path) as new:
        new.write_text(text if text.endswith("\n") else f"{text}\n", "utf-8")
