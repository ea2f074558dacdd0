"""SVG pictures that look right on light pages and on dark ones.

They have a background of their own, and follow the color scheme that the reader's system asks for.
All rules of style are of the class `kt`, so that pictures can stand in one page of HTML.
"""

from typing import Any
from xml.etree import ElementTree

from keras_transformer.visualization.style import DARK, LIGHT

_NAMESPACE = "http://www.w3.org/2000/svg"
ElementTree.register_namespace("", _NAMESPACE)


def document(width: float, height: float) -> ElementTree.Element:
    """The root of a picture of such a size in pixels: an `Element`, with a background."""
    size = {"width": str(round(width)), "height": str(round(height))}
    root = element(None, "svg", viewBox=f"0 0 {size['width']} {size['height']}", **size)
    return with_style(root)


def with_style(root: ElementTree.Element) -> ElementTree.Element:
    """Give the root of a picture its background, first of all, and its colors."""
    root.set("class", "kt")
    style, background = element(None, "style"), element(None, "rect", width="100%", height="100%")
    background.set("class", "background")
    style.text = _STYLE
    root[:0] = [style, background]
    return root


def element(
    parent: ElementTree.Element | None, name: str, text: str | None = None, **attributes: Any
) -> ElementTree.Element:
    """A new element, the last of its parent if that is not None. Of `stroke_width` the attribute is
    `stroke-width`, and of `css` it is `class`.
    """
    names = {"css": "class"}
    values = {names.get(k, k.replace("_", "-")): str(v) for k, v in attributes.items()}
    new = ElementTree.Element(f"{{{_NAMESPACE}}}{name}", values)
    new.text = text
    if parent is not None:
        parent.append(new)
    return new


def to_string(root: ElementTree.Element) -> str:
    """The picture in one line."""
    return ElementTree.tostring(root, encoding="unicode").replace("\n", " ")


def from_string(text: str) -> ElementTree.Element:
    """The root of a picture."""
    return ElementTree.fromstring(text)


def _color_style():
    """What gives elements the colors that their classes, or svgling's colors, name."""

    def rules(theme):
        parts = [
            f".kt .background{{fill:{theme.background}}}",
            f".kt text{{fill:{theme.text};stroke:none}}.kt line,.kt path{{stroke:{theme.muted}}}",
        ]
        for name in ("muted", "accent", "good", "bad", "missing"):
            color, own = getattr(theme, name), getattr(LIGHT, name)
            parts.append(f'.kt text.{name},.kt text[fill="{own}"]{{fill:{color}}}')
            parts.append(f".kt line.{name},.kt path.{name},.kt .box.{name}{{stroke:{color}}}")
            parts.append(f'.kt line[stroke="{own}"]{{stroke:{color}}}')
        return "".join(parts)

    return f"{rules(LIGHT)}@media (prefers-color-scheme: dark){{{rules(DARK)}}}"


_STYLE = _color_style()
