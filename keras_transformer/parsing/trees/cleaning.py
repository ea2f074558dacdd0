"""Treebank trees without what a parser does not predict."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from keras_transformer.parsing.trees.traversal import CLOSE, OPEN, is_leaf, walk

if TYPE_CHECKING:
    from nltk import Tree

TRACE = "-NONE-"
TOP = "TOP"
# What treebanks and parsers put around a whole sentence.
ROOTS = frozenset({"", TOP, "ROOT", "S1"})

# A separator in the first place belongs to the label, as in the tag "-" or "=".
_BARE_LABEL = re.compile(r".[^-=|]*", re.DOTALL)


def clean_tree(tree: "Tree", collapse_unary: bool = False) -> "Tree | None":
    """Returns a copy of a tree without traces, function tags, indices and outer bracket.

    - Traces (`-NONE-`) go, and with them the constituents that they leave empty.
    - Labels and tags are cut as `clean_label` cuts them.
    - Outer brackets that are empty or labelled TOP, ROOT or S1 go if one child is left in them.
      With more children the outer bracket stays, labelled TOP.

    Args:
        tree: a tree.
        collapse_unary: whether to take unary loops out. A loop is a constituent whose only child,
            or that child's only child and so on, is a constituent of the same label. It gives way
            to that one: `(NP (NP (NN dog)))` becomes `(NP (NN dog))`. Traces often leave one.

    Returns:
        The new tree, or None where traces are all that the tree has.

    Raises:
        UserError: if a word has no tag, or a constituent is empty to begin with.
    """
    from nltk import Tree

    done: list[list[Tree]] = [[]]  # what is kept so far of the root and of each open constituent
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
    """Returns a label or tag without function tags and indices.

    Args:
        label: such as `NP-SBJ-1`, `NP=2` or `ADVP|PRT`.

    Returns:
        What stands before the first `-`, `=` or `|`: `NP`, `NP`, and of the alternatives `ADVP|PRT`
        the first. Labels that begin with `-`, such as `-LRB-`, are returned as they are.
    """
    if not label or label.startswith("-"):
        return label
    return _BARE_LABEL.match(label).group()


def _without_loop(tree: "Tree") -> "Tree":
    """The lowest constituent of the same label in the unary chain below a constituent."""
    lower = tree
    while len(lower) == 1 and not is_leaf(lower[0]):
        lower = lower[0]
        if lower.label() == tree.label():
            return lower  # There is none below it: it was asked before.
    return tree
