"""The steps of a walk around a tree, and builders that make a tree from such steps."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from nltk import Tree

Step = Literal["open", "leaf", "close"]
OPEN: Step = "open"
LEAF: Step = "leaf"
CLOSE: Step = "close"
# The meaning of a symbol: a step, and the label of the constituent or the tag of the leaf. The
# label is None if the symbol closes a constituent of any label; an unknown symbol has the step
# None.
LabelledStep = tuple[Step | None, str | None]
# Whether a constituent is opened before its first child or after it.
Order = Literal["top-down", "in-order"]
TOP_DOWN: Order = "top-down"
IN_ORDER: Order = "in-order"


def walk(tree: "Tree", order: Order = TOP_DOWN) -> Iterator[tuple[Step, "Tree"]]:
    """Walk around a tree from left to right, without recursion.

    Args:
        tree: a tree.
        order: `"top-down"` or `"in-order"`.

    Returns:
        An iterator over `("leaf", node)` for each leaf, and for each constituent `("open", node)`
        before its children (in-order: after the first of them) and `("close", node)` after them.

    Raises:
        UserError: if a word has no tag of its own, or a constituent is empty.
    """
    return _in_order(_top_down(tree)) if order == IN_ORDER else _top_down(tree)


def _top_down(tree: "Tree") -> Iterator[tuple[Step, "Tree"]]:
    # The constituents around the current node from the root down, with their remaining children.
    around: list[tuple[Tree, Iterator[Tree]]] = []
    node: Tree | None = tree
    while node is not None:
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
        node = None
        while around and (node := next(around[-1][1], None)) is None:
            yield CLOSE, around.pop()[0]


def _in_order(steps: Iterable[tuple[Step, "Tree"]]) -> Iterator[tuple[Step, "Tree"]]:
    """Delay each `open` of a top-down walk until the first child is complete."""
    depth = 0
    waiting: list[tuple[int, Tree]] = []  # the constituents without a child, with their depths
    for step, node in steps:
        if step == OPEN:
            depth += 1
            waiting.append((depth, node))
            continue
        if step == CLOSE:
            depth -= 1
        yield step, node
        # A child is complete. Open the constituent around it if it is the first child there.
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
    """Return whether a tree is a tag with its word."""
    if len(tree) != 1:
        return False
    (child,) = tree  # several times as fast as Tree's own indexing
    return isinstance(child, str)


def new_builder(order: Order, words: Sequence[str]) -> "TopDownBuilder":
    """Return a builder of one tree.

    Args:
        order: the order of the steps.
        words: the words of the sentence.

    Returns:
        A `TopDownBuilder` or an `InOrderBuilder`.
    """
    return InOrderBuilder(words) if order == IN_ORDER else TopDownBuilder(words)


class TopDownBuilder:
    """Builds exactly one tree from steps that open constituents before their children.

    Args:
        words: the words of the sentence.
    """

    def __init__(self, words: Sequence[str]):
        from nltk import Tree

        self._tree = Tree
        self._words = words
        self._num_leaves = 0
        # Labels and children of the open constituents, inside a frame for the root.
        self._open: list[tuple[str, list[Tree]]] = [("", [])]

    def add(self, step: Step, label: str | None) -> str | None:
        """Add the next step.

        Args:
            step: `"open"`, `"leaf"` or `"close"`.
            label: the label or tag; None closes a constituent of any label.

        Returns:
            None, or a description of the problem if the step is not possible.
        """
        if step == CLOSE:
            return self._add_closer(label)
        return self._add_opener(label or "") if step == OPEN else self._add_leaf(label or "")

    def tree(self) -> "Tree":
        """Return the tree, after the last step.

        Raises:
            UserError: if the tree is not complete.
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

    def _add_opener(self, label: str) -> str | None:
        if self._is_after_the_tree():
            return "comes after the end of the tree"
        self._open.append((label, []))
        return None

    def _add_leaf(self, tag: str) -> str | None:
        if self._is_after_the_tree():
            return "comes after the end of the tree"
        if self._num_leaves == len(self._words):
            return f"makes more leaves than the {len(self._words)} words"
        self._open[-1][1].append(self._tree(tag, [self._words[self._num_leaves]]))
        self._num_leaves += 1
        return None

    def _add_closer(self, label: str | None) -> str | None:
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


class InOrderBuilder(TopDownBuilder):
    """Builds exactly one tree from steps that open constituents after their first child.

    A constituent that has just been opened holds only that child, so no other constituent can be
    opened around the child.

    Args:
        words: the words of the sentence.
    """

    def __init__(self, words: Sequence[str]):
        super().__init__(words)
        self._was_opener = False

    def add(self, step: Step, label: str | None) -> str | None:
        problem = super().add(step, label)
        self._was_opener = step == OPEN
        return problem

    def _add_opener(self, label: str) -> str | None:
        children = self._open[-1][1]
        if self._was_opener or not children:
            return "comes where there is no child to open it around"
        self._open.append((label, [children.pop()]))
        return None


def not_a_tree(problem: str) -> UserError:
    """Return the error for symbols that do not form a tree."""
    return UserError(
        f"The symbols do not form one tree over the words: {problem}. Use `repair` to build a tree "
        "from any symbols."
    )
