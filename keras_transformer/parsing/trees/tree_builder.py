"""Trees from the steps of a linearisation, which must be exactly one tree."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_transformer.errors import UserError
from keras_transformer.parsing.trees.traversal import IN_ORDER, LEAF, OPEN, TOP_DOWN, Order, Step

if TYPE_CHECKING:
    from nltk import Tree


def new_reader(order: Order, words: Sequence[str]) -> "TopDownReader":
    """What puts a tree together step by step.

    Args:
        order: that of the steps.
        words: the words of the sentence.
    """
    return {TOP_DOWN: TopDownReader, IN_ORDER: InOrderReader}[order](words)


class TopDownReader:
    """Puts one tree together from steps in which constituents are opened before their children."""

    def __init__(self, words: Sequence[str]):
        from nltk import Tree

        self._tree = Tree
        self._words = words
        self._num_leaves = 0
        # Labels and children of the open constituents, inside a frame for the root.
        self._open: list[tuple[str, list[Tree]]] = [("", [])]

    def take(self, step: Step, label: str | None) -> str | None:
        """Takes the next step; returns what is wrong with it, or None."""
        if step == OPEN:
            return self._take_opener(label)
        return self._take_leaf(label) if step == LEAF else self._take_closer(label)

    def tree(self) -> "Tree":
        """The tree, after the last step.

        Raises:
            UserError: if it is not whole.
        """
        if len(self._open) > 1:
            raise not_a_tree(f"the {self._open[-1][0]} opened last is never closed")
        if self._num_leaves < len(self._words):
            raise not_a_tree(f"there are {self._num_leaves} leaves for {len(self._words)} words")
        ((_, roots),) = self._open
        if not roots:
            raise not_a_tree("there are neither symbols nor words")
        return roots[0]

    def _is_after_the_tree(self) -> bool:
        return len(self._open) == 1 and bool(self._open[0][1])

    def _take_opener(self, label: str) -> str | None:
        if self._is_after_the_tree():
            return "comes after the end of the tree"
        self._open.append((label, []))
        return None

    def _take_leaf(self, tag: str) -> str | None:
        if self._is_after_the_tree():
            return "comes after the end of the tree"
        if self._num_leaves == len(self._words):
            return f"makes more leaves than the {len(self._words)} words"
        self._open[-1][1].append(self._tree(tag, [self._words[self._num_leaves]]))
        self._num_leaves += 1
        return None

    def _take_closer(self, label: str | None) -> str | None:
        if self._is_after_the_tree():
            return "comes after the end of the tree"
        if len(self._open) == 1:
            return "comes where nothing is open"
        open_label, children = self._open[-1]
        if not children:
            return f"comes where a {open_label} is empty"
        if label not in (None, open_label):
            return f"comes where a {open_label} is open"
        self._open.pop()
        self._open[-1][1].append(self._tree(open_label, children))
        return None


class InOrderReader(TopDownReader):
    """Puts one tree together from steps in which constituents are opened after their first child.

    A constituent that has just been opened holds that child: there is none to open another around.
    """

    def __init__(self, words: Sequence[str]):
        super().__init__(words)
        self._was_opener = False

    def take(self, step: Step, label: str | None) -> str | None:
        problem = super().take(step, label)
        self._was_opener = step == OPEN
        return problem

    def _take_opener(self, label: str) -> str | None:
        children = self._open[-1][1]
        if self._was_opener or not children:
            return "comes where there is no child to open it around"
        self._open.append((label, [children.pop()]))
        return None


def not_a_tree(problem: str) -> UserError:
    """The error of symbols that are no tree."""
    return UserError(
        f"The symbols are not one tree over the words: {problem}. `repair` makes a tree of any "
        "symbols."
    )
