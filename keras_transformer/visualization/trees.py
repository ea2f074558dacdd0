"""Constituency trees as text and as SVG pictures, alone or compared with gold trees."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from xml.etree import ElementTree

from keras_transformer.errors import UserError
from keras_transformer.parsing.evalb import (
    MATCHED,
    UNMATCHED,
    find_differences,
)
from keras_transformer.parsing.evalb_inputs import Parameters
from keras_transformer.parsing.traversal import is_leaf
from keras_transformer.visualization.drawing import (
    LIGHT,
    save,
    scrolled,
    stacked,
    to_string,
    with_style,
    xml_text,
)

if TYPE_CHECKING:
    from nltk import Tree

# Letters per em. The fonts that replace a missing Times are wider than svgling's 2, and long labels
# would be cut off.
_GLYPHS_OF_AN_EM = 1.5
_MARK = "*"

# Of a node, as in `tree.treepositions()`.
Position: TypeAlias = tuple[int, ...]


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


def tree_svg(*trees: "Tree") -> str:
    """Draw one or more `nltk.Tree`, below one another, as an SVG picture for light and dark pages.

    Returns:
        A string of one line.

    Raises:
        UserError: if svgling is not installed, or a tree has too many levels.
    """
    pictures = [drawn(tree) for tree in trees]
    return to_string(pictures[0] if len(pictures) == 1 else stacked(pictures))


@refuse_deep_trees()
def drawn(tree: "Tree", colors: Mapping[Position, str] | None = None) -> ElementTree.Element:
    """Return the root element of the picture of a tree.

    Args:
        tree: an `nltk.Tree`.
        colors: dict of position -> `"bad"`, `"missing"` or another color of `Theme`.
    """
    svgling = load_svgling()
    drawing = svgling.draw_tree(_printable(tree), average_glyph_width=_GLYPHS_OF_AN_EM)
    for place, name in (colors or {}).items():
        color = getattr(LIGHT, name)
        drawing.set_node_style(place, text_color=color)
        if place:
            drawing.set_edge_style(place, svgling.core.EdgeStyle(stroke=color))
    return with_style(ElementTree.fromstring(drawing.get_svg().tostring()))


class Constituent(NamedTuple):
    """A bracket or a tag of a tree: its label, its words, and its position in the tree."""

    label: str
    words: tuple
    position: tuple

    def __str__(self) -> str:
        return f"{self.label} ({' '.join(self.words)})"


class TreeComparison:
    """EVALB's comparison of two trees: missing and wrong brackets and tags. `print` shows it as
    text, a notebook as HTML.

    ```python
    print(TreeComparison(gold, parser([gold.leaves()])[0]))
    ```

    Args:
        gold: the gold tree (`nltk.Tree`).
        predicted: the predicted tree.
        parameters: EVALB's `kt.parsing.Parameters`. Defaults to `COLLINS.prm`, which excludes
            punctuation and the root.

    Attributes:
        missing: list of the gold tree's `Constituent` that the predicted tree does not have.
        wrong: list of the predicted tree's `Constituent` that the gold tree does not have.
        wrong_tags: list of pairs of `Constituent`, the gold tag and the predicted tag of a word.
        num_matched: the number of constituents of both trees.
        message: EVALB's error if the words differ, for example by a wrong tag of a comma; then
            nothing is scored. Otherwise empty.

    Raises:
        UserError: if a word of a tree does not have its own tag, or a tree has too many levels.
    """

    @refuse_deep_trees()
    def __init__(self, gold: "Tree", predicted: "Tree", parameters: Parameters | None = None):
        parameters = parameters or Parameters.named("COLLINS")
        self.gold, self.predicted = gold, predicted
        differences = find_differences(gold, predicted, parameters)
        self.message = differences.message
        (constituents, tags), (others, other_tags) = map(_constituents, (gold, predicted))
        self.missing = _unmatched(constituents, differences.gold)
        self.wrong = _unmatched(others, differences.predicted)
        self.num_matched = differences.gold.count(MATCHED)
        self.wrong_tags = [
            pair
            for pair in zip(tags, other_tags)
            if not parameters.same_label(*(tag.label for tag in pair))
        ]

    def __str__(self) -> str:
        """Return both trees, with a star at each label that differs, and the differences."""
        gold_marks, predicted_marks = self._colors()
        parts = ["gold", tree_text(_marked(self.gold, gold_marks)), "parser"]
        parts += [tree_text(_marked(self.predicted, predicted_marks)), *self._lines()]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return f"<TreeComparison: {self._lines()[0]}>"

    def _repr_html_(self) -> str:
        lines = "<br>".join(map(escape, self._lines()))
        return f"{scrolled(self.svg())}<p>{lines}</p>"

    def svg(self) -> str:
        """Return an SVG picture of both trees, the gold tree above.

        Missing constituents are ochre in the gold tree, and wrong ones are red in the parser's.

        Raises:
            UserError: if svgling is not installed.
        """
        trees = (self.gold, self.predicted)
        pictures = [drawn(tree, colors) for tree, colors in zip(trees, self._colors())]
        return to_string(stacked(pictures, ["gold", "parser"]))

    def save(self, path: str | os.PathLike) -> None:
        """Write the picture if the path ends with .svg, and the text if it ends with .txt.

        Raises:
            UserError: if it ends otherwise.
        """
        save(path, svg=self.svg, txt=self.__str__)

    def _lines(self) -> list[str]:
        """Return the differences as lines of text."""
        yes, no, wrong = self.num_matched, len(self.missing), len(self.wrong)
        lines = [f"{yes} brackets are correct, {no} missing, {wrong} wrong"]
        if self.message:
            lines = [f"EVALB cannot compare the trees: {self.message}"]
        else:
            lines += [f"missing: {constituent}" for constituent in self.missing]
            lines += [f"wrong: {constituent}" for constituent in self.wrong]
        return lines + [
            f"tag: {gold.words[0]} is {gold.label}, not {tag.label}"
            for gold, tag in self.wrong_tags
        ]

    def _colors(self) -> tuple[dict[Position, str], dict[Position, str]]:
        """Return a dict of position -> color for each tree."""
        gold_tags, tags = zip(*self.wrong_tags) if self.wrong_tags else ((), ())
        return (
            {each.position: "missing" for each in (*self.missing, *gold_tags)},
            {each.position: "bad" for each in (*self.wrong, *tags)},
        )


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


def _printable(node: Any) -> Any:
    """Return the tree or word with U+FFFD in place of characters that XML cannot contain."""
    if isinstance(node, str):
        return xml_text(node)
    return type(node)(_printable(node.label()), map(_printable, node))


def _constituents(tree: "Tree") -> tuple[list[Constituent], list[Constituent]]:
    """Return the constituents of a tree, and its tags, each list from left to right."""
    found: tuple[list[Constituent], list[Constituent]] = ([], [])
    for place in tree.treepositions():
        node = tree[place]
        if not isinstance(node, str):
            found[is_leaf(node)].append(Constituent(node.label(), tuple(node.leaves()), place))
    return found


def _unmatched(constituents: list[Constituent], statuses: Sequence[str]) -> list[Constituent]:
    return [each for each, status in zip(constituents, statuses) if status == UNMATCHED]


@refuse_deep_trees()
def _marked(tree: "Tree", places: Iterable[Position]) -> "Tree":
    """Return the tree with a star at the labels of some positions."""
    tree = tree.copy(deep=True)
    for place in places:
        tree[place].set_label(f"{tree[place].label()}{_MARK}")
    return tree
