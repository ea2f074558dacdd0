"""Trees as sequences of symbols, the form in which a sequence model predicts them."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from keras_transformer.data.trees.walk import CLOSE, LEAF, OPEN, Step, walk

if TYPE_CHECKING:
    from nltk import Tree

# The tag in the place of all tags where they are not kept (Vinyals et al. 2015), and the tag of a
# word for which none was predicted.
UNKNOWN_TAG = "XX"

_LABEL = r"[^()\s]+"
_SYMBOLS = {
    OPEN: re.compile(rf"\(({_LABEL})", re.ASCII),
    LEAF: re.compile(rf"\(({_LABEL})\)", re.ASCII),
    CLOSE: re.compile(rf"\)({_LABEL})", re.ASCII),
}
_FORMS = {OPEN: "({}", LEAF: "({})", CLOSE: "){}"}


def linearize(tree: "Tree", keep_tags: bool = True) -> tuple[list[str], list[str]]:
    """Takes a tree apart into its words and its structure.

    The structure is a sequence of symbols: `(NP` opens a constituent, `)NP` closes it, and `(NN)`
    is a leaf with its tag. The words are not repeated in it: the n-th leaf stands for the n-th
    word. So `(S (NP (DT The) (NN dog)) (VP (VBZ runs)))` becomes

        ["The", "dog", "runs"]
        ["(S", "(NP", "(DT)", "(NN)", ")NP", "(VP", "(VBZ)", ")VP", ")S"]

    Args:
        tree: a tree, clean or not.
        keep_tags: whether a leaf bears its own tag. Otherwise each leaf is `(XX)`.

    Returns:
        The words and the symbols. `rebuild` makes the tree of them again.

    Raises:
        ValueError: if a label is empty or has a bracket or white space in it, if a word has no
            tag, or if a constituent is empty.
    """
    words, symbols = [], []
    for step, node in walk(tree):
        label = node.label()
        if step == LEAF:
            words.append(node[0])
            label = label if keep_tags else UNKNOWN_TAG
        symbols.append(_symbol(step, label))
    return words, symbols


def rebuild(words: Sequence[str], symbols: Sequence[str]) -> "Tree":
    """Puts a tree together that `linearize` took apart.

    Args:
        words: the words of the sentence.
        symbols: the symbols of the tree. For any others see `repair`.

    Returns:
        The tree.

    Raises:
        ValueError: if the symbols do not form exactly one tree over exactly these words.
    """
    from nltk import Tree

    around: list[tuple[str, list]] = [
        ("", [])
    ]  # the open constituents, inside a frame for the root
    num_leaves = 0
    for position, symbol in enumerate(symbols):
        step, label = parse_symbol(symbol)
        open_label, children = around[-1]
        if len(around) == 1 and children:
            raise _not_a_tree(f"symbol {position}, {symbol!r}, comes after the end of the tree")
        if step == OPEN:
            around.append((label, []))
        elif step == LEAF:
            if num_leaves == len(words):
                raise _not_a_tree(f"there are more leaves than the {len(words)} words")
            children.append(Tree(label, [words[num_leaves]]))
            num_leaves += 1
        elif step is None:
            raise _not_a_tree(f"symbol {position}, {symbol!r}, is none of '(NP', '(NN)' and ')NP'")
        elif label != open_label or not children:
            state = f"a {open_label} {'is open' if children else 'is empty'}"
            raise _not_a_tree(
                f"symbol {position}, {symbol!r}, comes where "
                f"{'nothing is open' if len(around) == 1 else state}"
            )
        else:
            around.pop()
            around[-1][1].append(Tree(label, children))
    if len(around) > 1:
        raise _not_a_tree(f"the {around[-1][0]} opened last is never closed")
    if num_leaves < len(words):
        raise _not_a_tree(f"there are {num_leaves} leaves for {len(words)} words")
    if not around[0][1]:
        raise _not_a_tree("there are neither symbols nor words")
    return around[0][1][0]


def _not_a_tree(problem: str) -> ValueError:
    return ValueError(
        f"The symbols are not one tree over the words: {problem}. `repair` makes a tree of any "
        "symbols."
    )


def symbol_inventory(trees: Iterable["Tree"], keep_tags: bool = True) -> list[str]:
    """The distinct symbols of some trees, for the vocabulary of a model.

    Args:
        trees: the trees.
        keep_tags: as for `linearize`.

    Returns:
        The symbols, sorted.

    Raises:
        ValueError: as `linearize`.
    """
    return sorted({symbol for tree in trees for symbol in linearize(tree, keep_tags)[1]})


def most_openings(trees: Iterable["Tree"]) -> int:
    """The most constituents of some trees that begin before one word, one within the other.

    Args:
        trees: the trees.

    Returns:
        Their number.
    """
    most = openings = 0
    for tree in trees:
        for step, _ in walk(tree):
            openings = openings + 1 if step == OPEN else 0
            most = max(most, openings)
    return most


@lru_cache(maxsize=4096)
def parse_symbol(symbol: str) -> tuple[Step | None, str]:
    """Tells what a symbol does.

    Args:
        symbol: any string.

    Returns:
        `("open", label)`, `("leaf", tag)` or `("close", label)`; `(None, "")` if it is no symbol
        of a tree.
    """
    for step, pattern in _SYMBOLS.items():
        if match := pattern.fullmatch(symbol):
            return step, match.group(1)
    return None, ""


@lru_cache(maxsize=4096)
def _symbol(step: Step, label: str) -> str:
    symbol = _FORMS[step].format(label)
    if parse_symbol(symbol) != (step, label):
        raise ValueError(
            "A label in a tree must be free of brackets and white space, and not empty. "
            f"Received: label={label!r}"
        )
    return symbol
