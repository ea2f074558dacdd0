"""Trees from symbols that do not form one."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.data.trees.cleaning import TOP
from keras_transformer.data.trees.fitting import Symbol, fit_leaves
from keras_transformer.data.trees.linearizing import UNKNOWN_TAG, parse_symbol
from keras_transformer.data.trees.walk import CLOSE, LEAF, OPEN, is_leaf

if TYPE_CHECKING:
    from nltk import Tree


def repair(words: Sequence[str], symbols: Sequence[str]) -> tuple["Tree", Counter[str]]:
    """Makes a tree over the words of any symbols, and counts what had to be mended.

    It takes time in proportion to the number of words and symbols. Symbols that `rebuild` takes
    give the same tree here, and no repairs. The kinds of repairs are, first of the leaves:

    - `"unknown_symbol"`: a string that is no symbol is left out.
    - `"missing_leaf"`: a leaf tagged XX is added: in a constituent that has nothing in it, else in
      the middle between two marks (such as commas) on which leaves and words agree, and where the
      symbols break off at the end of the outermost constituent.
    - `"extra_leaf"`: a leaf is left out, from the middle between two marks.

    Then of the brackets:

    - `"missing_closer"`: a constituent is closed with a constituent around it, or at the end.
    - `"wrong_closer"`: a closer of another label closes the innermost constituent, whose label
      stays as it was opened.
    - `"extra_closer"`: a closer is left out.
    - `"missing_opener"`: a closer where nothing is open takes in all that stands before it.
    - `"empty_constituent"`: a constituent without any word is left out.
    - `"several_roots"`: trees side by side become one. If all but one are single leaves, the one
      takes them in; else TOP is put around them.

    A closer that does not fit can be understood in up to three ways: as one that closes what is
    open inside its constituent too, as one with a wrong label, or as one too many. It is understood
    such that, with the closers still to come, the fewest repairs are to be expected.

    Args:
        words: the words of the sentence, at least one.
        symbols: any strings.

    Returns:
        A tree whose leaves are exactly the words and whose constituents all hold some, and how
        often it was repaired by kind.

    Raises:
        ValueError: if there are no words.
    """
    if not len(words):
        raise ValueError("A tree needs at least one word. Received: words=[]")
    parsed = [parse_symbol(symbol) for symbol in symbols]
    known = [(step, label) for step, label in parsed if step]
    repairs = Counter({"unknown_symbol": len(parsed) - len(known)})
    fitted, num_at_end = fit_leaves(known, words, repairs)
    tree = _TreeMaker(fitted, words, repairs).run(num_at_end)
    return tree, +repairs  # without the zeros


class _TreeMaker:
    """Makes a tree of symbols whose leaves are as many as the words, less those at the end."""

    def __init__(self, symbols: Sequence[Symbol], words: Sequence[str], repairs: Counter[str]):
        from nltk import Tree

        self.tree = Tree
        self.symbols = symbols
        self.words = iter(words)
        self.repairs = repairs
        self.ahead = _ahead(symbols)
        # The open constituents from the outermost in, after a frame that holds the roots.
        self.around: list[tuple[str, list[Tree]]] = [("", [])]
        self.depths: dict[str, list[int]] = {}  # label -> where it stands in `around`

    def run(self, num_at_end: int) -> "Tree":
        for position, (step, label) in enumerate(self.symbols):
            if step == OPEN:
                self.depths.setdefault(label, []).append(len(self.around))
                self.around.append((label, []))
            elif step == LEAF:
                self.add_leaf(label)
            else:
                self.take_closer(position, label)
        if num_at_end:
            while len(self.around) > 2:
                self.close("missing_closer")
            for _ in range(num_at_end):
                self.add_leaf(UNKNOWN_TAG)
        while len(self.around) > 1:
            self.close("missing_closer")
        return self.joined_roots()

    def add_leaf(self, tag: str) -> None:
        self.around[-1][1].append(self.tree(tag, [next(self.words)]))

    def take_closer(self, position: int, label: str) -> None:
        depth = len(self.around) - 1
        if depth == 0:
            self.take_closer_of_nothing(label)
            return
        # The ways to understand it: how many constituents it closes -> repairs.
        ways: dict[int, int] = {}
        if places := self.depths.get(label):
            num_closed = len(self.around) - places[-1]
            ways[num_closed] = num_closed - 1
        ways.setdefault(1, 1)
        ways[0] = 1
        # Of equals the first is chosen: the label is trusted if nothing speaks against it.
        num_closed = min(
            ways, key=lambda number: ways[number] + self.cost_ahead(position + 1, depth - number)
        )
        if num_closed == 0:
            self.repairs["extra_closer"] += 1
            return
        for _ in range(num_closed - 1):
            self.close("missing_closer")
        self.close(None if self.around[-1][0] == label else "wrong_closer")

    def cost_ahead(self, position: int, depth: int) -> int:
        """Repairs to expect from a position on if `depth` constituents are open there."""
        ahead = self.ahead[position]
        # A root may not end before the leaves do, unless what follows has its closer from a
        # constituent around both.
        another_root = ahead.has_content and ahead.last_closer in (None, self.around[1][0])
        return abs(depth - ahead.num_closers) + (depth == 0 and another_root)

    def take_closer_of_nothing(self, label: str) -> None:
        _, roots = self.around[0]
        # They need a constituent around them anyway.
        if len(roots) > 1 or (roots and is_leaf(roots[0])):
            self.repairs["missing_opener"] += 1
            roots[:] = [self.tree(label, list(roots))]
        else:
            self.repairs["extra_closer"] += 1

    def close(self, repair: str | None) -> None:
        """Closes the innermost constituent."""
        label, children = self.around.pop()
        self.depths[label].pop()
        if not children:
            self.repairs["empty_constituent"] += 1
            return
        self.around[-1][1].append(self.tree(label, children))
        if repair:
            self.repairs[repair] += 1

    def joined_roots(self) -> "Tree":
        _, roots = self.around[0]
        if len(roots) == 1:
            return roots[0]
        self.repairs["several_roots"] += 1
        constituents = [n for n, root in enumerate(roots) if not is_leaf(root)]
        if len(constituents) != 1:
            return self.tree(TOP, roots)
        (n,) = constituents
        return self.tree(roots[n].label(), [*roots[:n], *roots[n], *roots[n + 1 :]])


class _Ahead(NamedTuple):
    """What is to come from a position on."""

    has_content: bool  # a leaf or an opener
    num_closers: int  # those of constituents opened before, labels aside
    last_closer: str | None  # the label of the last of them


def _ahead(symbols: Sequence[Symbol]) -> list[_Ahead]:
    """What is to come from each position on."""
    ahead = [_Ahead(False, 0, None)]
    closers: list[str] = []  # from the last to the next
    has_content = False
    for step, label in reversed(symbols):
        if step == CLOSE:
            closers.append(label)
        elif step == OPEN and closers:
            closers.pop()
        has_content = has_content or step != CLOSE
        ahead.append(_Ahead(has_content, len(closers), closers[0] if closers else None))
    return ahead[::-1]
