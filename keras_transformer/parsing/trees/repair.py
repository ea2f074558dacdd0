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
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.errors import UserError
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


_MISSING_LEAF: LabelledStep = (LEAF, UNKNOWN_TAG)
# What is left of a leaf that is taken out: the constituent around it still has its place.
NO_LEAF: LabelledStep = (LEAF, None)


def fit_leaves(
    steps: Sequence[LabelledStep],
    words: Sequence[str],
    repairs: Counter[str],
    order: Order = TOP_DOWN,
) -> tuple[list[LabelledStep], int]:
    """Adds and takes out leaves until there is one for each word.

    Leaf and word number n belong together, so one leaf too many or too few moves all brackets to
    its right by a word. Three things keep that damage small. A constituent that is opened and at
    once closed, or in-order one that is opened around nothing, shows where a leaf is missing. Marks
    such as a comma, which are their own tags, tie leaves to words. And between two marks leaves are
    added or taken out in the middle, which leaves both sides in place; unless the symbols break
    off, as then what is missing is the end.

    Args:
        steps: what the symbols do.
        words: the words.
        repairs: counts of repairs, to be added to.
        order: that of the steps.

    Returns:
        The steps, with `NO_LEAF` in the place of each leaf that is taken out, and the number of
        words for which there is still no leaf as they belong at the end of a tree that breaks off.
        Leaves and that number together are as many as words.
    """
    num_missing = len(words) - sum(step == LEAF for step, _ in steps)
    if num_missing > 0:
        steps = _fill_empty(steps, num_missing, repairs, order)
    tags = [tag for step, tag in steps if step == LEAF]
    if len(tags) == len(words):
        return list(steps), 0
    breaks_off = len(tags) < len(words) and _breaks_off(steps)
    is_kept, num_missing_after = _changes(tags, words, breaks_off)
    repairs["extra_leaf"] += is_kept.count(False)
    repairs["missing_leaf"] += sum(num_missing_after)
    num_at_end = 0
    if breaks_off:
        num_at_end, num_missing_after[-1] = num_missing_after[-1], 0
    return _with_changes(steps, is_kept, num_missing_after, order), num_at_end


def _changes(
    tags: Sequence[str], words: Sequence[str], breaks_off: bool
) -> tuple[list[bool], list[int]]:
    """Whether each leaf stays, and how many are added after none of them, after the first, ..."""
    is_kept = [True] * len(tags)
    num_missing_after = [0] * (len(tags) + 1)
    for stretch in _stretches(tags, words):
        size = min(stretch.num_tags, stretch.num_words)
        is_end = stretch.first + stretch.num_tags == len(tags)
        middle = stretch.first + (size if breaks_off and is_end else (size + 1) // 2)
        num_extra = stretch.num_tags - size
        is_kept[middle : middle + num_extra] = [False] * num_extra
        num_missing_after[middle] += stretch.num_words - size
    return is_kept, num_missing_after


def _with_changes(
    steps: Sequence[LabelledStep],
    is_kept: Sequence[bool],
    num_missing_after: Sequence[int],
    order: Order,
) -> list[LabelledStep]:
    missing = [[_MISSING_LEAF] * number for number in num_missing_after]
    if not is_kept:
        return [*missing[0], *steps]
    fitted: list[LabelledStep] = []
    siblings: list[LabelledStep] = []  # of the leaf before, to be added after it
    num_leaves = 0
    for step, label in steps:
        # In-order, a constituent that is opened now is around that leaf and its siblings.
        if step == OPEN and order == IN_ORDER:
            fitted += [(step, label), *siblings]
            siblings = []
            continue
        fitted += siblings
        siblings = []
        if step != LEAF:
            fitted.append((step, label))
            continue
        leaves = [] if num_leaves else missing[0]
        leaves = [*leaves, (step, label) if is_kept[num_leaves] else NO_LEAF]
        num_leaves += 1
        first, *siblings = [*leaves, *missing[num_leaves]]
        fitted.append(first)
    return fitted + siblings


def _fill_empty(
    steps: Sequence[LabelledStep], num_missing: int, repairs: Counter[str], order: Order
) -> list[LabelledStep]:
    """Puts missing leaves into constituents that have none where they must have one: in those that
    are opened and at once closed; in-order, before those that are opened around nothing.
    """
    empty_ends = [(None, OPEN), (OPEN, OPEN)] if order == IN_ORDER else [(OPEN, CLOSE)]
    filled: list[LabelledStep] = []
    for (before, _), (step, label) in zip([(None, None), *steps], steps):
        if num_missing and (before, step) in empty_ends:
            filled.append(_MISSING_LEAF)
            repairs["missing_leaf"] += 1
            num_missing -= 1
        filled.append((step, label))
    return filled


def _breaks_off(steps: Sequence[LabelledStep]) -> bool:
    """Whether there are closers too few at the end."""
    num_open = 0
    for step, _ in steps:
        if step != LEAF:
            num_open = max(0, num_open + (1 if step == OPEN else -1))
    return num_open > 0


class _Stretch(NamedTuple):
    """Leaves, from number `first` on, that belong to words which are not always as many."""

    first: int
    num_tags: int
    num_words: int


def _stretches(tags: Sequence[str], words: Sequence[str]) -> Iterator[_Stretch]:
    """Cuts leaves and words at their marks: what is as often a tag as it is a word.

    Marks are paired as long as they agree, from the start and from the end.
    """
    num_words = Counter(words)
    marks = {tag for tag, number in Counter(tags).items() if num_words[tag] == number}
    tag_marks = [n for n, tag in enumerate(tags) if tag in marks]
    word_marks = [n for n, word in enumerate(words) if word in marks]

    def agree(pair: tuple[int, int]) -> bool:
        return tags[pair[0]] == words[pair[1]]

    pairs = list(takewhile(agree, zip(tag_marks, word_marks)))
    rest = zip(tag_marks[len(pairs) :][::-1], word_marks[len(pairs) :][::-1])
    pairs += reversed(list(takewhile(agree, rest)))
    first_tag = first_word = 0
    for tag, word in [*pairs, (len(tags), len(words))]:
        yield _Stretch(first_tag, tag - first_tag, word - first_word)
        first_tag, first_word = tag + 1, word + 1
