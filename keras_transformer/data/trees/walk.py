"""The steps of a walk around a tree."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from nltk import Tree

Step = Literal["open", "leaf", "close"]
OPEN, LEAF, CLOSE = "open", "leaf", "close"


def walk(tree: "Tree") -> Iterator[tuple[Step, "Tree"]]:
    """Goes around a tree from left to right, in a loop and not by recursion.

    Args:
        tree: a tree.

    Returns:
        An iterator over `("leaf", node)` for each leaf, and for each constituent `("open", node)`
        before its children and `("close", node)` after them.

    Raises:
        ValueError: if a word has no tag of its own, or a constituent is empty.
    """
    # The constituents around the present place from the root down, with their children to come.
    around: list[tuple[Tree, Iterator[Tree]]] = []
    node = tree
    while True:
        if isinstance(node, str):
            raise ValueError(
                f"A word of the tree has no tag of its own: {node!r}. Expected (TAG word)."
            )
        if is_leaf(node):
            yield LEAF, node
        elif len(node):
            around.append((node, iter(node)))
            yield OPEN, node
        else:
            raise ValueError(f"A constituent of the tree is empty: ({node.label()} ).")
        while around and (node := next(around[-1][1], None)) is None:
            yield CLOSE, around.pop()[0]
        if not around:
            return


def is_leaf(tree: "Tree") -> bool:
    """Whether a tree is a tag with its word."""
    if len(tree) != 1:
        return False
    (child,) = tree  # several times as fast as Tree's own indexing
    return isinstance(child, str)
