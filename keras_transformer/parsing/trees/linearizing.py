"""Functions of the linearisation that is the package's own, `LabelledBrackets`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from keras_transformer.parsing.trees.linearization import (
    LABELLED_BRACKETS,
    LabelledBrackets,
    Linearization,
)
from keras_transformer.parsing.trees.traversal import LEAF, OPEN, Step, walk

if TYPE_CHECKING:
    from nltk import Tree


def linearize(tree: "Tree", keep_tags: bool = True) -> tuple[list[str], list[str]]:
    """Takes a tree apart into its words and its symbols: `LabelledBrackets.linearize`.

    Args:
        tree: a tree, clean or not.
        keep_tags: whether a leaf bears its own tag. Otherwise each leaf is `(XX)`.

    Returns:
        The words and the symbols. `rebuild` makes the tree of them again.

    Raises:
        UserError: if a label is empty or has a bracket or white space in it, if a word has no
            tag, or if a constituent is empty.
    """
    return LabelledBrackets(keep_tags).linearize(tree)


def rebuild(words: Sequence[str], symbols: Sequence[str]) -> "Tree":
    """Puts a tree together that `linearize` took apart: `LabelledBrackets.rebuild`.

    Args:
        words: the words of the sentence.
        symbols: the symbols of the tree. For any others see `repair`.

    Returns:
        The tree.

    Raises:
        UserError: if the symbols do not form exactly one tree over exactly these words.
    """
    return LABELLED_BRACKETS.rebuild(words, symbols)


def symbol_inventory(trees: Iterable["Tree"], keep_tags: bool = True) -> list[str]:
    """The distinct symbols of some trees: `LabelledBrackets.inventory`.

    Args:
        trees: the trees.
        keep_tags: as for `linearize`.

    Returns:
        The symbols, sorted.

    Raises:
        UserError: as `linearize`.
    """
    return LabelledBrackets(keep_tags).inventory(trees)


def parse_symbol(symbol: str) -> tuple[Step | None, str]:
    """Tells what a symbol does: `LabelledBrackets.step_of`.

    Args:
        symbol: any string.

    Returns:
        `("open", label)`, `("leaf", tag)` or `("close", label)`; `(None, "")` if it is no symbol
        of a tree.
    """
    step, label = LABELLED_BRACKETS.step_of(symbol)
    return step, label or ""


def most_openings(trees: Iterable["Tree"], linearization: Linearization = LABELLED_BRACKETS) -> int:
    """The most constituents of some trees that are opened between one word and the next.

    Args:
        trees: the trees.
        linearization: in whose order they are opened: top-down, those that begin before a word, one
            within the other; in-order, those whose first child ends with a word.

    Returns:
        Their number.
    """
    most = 0
    for tree in trees:
        openings = 0
        for step, _ in walk(tree, linearization.order):
            openings = 0 if step == LEAF else openings + (step == OPEN)
            most = max(most, openings)
    return most
