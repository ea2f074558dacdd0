"""Trees from any symbols: each kind of repair by hand, and properties of all of them."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.linearization import LABELLED_BRACKETS, InOrderBrackets
from keras_transformer.parsing.traversal import LEAF, walk
from tests.parsing.small_trees import symbols_of, trees
from tests.parsing.unlabelled_closers import InOrderUnlabelled, UnlabelledClosers

pytestmark = pytest.mark.once

IN_ORDER, UNLABELLED = InOrderBrackets(), UnlabelledClosers()
LINEARIZATIONS = [LABELLED_BRACKETS, IN_ORDER, UNLABELLED, InOrderUnlabelled()]


def case(linearization, words, symbols, expected, **repairs):
    name = f"{type(linearization).__name__} {symbols}"
    return pytest.param(linearization, words, symbols, expected, repairs, id=name)


@pytest.mark.parametrize(
    ("linearization", "words", "symbols", "expected", "repairs"),
    [
        case(
            *(LABELLED_BRACKETS, "a b", "(S (NP (D) )NP (V) )S"),
            "(S (NP (D a)) (V b))",
        ),
        case(LABELLED_BRACKETS, "a", "(D)", "(D a)"),
        # Closers
        case(
            *(LABELLED_BRACKETS, "a b", "(S (NP (D) )NP (VP (V)"),
            "(S (NP (D a)) (VP (V b)))",
            missing_closer=2,
        ),
        case(
            *(LABELLED_BRACKETS, "a b c", "(S (VP (PP (NP (D) )PP (V) )VP (X) )S"),
            "(S (VP (PP (NP (D a))) (V b)) (X c))",
            missing_closer=1,
        ),
        case(
            *(LABELLED_BRACKETS, "a b", "(S (NP (D) )VP (VP (V) )VP )S"),
            "(S (NP (D a) (VP (V b))))",
            extra_closer=1,
            missing_closer=1,
        ),
        case(
            *(LABELLED_BRACKETS, "a b", "(S (NP (D) )NP )VP (VP (V) )VP )S"),
            "(S (NP (D a)) (VP (V b)))",
            extra_closer=1,
        ),
        case(LABELLED_BRACKETS, "a", "(S (D) )S )S", "(S (D a))", extra_closer=1),
        case(LABELLED_BRACKETS, "a", ")S (S (D) )S", "(S (D a))", extra_closer=1),
        case(UNLABELLED, "a b", "(S (NP (D) (V)", "(S (NP (D a) (V b)))", missing_closer=2),
        case(UNLABELLED, "a", "(S (D) ) )", "(S (D a))", extra_closer=1),
        case(
            IN_ORDER, "a b", "(D) (NP )NP (S (V) (VP", "(S (NP (D a)) (VP (V b)))", missing_closer=2
        ),
        case(
            *(IN_ORDER, "a b c d", "(D) (VP (P) (PP (V) )VP (S (X) )S"),
            "(S (VP (D a) (PP (P b) (V c))) (X d))",
            missing_closer=1,
        ),
        case(IN_ORDER, "a b", "(D) (NP )NP )NP (S (V) )S", "(S (NP (D a)) (V b))", extra_closer=1),
        # Openers and roots
        case(
            *(LABELLED_BRACKETS, "a", "(S (NP )NP (D) (VP (X )X )VP )S"),
            "(S (D a))",
            empty_constituent=3,
        ),
        case(LABELLED_BRACKETS, "a", "(S (D) )S (S (NP", "(S (D a))", empty_constituent=2),
        case(IN_ORDER, "a", "(S (D) )S", "(S (D a))", misplaced_opener=1),
        case(IN_ORDER, "a", "(D) (A (B )B )A", "(A (B (D a)))", misplaced_opener=1),
        case(
            *(LABELLED_BRACKETS, "a b", "(S (D) )S (S (V) )S"),
            "(TOP (S (D a)) (S (V b)))",
            several_roots=1,
        ),
        case(
            *(LABELLED_BRACKETS, "a b c", "(D) (S (V) )S (X)"),
            "(S (D a) (V b) (X c))",
            several_roots=1,
        ),
        case(LABELLED_BRACKETS, "a b", "(D) (V)", "(TOP (D a) (V b))", several_roots=1),
        # Leaves
        case(LABELLED_BRACKETS, "a b", "(S (A) (B) (C) )S", "(S (A a) (B b))", extra_leaf=1),
        case(LABELLED_BRACKETS, "a", "(S (A) )S (B)", "(S (A a))", extra_leaf=1),
        case(
            *(LABELLED_BRACKETS, "a b", "(S (NP (D) )NP )S"),
            "(S (NP (D a)) (XX b))",
            missing_leaf=1,
            several_roots=1,
        ),
        case(
            *(LABELLED_BRACKETS, "a b c d", "(S (NP (D) (N) )NP (VP (VP"),
            "(S (NP (D a) (N b)) (XX c) (XX d))",
            missing_leaf=2,
            empty_constituent=2,
            missing_closer=1,
        ),
        case(
            *(IN_ORDER, "a b c", "(D) (NP (N) )NP (S (VP"),
            "(S (VP (NP (D a) (N b))) (XX c))",
            misplaced_opener=1,
            missing_leaf=1,
            missing_closer=2,
        ),
        case(LABELLED_BRACKETS, "a b", "", "(TOP (XX a) (XX b))", missing_leaf=2, several_roots=1),
        case(LABELLED_BRACKETS, "a", "", "(XX a)", missing_leaf=1),
        case(LABELLED_BRACKETS, "a", "<s> (S ( (A) ) )S NP", "(S (A a))", unknown_symbol=4),
        case(UNLABELLED, "a", "(S (D) )S )", "(S (D a))", unknown_symbol=1),
    ],
)
def test_repairs_equal_those_written_by_hand(linearization, words, symbols, expected, repairs):
    tree, counts = linearization.repair(words.split(), symbols.split())
    assert to_bracketed(tree) == expected and dict(counts) == repairs


@pytest.mark.parametrize("build", [LABELLED_BRACKETS.repair, IN_ORDER.rebuild])
def test_a_tree_needs_at_least_one_word(build):
    with pytest.raises(UserError, match="at least one word"):
        build([], ["(S", ")S"])


def test_symbols_that_need_repairs_cannot_be_rebuilt():
    message = "one tree over the 1 words; `repair`.*repairs {'missing_closer': 1}"
    with pytest.raises(UserError, match=message):
        LABELLED_BRACKETS.rebuild(["a"], ["(S", "(D)"])


# Any symbols

LABELS = ["S", "NP", "VP"]
SYMBOLS = [form.format(label) for label in LABELS for form in ("({}", "({})", "){}")]
SYMBOLS += ["(,)", "(.)", ")", "(", "NP", ""]
WORDS = ["a", "b", ",", ".", "-LRB-", "(", "x y"]


def is_tree(num_words, symbols, linearization):
    """Return whether symbols form a tree, by replacing innermost constituents by leaves."""
    rest = []
    for symbol in symbols:
        step, label = linearization.read_symbol(symbol)
        if step is None:
            return False
        rest.append((step, None) if step == LEAF else (step, label))
    leaf, is_in_order = (LEAF, None), linearization.order == "in-order"
    if rest.count(leaf) != num_words:
        return False
    while len(rest) > 1:
        for start, (step, label) in enumerate(rest):
            end = start + 1
            while end < len(rest) and rest[end] == leaf:
                end += 1
            is_closed = step == "open" and rest[end : end + 1] in (
                [("close", label)],
                [("close", None)],
            )
            begin = start - is_in_order
            if is_closed and begin >= 0 and rest[begin:end].count(leaf) == end - begin - 1 > 0:
                rest[begin : end + 1] = [leaf]
                break
        else:
            return False
    return rest == [leaf]


def assert_repaired(words, symbols, linearization):
    """Return whether the symbols needed repairs."""
    tree, repairs = linearization.repair(words, symbols)
    assert [node[0] for step, node in walk(tree) if step == LEAF] == words
    assert all(node.label() and len(node) for _, node in walk(tree))
    assert all(number > 0 for number in repairs.values())
    assert bool(repairs) != is_tree(len(words), symbols, linearization)
    # The result is a tree that needs no repair.
    assert linearization.repair(*linearization.linearize(tree)) == (tree, {})
    if not repairs:
        assert linearization.linearize(tree)[0] == words
        assert len(linearization.linearize(tree)[1]) == len(symbols)
    return bool(repairs)


@pytest.mark.parametrize("linearization", LINEARIZATIONS, ids=lambda x: type(x).__name__)
def test_random_symbols_are_repaired_to_trees_over_the_words(linearization):
    draw = random.Random(0)
    num_repaired = 0
    for _ in range(3_000):
        words = draw.choices(WORDS, k=draw.randint(1, 8))
        num_repaired += assert_repaired(
            words, draw.choices(SYMBOLS, k=draw.randint(0, 25)), linearization
        )
    assert 2_700 < num_repaired < 3_000


@pytest.mark.parametrize("linearization", LINEARIZATIONS, ids=lambda x: type(x).__name__)
def test_damaged_trees_are_repaired(linearization):
    draw = random.Random(0)
    inventory = symbols_of(linearization)
    num_repaired = 0
    for tree in trees():
        words, symbols = linearization.linearize(tree)
        assert not assert_repaired(words, symbols, linearization)
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(symbols) + 1)
            symbols[place : place + draw.randint(0, 1)] = draw.choices(
                inventory, k=draw.randint(0, 1)
            )
        num_repaired += assert_repaired(words, symbols, linearization)
    assert num_repaired > len(trees()) / 2


@settings(max_examples=150)
@given(
    st.sampled_from(LINEARIZATIONS),
    st.lists(st.text(), min_size=1, max_size=6),
    st.lists(st.one_of(st.sampled_from(SYMBOLS), st.text(), st.text(alphabet="()N"))),
)
def test_arbitrary_strings_are_repaired_to_trees_over_the_words(linearization, words, symbols):
    assert_repaired(words, symbols, linearization)


@pytest.mark.parametrize(
    "linearization", [LABELLED_BRACKETS, IN_ORDER], ids=["top-down", "in-order"]
)
@pytest.mark.parametrize(
    "symbols",
    [
        ["(S"] * 20_000,
        ["(D)"] + ["(S", "(NP"] * 10_000 + [")S"] * 20_000,
        ["(S", "(NP"] * 10_000 + ["(D)"] + [")NP"] * 100 + [")S"] * 100,
        ["(S", "(D)"] * 10_000 + [")VP", ")NP"] * 10_000,
        ["(S", "(D)", ")S"] * 7_000,
    ],
    ids=["openers", "closers", "unclosed", "extra closers", "roots"],
)
def test_long_and_deep_outputs_take_linear_time(linearization, symbols):
    # Quadratic time would take minutes here, and recursion would end at 1,000.
    for words in (["a", "b"], ["a"] * 5_000):
        tree, repairs = linearization.repair(words, symbols)
        assert [node[0] for step, node in walk(tree) if step == LEAF] == words
        assert repairs
