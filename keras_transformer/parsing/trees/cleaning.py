"""Removal of the parts of treebank trees that a parser does not predict."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from keras_transformer.parsing.trees.traversal import CLOSE, OPEN, is_leaf, walk

if TYPE_CHECKING:
    from nltk import Tree

TRACE = "-NONE-"
TOP = "TOP"
# The labels that treebanks and parsers put around a whole sentence.
ROOTS = frozenset({"", TOP, "ROOT", "S1"})

# A separator at the first position belongs to the label, as in the tags "-" and "=".
_BARE_LABEL = re.compile(r".[^-=|]*", re.DOTALL)


def clean_tree(tree: "Tree", collapse_unary: bool = False) -> "Tree | None":
    """Return a copy of a tree without traces, function tags, indices and outer bracket.

    - Traces (`-NONE-`) are removed, and so are the constituents that they leave empty.
    - Labels and tags are cut by `clean_label`.
    - Outer brackets that are empty or labelled TOP, ROOT or S1 are removed if one child is left in
      them. With more children the outer bracket stays, with the label TOP.

    Args:
        tree: a tree.
        collapse_unary: whether to remove unary loops. A loop is a chain of constituents with one
            child each that begins and ends with the same label. Only the lowest of them stays:
            `(NP (NP (NN dog)))` becomes `(NP (NN dog))`. Removed traces often leave a loop.

    Returns:
        The new tree, or None if the tree has only traces.

    Raises:
        UserError: if a word has no tag, or a constituent is empty to begin with.
    """
    from nltk import Tree

    # The kept children of the root and of each open constituent.
    done: list[list[Tree]] = [[]]
    for step, node in walk(tree):
        if step == OPEN:
            done.append([])
        elif step == CLOSE:
            children = done.pop()
            if children:
                kept = Tree(clean_label(node.label()), children)
                done[-1].append(_without_loop(kept) if collapse_unary else kept)
        elif node.label() != TRACE:
            done[-1].append(Tree(clean_label(node.label()), [node[0]]))
    return _without_outer_brackets(*done[0]) if done[0] else None


def _without_outer_brackets(root: "Tree") -> "Tree":
    while root.label() in ROOTS and not is_leaf(root):
        if len(root) > 1:
            root.set_label(TOP)
            break
        root = root[0]
    return root


@lru_cache(maxsize=4096)
def clean_label(label: str) -> str:
    """Return a label or tag without function tags and indices.

    Args:
        label: a label or tag, such as `NP-SBJ-1`, `NP=2` or `ADVP|PRT`.

    Returns:
        The text before the first `-`, `=` or `|`: `NP`, `NP` and `ADVP`. Labels that begin with
        `-`, such as `-LRB-`, are returned unchanged.
    """
    match = _BARE_LABEL.match(label)
    return label if match is None or label.startswith("-") else match[0]


def _without_loop(tree: "Tree") -> "Tree":
    """Return the lowest constituent of the same label in the unary chain below a constituent."""
    lower = tree
    while len(lower) == 1 and not is_leaf(lower[0]):
        lower = lower[0]
        if lower.label() == tree.label():
            return lower  # It is the lowest: loops below it were removed before.
    return tree
