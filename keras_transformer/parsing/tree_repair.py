"""Trees from symbols that do not form one.

The kinds of repairs of leaves are:

- `"unknown_symbol"`: a string that is not a symbol is removed.
- `"missing_leaf"`: a leaf tagged XX is added, in a constituent that has no content. If there is
  none, it is added in the middle between two marks (such as commas) on which leaves and words
  agree, or, if the symbols break off, at the end of the outermost constituent.
- `"extra_leaf"`: a leaf is removed, from the middle between two marks.

The kinds of repairs of brackets are:

- `"misplaced_opener"`, in-order: if there is no child to open the constituent around, it is
  opened before its first child; after an opener, it is opened around that opener's child.
- `"missing_closer"`: a constituent is closed together with a constituent around it, or at the end.
- `"wrong_closer"`: a closer of another label closes the innermost constituent, which keeps the
  label of its opener.
- `"extra_closer"`: a closer is removed.
- `"missing_opener"`: a closer where nothing is open closes a constituent of everything before it.
- `"empty_constituent"`: a constituent without words is removed.
- `"several_roots"`: trees side by side are joined. If all but one are single leaves, they become
  children of the other one. Otherwise TOP is put around all of them.

A closer that does not fit has up to three readings: it also closes all open constituents inside its
own, it has a wrong label, or it is one too many. The reading is chosen for which, with the closers
still to come, the fewest repairs are expected. A closer without a label fits every constituent.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import TOP
from keras_transformer.parsing.linearization import (
    LABELLED_BRACKETS,
    UNKNOWN_TAG,
    Linearization,
)
from keras_transformer.parsing.traversal import (
    CLOSE,
    IN_ORDER,
    LEAF,
    OPEN,
    TOP_DOWN,
    LabelledStep,
    Order,
    Step,
    is_leaf,
)

if TYPE_CHECKING:
    from nltk import Tree

# The label of a constituent whose opener is missing, if its closer has no label: the Penn
# Treebank's label for unknown constituents.
UNKNOWN_LABEL = "X"


def repair(
    words: Sequence[str],
    symbols: Sequence[str],
    linearization: Linearization = LABELLED_BRACKETS,
) -> tuple["Tree", Counter[str]]:
    """Build a tree over the words from any symbols, and count the repairs.

    The time is proportional to the number of words and symbols. Symbols that `rebuild` accepts give
    the same tree here, without repairs. The module's docstring lists the kinds of repairs.

    Args:
        words: the words of the sentence, at least one.
        symbols: any strings.
        linearization: the `Linearization` of the symbols.

    Returns:
        A tree whose leaves are exactly the words and whose constituents all have words, and the
        number of repairs by kind.

    Raises:
        UserError: if there are no words.
    """
    if not len(words):
        raise UserError("`words` must hold at least one word. Received: words=[]")
    steps = [linearization.step_of(symbol) for symbol in symbols]
    known: list[LabelledStep] = [(step, label) for step, label in steps if step]
    repairs = Counter({"unknown_symbol": len(steps) - len(known)})
    order = linearization.order
    fitted, num_at_end = align_leaves(known, words, repairs, order)
    builder_class = _InOrderRepair if order == IN_ORDER else _TopDownRepair
    tree = builder_class(fitted, words, repairs).run(num_at_end)
    return tree, +repairs  # without the zeros


# Leaves

_MISSING_LEAF: LabelledStep = (LEAF, UNKNOWN_TAG)
# The place of a removed leaf: the constituent around it keeps its position.
NO_LEAF: LabelledStep = (LEAF, None)


def align_leaves(
    steps: Sequence[LabelledStep],
    words: Sequence[str],
    repairs: Counter[str],
    order: Order = TOP_DOWN,
) -> tuple[list[LabelledStep], int]:
    """Add and remove leaves until there is one per word.

    Leaf n belongs to word n, so one extra or missing leaf moves all brackets to its right by a
    word. Three rules keep that damage small. A constituent that is opened and closed at once, or
    in-order one that is opened around nothing, shows where a leaf is missing. Marks such as commas,
    which are their own tags, tie leaves to words. Between two marks leaves are added or removed in
    the middle, which leaves both sides in place. If the symbols break off, the end is missing, so
    leaves are added there.

    Args:
        steps: the steps of the symbols.
        words: the words.
        repairs: counts of repairs, which are updated.
        order: the order of the steps.

    Returns:
        The steps, with `NO_LEAF` in place of each removed leaf, and the number of leaves still
        missing at the end of a tree that breaks off. The leaves and that number together match the
        number of words.
    """
    num_missing = len(words) - sum(step == LEAF for step, _ in steps)
    if num_missing > 0:
        steps = _fill_empty(steps, num_missing, repairs, order)
    tags = [tag or "" for step, tag in steps if step == LEAF]
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
    """Return which leaves are kept, and the numbers of leaves to add before the first leaf, after
    the first leaf, after the second, ...
    """
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
    """Put missing leaves into constituents that need one: top-down, into constituents that are
    opened and closed at once; in-order, before constituents that are opened around nothing.
    """
    empty_ends: list[tuple[Step | None, Step | None]] = [(OPEN, CLOSE)]
    if order == IN_ORDER:
        empty_ends = [(None, OPEN), (OPEN, OPEN)]
    filled: list[LabelledStep] = []
    for (before, _), (step, label) in zip([(None, None), *steps], steps):
        if num_missing and (before, step) in empty_ends:
            filled.append(_MISSING_LEAF)
            repairs["missing_leaf"] += 1
            num_missing -= 1
        filled.append((step, label))
    return filled


def _breaks_off(steps: Sequence[LabelledStep]) -> bool:
    """Return whether constituents are still open at the end."""
    num_open = 0
    for step, _ in steps:
        if step != LEAF:
            num_open = max(0, num_open + (1 if step == OPEN else -1))
    return num_open > 0


class _Stretch(NamedTuple):
    """A run of leaves that begins at leaf number `first`, and the number of words it stands for."""

    first: int
    num_tags: int
    num_words: int


def _stretches(tags: Sequence[str], words: Sequence[str]) -> Iterator[_Stretch]:
    """Cut leaves and words at their marks: strings that are equally often a tag and a word.

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


