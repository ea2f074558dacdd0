"""SVG pictures for light and dark pages.

They have their own background, and follow the color scheme of the reader's system. All style rules
are limited to the class `kt`, so that several pictures can be in one HTML page.
"""

from typing import Any
from xml.etree import ElementTree

from keras_transformer.visualization.style import DARK, LIGHT

_NAMESPACE = "http://www.w3.org/2000/svg"
ElementTree.register_namespace("", _NAMESPACE)


def document(width: float, height: float) -> ElementTree.Element:
    """Return the root element of a picture of a size in pixels, with a background."""
    size = {"width": str(round(width)), "height": str(round(height))}
    root = element(None, "svg", viewBox=f"0 0 {size['width']} {size['height']}", **size)
    return with_style(root)


def with_style(root: ElementTree.Element) -> ElementTree.Element:
    """Insert the colors and the background at the beginning of a picture."""
    root.set("class", "kt")
    style, background = element(None, "style"), element(None, "rect", width="100%", height="100%")
    background.set("class", "background")
    style.text = _STYLE
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
    new.text = text
    if parent is not None:
        parent.append(new)
    return new


def to_string(root: ElementTree.Element) -> str:
    """Return the picture as a string of one line."""
    return ElementTree.tostring(root, encoding="unicode").replace("\n", " ")


def from_string(text: str) -> ElementTree.Element:
    """Return the root element of a picture."""
    return ElementTree.fromstring(text)


def _color_style():
    """Return the CSS rules for classes of elements, and for svgling's colors."""

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
