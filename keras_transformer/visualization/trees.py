"""Constituency trees as text and as SVG pictures, alone or compared with gold trees."""

import contextlib
import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write
from keras_transformer.parsing.evalb.evaluate import (
    MATCHED,
    UNMATCHED,
    find_differences,
)
from keras_transformer.parsing.evalb.parameters import Parameters
from keras_transformer.parsing.traversal import is_leaf
from keras_transformer.visualization import svg
from keras_transformer.visualization.style import LIGHT, ending_of

if TYPE_CHECKING:
    from nltk import Tree

# Letters per em. The fonts that replace a missing Times are wider than svgling's 2, and long labels
# would be cut off.
_GLYPHS_OF_AN_EM = 1.5
_SIDES = ("width", "height")
_NOT_IN_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"  # XML cannot contain them
_GAP = 40  # pixels between the trees
_MARK = "*"


@contextlib.contextmanager
def refuse_deep_trees() -> Iterator[None]:
    """Raise a `UserError` if nltk or svgling exceeds Python's recursion limit."""
    try:
        yield
    except RecursionError:
        raise UserError(
            "Cannot draw a tree with too many levels. Expected a few hundred at most."
        ) from None


@refuse_deep_trees()
def tree_text(tree: "Tree") -> str:
    """Draw a tree as text.

    Args:
        tree: an `nltk.Tree`.

    Returns:
        A string of several lines.

    Raises:
        UserError: if the tree has too many levels.
    """
    from nltk.tree.prettyprinter import TreePrettyPrinter

    return TreePrettyPrinter(tree).text()


def tree_svg(tree: "Tree", colors: Mapping[tuple[int, ...], str] | None = None) -> str:
    """Draw a tree as an SVG picture, for light and dark pages.

    Args:
        tree: an `nltk.Tree`.
        colors: dict of tree position, as in `tree.treepositions()`, -> `"good"`, `"bad"`,
            `"missing"`, `"accent"` or `"muted"`.

    Returns:
        A string of one line.

    Raises:
        UserError: if svgling is not installed, or the tree has too many levels.
    """
    return svg.to_string(drawn(tree, colors))


def trees_svg(trees: "Sequence[Tree]") -> str:
    """Draw trees below one another in one SVG picture.

    Args:
        trees: list of `nltk.Tree`, at least one.

    Returns:
        A string of one line; for one tree, the result of `tree_svg`.

    Raises:
        UserError: if svgling is not installed.
    """
    pictures = [drawn(tree) for tree in trees]
    if len(pictures) == 1:
        return svg.to_string(pictures[0])
    sizes = [[_pixels(picture, side) for side in _SIDES] for picture in pictures]
    widths, heights = zip(*sizes)
    root = svg.document(math.ceil(max(widths)), math.ceil(sum(heights)))
    for picture, top in zip(pictures, itertools.accumulate(heights, initial=0)):
        picture.set("y", str(top))
        root.append(picture)
    return svg.to_string(root)


@refuse_deep_trees()
def drawn(tree: "Tree", colors: Mapping[tuple[int, ...], str] | None = None) -> ElementTree.Element:
    """Return the root element of the picture of `tree_svg`."""
    svgling = load_svgling()
    drawing = svgling.draw_tree(_printable(tree), average_glyph_width=_GLYPHS_OF_AN_EM)
    for place, name in (colors or {}).items():
        color = getattr(LIGHT, name)
        drawing.set_node_style(place, text_color=color)
        if place:
            drawing.set_edge_style(place, svgling.core.EdgeStyle(stroke=color))
    return svg.with_style(svg.from_string(drawing.get_svg().tostring()))


class Constituent(NamedTuple):
    """A bracket of a tree: its label, its words, and its position in the tree."""

    label: str
    words: tuple
    position: tuple

    def __str__(self):
        return f"{self.label} ({' '.join(self.words)})"