# Brackets


class _TopDownRepair:
    """Builds a tree from steps that have one leaf per word, except for leaves missing at the end.

    Among the children of a constituent, None stands for a removed child.
    """

    order: Order = TOP_DOWN

    def __init__(self, steps: Sequence[LabelledStep], words: Sequence[str], repairs: Counter[str]):
        from nltk import Tree

        self.tree = Tree
        self.steps = steps
        self.words = iter(words)
        self.repairs = repairs
        self.remainders = _remainders(steps, self.order)
        # Labels and children of the open constituents from the outermost to the innermost, after a
        # frame that holds the roots.
        self.open: list[tuple[str, list[Tree | None]]] = [("", [])]
        self.depths: dict[str, list[int]] = {}  # label -> its positions in `open`

    def run(self, num_at_end: int) -> "Tree":
        for position, (step, label) in enumerate(self.steps):
            if step == OPEN:
                first_children = self.first_children(position)
                self.depths.setdefault(label or "", []).append(len(self.open))
                self.open.append((label or "", first_children))
            elif (step, label) == NO_LEAF:
                self.open[-1][1].append(None)
            elif step == LEAF:
                self.add_leaf(label or "")
            else:
                self.add_closer(position, label)
        if num_at_end:
            while len(self.open) > 2:
                self.close("missing_closer")
            for _ in range(num_at_end):
                self.add_leaf(UNKNOWN_TAG)
        while len(self.open) > 1:
            self.close("missing_closer")
        return self.joined_roots()

    def first_children(self, position: int) -> list["Tree | None"]:
        """Return the children that a constituent has when it is opened."""
        return []

    def add_leaf(self, tag: str) -> None:
        self.open[-1][1].append(self.tree(tag, [next(self.words)]))

    def add_closer(self, position: int, label: str | None) -> None:
        depth = len(self.open) - 1
        if depth == 0:
            self.close_nothing(label)
            return
        readings = self.readings(label)
        # Of equal readings the first is chosen, which trusts the label.
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
        """Return the readings of a closer: number of constituents it closes -> repairs."""
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
        """Return the repairs to expect from a position on, with `depth` open constituents."""
        ahead = self.remainders[position]
        # A root may not end before the leaves do, unless the rest has its closer from a constituent
        # around both.
        another_root = ahead.has_content and ahead.last_closer in (None, self.open[1][0])
        return abs(depth - ahead.num_closers) + (depth == 0 and another_root)

    def close_nothing(self, label: str | None) -> None:
        """Handle a closer where no constituent is open."""
        roots = _trees(self.open[0][1])
        # Several roots, and a single leaf, need a constituent around them anyway.
        if len(roots) > 1 or (roots and is_leaf(roots[0])):
            self.repairs["missing_opener"] += 1
            self.open[0][1][:] = [self.tree(label or UNKNOWN_LABEL, roots)]
        else:
            self.repairs["extra_closer"] += 1

    def close(self, repair: str | None) -> None:
        """Close the innermost constituent."""
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


class _InOrderRepair(_TopDownRepair):
    """Builds a tree as `_TopDownRepair`, from steps that open constituents after their first child.

    A constituent therefore has its first child when it is opened.
    """

    order: Order = IN_ORDER

    def first_children(self, position: int) -> list["Tree | None"]:
        before = self.open[-1][1]
        if not before or self.steps[position - 1][0] == OPEN:
            self.repairs["misplaced_opener"] += 1
        return [before.pop()] if before else []


def _trees(children: Iterable["Tree | None"]) -> list["Tree"]:
    return [child for child in children if child is not None]


class _Remainder(NamedTuple):
    """The steps from a position on."""

    has_content: bool  # a leaf, or an opener that is not around what stands before it
    num_closers: int  # of constituents opened before the position, ignoring labels
    last_closer: str | None  # the label of the last of these closers; None without one


def _remainders(steps: Sequence[LabelledStep], order: Order) -> list[_Remainder]:
    """Return the `_Remainder` at each position."""
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
