"""The steps of a walk around a tree."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from nltk import Tree

Step = Literal["open", "leaf", "close"]
OPEN, LEAF, CLOSE = "open", "leaf", "close"
# What a symbol of a linearised tree does: a step, and the label or tag of the constituent or leaf.
# Some symbols close a constituent of any label (None). The step of what is no symbol is None.
LabelledStep = tuple[Step | None, str | None]
# Where a constituent is opened: before its first child, or after it.
Order = Literal["top-down", "in-order"]
TOP_DOWN, IN_ORDER = "top-down", "in-order"


def walk(tree: "Tree", order: Order = TOP_DOWN) -> Iterator[tuple[Step, "Tree"]]:
    """Goes around a tree from left to right, in a loop and not by recursion.

    Args:
        tree: a tree.
        order: `"top-down"`, or `"in-order"`.

    Returns:
        An iterator over `("leaf", node)` for each leaf, and for each constituent `("open", node)`
        before its children, or in-order after the first of them, and `("close", node)` after all.

    Raises:
        UserError: if a word has no tag of its own, or a constituent is empty.
    """
    return _in_order(_top_down(tree)) if order == IN_ORDER else _top_down(tree)


def _top_down(tree: "Tree") -> Iterator[tuple[Step, "Tree"]]:
    # The constituents around the present place from the root down, with their children to come.
    around: list[tuple[Tree, Iterator[Tree]]] = []
    node = tree
    while True:
        if isinstance(node, str):
            raise UserError(
                f"A word of the tree has no tag of its own: {node!r}. Expected (TAG word)."
            )
        if is_leaf(node):
            yield LEAF, node
        elif len(node):
            around.append((node, iter(node)))
            yield OPEN, node
        else:
            raise UserError(f"A constituent of the tree is empty: ({node.label()} ).")
        while around and (node := next(around[-1][1], None)) is None:
            yield CLOSE, around.pop()[0]
        if not around:
            return


def _in_order(steps: Iterable[tuple[Step, "Tree"]]) -> Iterator[tuple[Step, "Tree"]]:
    """Steps from the top down, with each constituent opened after its first child."""
    depth = 0
    waiting: list[tuple[int, Tree]] = []  # the constituents without a child yet, by their depth
    for step, node in steps:
        if step == OPEN:
            depth += 1
            waiting.append((depth, node))
            continue
        if step == CLOSE:
            depth -= 1
        yield step, node
        # A child is complete: is it the first of the constituent around it?
        if waiting and waiting[-1][0] == depth:
            yield OPEN, waiting.pop()[1]


def tagged_words(tree: "Tree") -> list[tuple[str, str]]:
    """Return the words of a tree with their tags, as `tree.pos()` does by recursion.

    Args:
        tree: a tree.

    Returns:
        A list of pairs (word, tag).

    Raises:
        UserError: if a word has no tag of its own, or a constituent is empty.
    """
    return [(node[0], node.label()) for step, node in walk(tree) if step == LEAF]


def is_leaf(tree: "Tree") -> bool:
    """Whether a tree is a tag with its word."""
    if len(tree) != 1:
        return False
    (child,) = tree  # several times as fast as Tree's own indexing
    return isinstance(child, str)
