"""Trees from symbols that do not form one.

The kinds of repairs are, first of the leaves:

- `"unknown_symbol"`: a string that is no symbol is left out.
- `"missing_leaf"`: a leaf tagged XX is added: in a constituent that has nothing in it, else in the
  middle between two marks (such as commas) on which leaves and words agree, and where the symbols
  break off at the end of the outermost constituent.
- `"extra_leaf"`: a leaf is left out, from the middle between two marks.

Then of the brackets:

- `"misplaced_opener"`, in-order: where there is no child to open the constituent around, it is
  opened before its first child; after an opener, around that opener's child.
- `"missing_closer"`: a constituent is closed with a constituent around it, or at the end.
- `"wrong_closer"`: a closer of another label closes the innermost constituent, whose label stays as
  it was opened.
- `"extra_closer"`: a closer is left out.
- `"missing_opener"`: a closer where nothing is open takes in all that stands before it.
- `"empty_constituent"`: a constituent without any word is left out.
- `"several_roots"`: trees side by side become one. If all but one are single leaves, the one takes
  them in; else TOP is put around them.

A closer that does not fit can be understood in up to three ways: as one that closes what is open
inside its constituent too, as one with a wrong label, or as one too many. It is understood such
that, with the closers still to come, the fewest repairs are to be expected. One without a label
fits every constituent.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.parsing.trees.align_leaves import NO_LEAF, fit_leaves
from keras_transformer.parsing.trees.cleaning import TOP
from keras_transformer.parsing.trees.linearization import (
    LABELLED_BRACKETS,
    UNKNOWN_TAG,
    Linearization,
)
from keras_transformer.parsing.trees.traversal import (
    CLOSE,
    IN_ORDER,
    LEAF,
    OPEN,
    TOP_DOWN,
    LabelledStep,
    Order,
    is_leaf,
)

if TYPE_CHECKING:
    from nltk import Tree

# That of a constituent whose opener is missing, where a closer does not tell it: the Penn
# Treebank's label of what is unknown.
UNKNOWN_LABEL = "X"


def repair(
    words: Sequence[str],
    symbols: Sequence[str],
    linearization: Linearization = LABELLED_BRACKETS,
) -> tuple["Tree", Counter[str]]:
    """Makes a tree over the words of any symbols, and counts what had to be mended.

    It takes time in proportion to the number of words and symbols. Symbols that `rebuild` takes
    give the same tree here, and no repairs. The module's docstring has the kinds of repairs.

    Args:
        words: the words of the sentence, at least one.
        symbols: any strings.
        linearization: what they are symbols of.

    Returns:
        A tree whose leaves are exactly the words and whose constituents all hold some, and how
        often it was repaired by kind.

    Raises:
        UserError: if there are no words.
    """
    if not len(words):
        raise UserError("A tree needs at least one word. Received: words=[]")
    steps = [linearization.step_of(symbol) for symbol in symbols]
    known = [(step, label) for step, label in steps if step]
    repairs = Counter({"unknown_symbol": len(steps) - len(known)})
    order = linearization.order
    fitted, num_at_end = fit_leaves(known, words, repairs, order)
    tree = _MAKERS[order](fitted, words, repairs).run(num_at_end)
    return tree, +repairs  # without the zeros


class _TreeMaker:
    """Makes a tree of steps whose leaves are as many as the words, less those at the end.

    Among the children of a constituent, None stands for what is left out.
    """

    order: Order = TOP_DOWN

    def __init__(self, steps: Sequence[LabelledStep], words: Sequence[str], repairs: Counter[str]):
        from nltk import Tree

        self.tree = Tree
        self.steps = steps
        self.words = iter(words)
        self.repairs = repairs
        self.remainders = _remainders(steps, self.order)
        # Labels and children of the open constituents from the outermost in, after a frame that
        # holds the roots.
        self.open: list[tuple[str, list[Tree | None]]] = [("", [])]
        self.depths: dict[str, list[int]] = {}  # label -> where it stands in `open`

    def run(self, num_at_end: int) -> "Tree":
        for position, (step, label) in enumerate(self.steps):
            if step == OPEN:
                first_children = self.first_children(position)
                self.depths.setdefault(label, []).append(len(self.open))
                self.open.append((label, first_children))
            elif (step, label) == NO_LEAF:
                self.open[-1][1].append(None)
            elif step == LEAF:
                self.add_leaf(label)
            else:
                self.take_closer(position, label)
        if num_at_end:
            while len(self.open) > 2:
                self.close("missing_closer")
            for _ in range(num_at_end):
                self.add_leaf(UNKNOWN_TAG)
        while len(self.open) > 1:
            self.close("missing_closer")
        return self.joined_roots()

    def first_children(self, position: int) -> list["Tree | None"]:
        """The children that a constituent has where it is opened."""
        return []

    def add_leaf(self, tag: str) -> None:
        self.open[-1][1].append(self.tree(tag, [next(self.words)]))

    def take_closer(self, position: int, label: str | None) -> None:
        depth = len(self.open) - 1
        if depth == 0:
            self.take_closer_of_nothing(label)
            return
        readings = self.readings(label)
        # Of equals the first is chosen: the label is trusted if nothing speaks against it.
        num_closed = min(
            readings,
            key=lambda number: readings[number] + self.cost_ahead(position + 1, depth - number),
        )
        if num_closed == 0:
            self.repairs["extra_closer"] += 1
            return
        for _ in range(num_closed - 1):
            self.close("missing_closer")
        self.close(None if label in (None, self.open[-1][0]) else "wrong_closer")

    def readings(self, label: str | None) -> dict[int, int]:
        """The ways to understand a closer: how many constituents it closes -> repairs."""
        if label is None:
            return {1: 0, 0: 1}
        readings = {}
        if depths := self.depths.get(label):
            num_closed = len(self.open) - depths[-1]
            readings[num_closed] = num_closed - 1
        readings.setdefault(1, 1)
        readings[0] = 1
        return readings

    def cost_ahead(self, position: int, depth: int) -> int:
        """Repairs to expect from a position on if `depth` constituents are open there."""
        ahead = self.remainders[position]
        # A root may not end before the leaves do, unless what follows has its closer from a
        # constituent around both.
        another_root = ahead.has_content and ahead.last_closer in (None, self.open[1][0])
        return abs(depth - ahead.num_closers) + (depth == 0 and another_root)

    def take_closer_of_nothing(self, label: str | None) -> None:
        roots = _trees(self.open[0][1])
        # They need a constituent around them anyway.
        if len(roots) > 1 or (roots and is_leaf(roots[0])):
            self.repairs["missing_opener"] += 1
            self.open[0][1][:] = [self.tree(label or UNKNOWN_LABEL, roots)]
        else:
            self.repairs["extra_closer"] += 1

    def close(self, repair: str | None) -> None:
        """Closes the innermost constituent."""
        label, children = self.open.pop()
        self.depths[label].pop()
        children = _trees(children)
        self.open[-1][1].append(self.tree(label, children) if children else None)
        if not children:
            self.repairs["empty_constituent"] += 1
            return
        if repair:
            self.repairs[repair] += 1

    def joined_roots(self) -> "Tree":
        roots = _trees(self.open[0][1])
        if len(roots) == 1:
            return roots[0]
        self.repairs["several_roots"] += 1
        constituents = [n for n, root in enumerate(roots) if not is_leaf(root)]
        if len(constituents) != 1:
            return self.tree(TOP, roots)
        (n,) = constituents
        return self.tree(roots[n].label(), [*roots[:n], *roots[n], *roots[n + 1 :]])


class _InOrderMaker(_TreeMaker):
    """As `_TreeMaker`, of steps in which constituents are opened after their first child."""

    order = IN_ORDER

    def first_children(self, position):
        before = self.open[-1][1]
        if not before or self.steps[position - 1][0] == OPEN:
            self.repairs["misplaced_opener"] += 1
        return [before.pop()] if before else []


_MAKERS = {TOP_DOWN: _TreeMaker, IN_ORDER: _InOrderMaker}


def _trees(children: list["Tree | None"]) -> list["Tree"]:
    return [child for child in children if child is not None]


class _Remainder(NamedTuple):
    """What is to come from a position on."""

    has_content: bool  # a leaf, or an opener that is not around what stands before it
    num_closers: int  # those of constituents opened before, labels aside
    last_closer: str | None  # the label of the last of them, if there is one and it has a label


def _remainders(steps: Sequence[LabelledStep], order: Order) -> list[_Remainder]:
    """What is to come from each position on."""
    remainders = [_Remainder(False, 0, None)]
    closers: list[str | None] = []  # from the last to the next
    has_content = False
    for step, label in reversed(steps):
        if step == CLOSE:
            closers.append(label)
        elif step == OPEN and closers:
            closers.pop()
        if step == OPEN:
            has_content = order == TOP_DOWN
        elif step == LEAF and label is not None:
            has_content = True
        last_closer = closers[0] if closers else None
        remainders.append(_Remainder(has_content, len(closers), last_closer))
    return remainders[::-1]
