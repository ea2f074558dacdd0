"""The steps of a walk around a tree, and the builder that makes a tree from such steps."""

from collections import Counter, defaultdict
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
# The tag of all words if tags are not kept (Vinyals et al., 2015), and the tag of a word for which
# none was predicted.
UNKNOWN_TAG = "XX"
TOP = "TOP"  # the label around several trees of one sentence


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


class TreeBuilder:
    """Builds one tree over some words from any steps, and counts the repairs.

    Leaf number n gets word number n. Steps that form exactly one tree over the words need no
    repair. The kinds of repairs are:

    - `"extra_leaf"`: a leaf after the last word is left out.
    - `"missing_leaf"`: a leaf with the tag `UNKNOWN_TAG` is added at the end, in the outermost
      constituent.
    - `"extra_closer"`: a closer is left out, because no constituent of its label is open.
    - `"missing_closer"`: a constituent is closed together with a constituent around it, or at the
      end.
    - `"misplaced_opener"`, in-order: a constituent is opened before its first child, or around the
      first child of the constituent opened just before.
    - `"empty_constituent"`: a constituent without words is left out.
    - `"several_roots"`: trees side by side are joined. If all but one are single leaves, they
      become children of the other one. Otherwise TOP is put around all of them.

    The time is proportional to the number of steps and words.

    Args:
        words: the words of the sentence, at least one.
        order: the order of the steps.

    Attributes:
        repairs: the number of repairs so far by kind.

    Raises:
        UserError: if there are no words.
    """

    def __init__(self, words: Sequence[str], order: Order = TOP_DOWN):
        from nltk import Tree

        if not len(words):
            raise UserError("`words` must hold at least one word. Received: words=[]")
        self.repairs: Counter[str] = Counter()
        self._tree = Tree
        self._words = words
        self._num_leaves = 0
        self._order = order
        # Labels and children of the open constituents, inside a frame for the roots.
        self._open: list[tuple[str, list[Tree]]] = [("", [])]
        self._depths: defaultdict[str, list[int]] = defaultdict(list)  # label -> places in `_open`
        self._was_opener = False

    def add(self, step: Step, label: str | None) -> None:
        """Add the next step.

        Args:
            step: `"open"`, `"leaf"` or `"close"`.
            label: the label or tag; None closes a constituent of any label.
        """
        if step == CLOSE:
            self._add_closer(label)
        elif step == OPEN:
            self._add_opener(label or "")
        elif self._num_leaves == len(self._words):
            self.repairs["extra_leaf"] += 1
        else:
            self._add_leaf(label or "")
        self._was_opener = step == OPEN

    def tree(self) -> "Tree":
        """Return the tree, after the last step."""
        while len(self._open) > 2:
            self._close("missing_closer")
        while self._num_leaves < len(self._words):
            self.repairs["missing_leaf"] += 1
            self._add_leaf(UNKNOWN_TAG)
        if len(self._open) > 1:
            self._close("missing_closer")
        ((_, roots),) = self._open
        if len(roots) == 1:
            return roots[0]
        self.repairs["several_roots"] += 1
        constituents = [number for number, root in enumerate(roots) if not is_leaf(root)]
        if len(constituents) != 1:
            return self._tree(TOP, roots)
        (n,) = constituents
        return self._tree(roots[n].label(), [*roots[:n], *roots[n], *roots[n + 1 :]])

    def _add_leaf(self, tag: str) -> None:
        self._open[-1][1].append(self._tree(tag, [self._words[self._num_leaves]]))
        self._num_leaves += 1

    def _add_opener(self, label: str) -> None:
        first: list[Tree] = []
        if self._order == IN_ORDER:
            before = self._open[-1][1]
            if self._was_opener or not before:
                self.repairs["misplaced_opener"] += 1
            first = [before.pop()] if before else []
        self._depths[label].append(len(self._open))
        self._open.append((label, first))

    def _add_closer(self, label: str | None) -> None:
        innermost = len(self._open) - 1
        depths = self._depths[label] if label is not None else [innermost] * (innermost > 0)
        if not depths:
            self.repairs["extra_closer"] += 1
            return
        for _ in range(innermost - depths[-1]):
            self._close("missing_closer")
        self._close()

    def _close(self, repair: str | None = None) -> None:
        """Close the innermost constituent."""
        label, children = self._open.pop()
        self._depths[label].pop()
        if not children:
            repair = "empty_constituent"
        else:
            self._open[-1][1].append(self._tree(label, children))
        if repair:
            self.repairs[repair] += 1