class TreeComparison:
    """EVALB's comparison of two trees. `print` shows it as text, a notebook as HTML.

    Args:
        gold: the gold tree (`nltk.Tree`).
        predicted: the predicted tree.
        parameters: EVALB's `Parameters`.

    Attributes:
        missing: list of the gold tree's `Constituent` that the predicted tree does not have.
        wrong: list of the predicted tree's `Constituent` that the gold tree does not have.
        wrong_tags: list of `(word, gold tag, predicted tag)`.
        num_matched: the number of constituents of both trees.
        message: EVALB's error if the words differ, for example by a wrong tag of a comma; then
            nothing is scored. Otherwise empty.
    """

    @refuse_deep_trees()
    def __init__(self, gold: "Tree", predicted: "Tree", parameters: Parameters):
        self.gold, self.predicted = gold, predicted
        differences = find_differences(gold, predicted, parameters)
        self.message = differences.message
        self.missing = _unmatched(gold, differences.gold)
        self.wrong = _unmatched(predicted, differences.predicted)
        self.num_matched = differences.gold.count(MATCHED)
        pairs = zip(_leaves(gold), _leaves(predicted))
        self._wrong_leaves = [
            (place, other)
            for place, other in pairs
            if not parameters.same_label(gold[place].label(), predicted[other].label())
        ]
        self.wrong_tags = [
            (gold[place][0], gold[place].label(), predicted[other].label())
            for place, other in self._wrong_leaves
        ]

    def __str__(self):
        """Return both trees, with a star at each label that differs, and the differences."""
        gold_marks, predicted_marks = self._colors()
        parts = ["gold", tree_text(_marked(self.gold, gold_marks)), "parser"]
        parts += [tree_text(_marked(self.predicted, predicted_marks)), *self._lines()]
        return "\n".join(parts)

    def __repr__(self):
        return f"<TreeComparison: {self._lines()[0]}>"

    def _repr_html_(self):
        lines = "<br>".join(map(escape, self._lines()))
        return f'<div class="scroll">{self.svg()}</div><p>{lines}</p>'

    def svg(self) -> str:
        """Return an SVG picture of both trees, side by side.

        Missing constituents are ochre in the gold tree, and wrong ones are red in the parser's.

        Raises:
            UserError: if svgling is not installed.
        """
        trees = (self.gold, self.predicted)
        pictures = [drawn(tree, colors) for tree, colors in zip(trees, self._colors())]
        sizes = [[_pixels(picture, side) for side in _SIDES] for picture in pictures]
        (left, _), (right, _) = sizes
        root = svg.document(left + _GAP + right, max(height for _, height in sizes) + 30)
        frame = svg.element(root, "g", font_family="sans-serif", font_size=13)
        for x, title, picture in zip((0, left + _GAP), ("gold", "parser"), pictures):
            svg.element(frame, "text", title, x=x + 8, y=18, css="muted")
            picture.set("x", str(x))
            picture.set("y", "30")
            root.append(picture)
        return svg.to_string(root)

    def save(self, path: str | os.PathLike) -> None:
        """Write the picture if the path ends with .svg, and the text if it ends with .txt.

        Raises:
            UserError: if it ends otherwise.
        """
        text = self.svg() if ending_of(path, ".svg", ".txt") == ".svg" else f"{self}\n"
        with atomic_write(path) as new:
            new.write_text(text, "utf-8")

    def _lines(self):
        """Return the differences as lines of text."""
        yes, no, wrong = self.num_matched, len(self.missing), len(self.wrong)
        lines = [f"{yes} brackets are correct, {no} missing, {wrong} wrong"]
        if self.message:
            lines = [f"EVALB cannot compare the trees: {self.message}"]
        else:
            lines += [f"missing: {constituent}" for constituent in self.missing]
            lines += [f"wrong: {constituent}" for constituent in self.wrong]
        return lines + [f"tag: {w} is {gold}, not {tag}" for w, gold, tag in self.wrong_tags]

    def _colors(self):
        """Return a dict of position -> color for each tree."""
        gold = {place: "missing" for place, _ in self._wrong_leaves}
        predicted = {place: "bad" for _, place in self._wrong_leaves}
        gold.update({each.position: "missing" for each in self.missing})
        predicted.update({each.position: "bad" for each in self.wrong})
        return gold, predicted


def compare_trees(
    gold: "Tree", predicted: "Tree", parameters: Parameters | None = None
) -> TreeComparison:
    """Compare a predicted tree with the gold tree: find missing and wrong brackets.

    ```python
    print(compare_trees(gold, parser([gold.leaves()])[0]))
    ```

    Args:
        gold: an `nltk.Tree`.
        predicted: an `nltk.Tree`.
        parameters: EVALB's `kt.parsing.Parameters`. Defaults to `COLLINS.prm`, which excludes
            punctuation and the root.

    Returns:
        A `TreeComparison`.

    Raises:
        UserError: if a word of a tree does not have its own tag, or a tree has too many levels.
    """
    return TreeComparison(gold, predicted, parameters or Parameters.named("COLLINS"))


def load_svgling() -> ModuleType:
    """Import svgling, which computes the layout of trees.

    Raises:
        UserError: if svgling is not installed.
    """
    try:
        import svgling
    except ImportError as error:
        raise UserError(
            "SVG pictures of trees require svgling. Install it: pip install svgling"
        ) from error
    return svgling


def _printable(node):
    """Return the tree or word with U+FFFD in place of characters that XML cannot contain."""
    if isinstance(node, str):
        return re.sub(_NOT_IN_XML, "\ufffd", node)
    return type(node)(_printable(node.label()), map(_printable, node))


def _pixels(picture, name):
    return float(picture.get(name).removesuffix("px"))


def _unmatched(tree, statuses):
    """Return the constituents that the other tree does not have."""
    places = [place for place in tree.treepositions() if _is_constituent(tree, place)]
    return [
        Constituent(tree[place].label(), tuple(tree[place].leaves()), place)
        for place, status in zip(places, statuses)
        if status == UNMATCHED
    ]


def _leaves(tree):
    """Return the positions of the tags, from left to right."""
    return [place[:-1] for place in tree.treepositions("leaves")]


def _is_constituent(tree, place):
    node = tree[place]
    return not isinstance(node, str) and not is_leaf(node)


@refuse_deep_trees()
def _marked(tree, places):
    """Return the tree with a star at the labels of some positions."""
    tree = tree.copy(deep=True)
    for place in places:
        tree[place].set_label(f"{tree[place].label()}{_MARK}")
    return tree
