"""As many leaves as words: the first half of a repair."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from keras_transformer.parsing.trees.linearization import UNKNOWN_TAG
from keras_transformer.parsing.trees.traversal import (
    CLOSE,
    IN_ORDER,
    LEAF,
    OPEN,
    TOP_DOWN,
    LabelledStep,
    Order,
)

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
