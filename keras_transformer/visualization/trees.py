"""Constituency trees as drawings of letters, and as pictures."""

import contextlib
import itertools
import math
import re

from keras_transformer.errors import UserError
from keras_transformer.visualization import svg
from keras_transformer.visualization.style import LIGHT

# Letters to an em. Where there is no Times, the font in its place is wider than svgling's 2, and
# long labels would be cut off.
_GLYPHS_OF_AN_EM = 1.5
_SIDES = ("width", "height")
_NOT_IN_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"  # in whatever form


@contextlib.contextmanager
def refuse_deep_trees():
    """Raise a `UserError` where nltk or svgling recurses through too many levels of a tree."""
    try:
        yield
    except RecursionError:
        raise UserError(
            "The tree has too many levels to be drawn. Expected a few hundred at most."
        ) from None


@refuse_deep_trees()
def tree_text(tree):
    """Draw a tree with letters.

    Args:
        tree: an `nltk.Tree`.

    Returns:
        A string of several lines.

    Raises:
        UserError: if the tree has too many levels.
    """
    from nltk.tree.prettyprinter import TreePrettyPrinter

    return TreePrettyPrinter(tree).text()


def tree_svg(tree, colours=None):
    """Draw a tree as an SVG picture, on light pages and on dark ones.

    Args:
        tree: an `nltk.Tree`.
        colours: dict of places in the tree, as `tree.treepositions()` gives them, -> `"good"`,
            `"bad"`, `"missing"`, `"accent"` or `"muted"`.

    Returns:
        A string of one line.

    Raises:
        UserError: if svgling is not installed, or the tree has too many levels.
    """
    return svg.to_string(drawn(tree, colours))


def trees_svg(trees):
    """Draw trees below one another in one SVG picture.

    Args:
        trees: list of `nltk.Tree`, at least one.

    Returns:
        A string of one line: of one tree, what `tree_svg` returns.

    Raises:
        UserError: if svgling is not installed.
    """
    pictures = [drawn(tree) for tree in trees]
    if len(pictures) == 1:
        return svg.to_string(pictures[0])
    sizes = [[float(x.get(side).removesuffix("px")) for side in _SIDES] for x in pictures]
    widths, heights = zip(*sizes)
    root = svg.document(math.ceil(max(widths)), math.ceil(sum(heights)))
    for picture, top in zip(pictures, itertools.accumulate(heights, initial=0)):
        picture.set("y", str(top))
        root.append(picture)
    return svg.to_string(root)


@refuse_deep_trees()
def drawn(tree, colours=None):
    """As `tree_svg`, the root of the picture."""
    svgling = load_svgling()
    drawing = svgling.draw_tree(_printable(tree), average_glyph_width=_GLYPHS_OF_AN_EM)
    for place, name in (colours or {}).items():
        colour = getattr(LIGHT, name)
        drawing.set_node_style(place, text_color=colour)
        if place:
            drawing.set_edge_style(place, svgling.core.EdgeStyle(stroke=colour))
    return svg.with_style(svg.from_string(drawing.get_svg().tostring()))


def load_svgling():
    """The package that lays trees out.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import svgling
    except ImportError as error:
        raise UserError(
            'SVG pictures of trees need svgling: pip install "keras-transformer[svg]".'
        ) from error
    return svgling


def _printable(node):
    """The same tree or word, without the control characters that XML cannot hold."""
    if isinstance(node, str):
        return re.sub(_NOT_IN_XML, "\ufffd", node)
    return type(node)(_printable(node.label()), map(_printable, node))
