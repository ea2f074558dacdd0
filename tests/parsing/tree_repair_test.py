"""Repairs: each kind by hand, and any symbols at all."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.linearization import LABELLED_BRACKETS
from keras_transformer.parsing.traversal import walk
from keras_transformer.parsing.tree_repair import repair

pytestmark = pytest.mark.once

CASES = {
    "nothing wrong": ("a b", "(S (NP (D) )NP (V) )S", "(S (NP (D a)) (V b))", {}),
    "a leaf alone": ("a", "(D)", "(D a)", {}),
    # Closers
    "missing at the end": (
        *("a b", "(S (NP (D) )NP (VP (V)"),
        *("(S (NP (D a)) (VP (V b)))", {"missing_closer": 2}),
    ),
    "missing inside": (
        *("a b", "(S (NP (D) (VP (V) )VP )S"),
        *("(S (NP (D a) (VP (V b))))", {"missing_closer": 1}),
    ),
    "missing, and all closed after it": (
        *("a b c", "(S (VP (PP (NP (D) )PP (V) )VP (X) )S"),
        *("(S (VP (PP (NP (D a))) (V b)) (X c))", {"missing_closer": 1}),
    ),
    "wrong label": (
        *("a b", "(S (NP (D) )VP (VP (V) )VP )S"),
        *("(S (NP (D a)) (VP (V b)))", {"wrong_closer": 1}),
    ),
    "wrong label, that of the root": (
        *("a b", "(S (NP (D) )S (VP (V) )VP )S"),
        *("(S (NP (D a)) (VP (V b)))", {"wrong_closer": 1}),
    ),
    "crossing": (
        *("a b c", "(S (NP (D) (VP (V) )NP (X) )VP )S"),
        *("(S (NP (D a) (VP (V b)) (X c)))", {"wrong_closer": 2}),
    ),
    "extra, of another label": (
        *("a b", "(S (NP (D) )NP )VP (VP (V) )VP )S"),
        *("(S (NP (D a)) (VP (V b)))", {"extra_closer": 1}),
    ),
    "extra, of the root": (
        *("a b", "(S (NP (D) )NP )S (V) )S"),
        *("(S (NP (D a)) (V b))", {"extra_closer": 1}),
    ),
    "extra at the end": ("a", "(S (D) )S )S", "(S (D a))", {"extra_closer": 1}),
    "extra at the start": ("a", ")S (S (D) )S", "(S (D a))", {"extra_closer": 1}),
    # Openers
    "missing at the root": (
        *("a b", "(NP (D) )NP (VP (V) )VP )S"),
        *("(S (NP (D a)) (VP (V b)))", {"missing_opener": 1}),
    ),
    "missing at the start": (
        *("a b c", "(D) (N) )NP (VP (V) )VP )S"),
        *("(S (NP (D a) (N b)) (VP (V c)))", {"missing_opener": 2}),
    ),
    "extra": (
        *("a b", "(S (NP (D) (NP (V) )NP )S"),
        *("(S (NP (D a) (NP (V b))))", {"missing_closer": 1}),
    ),
    "empty": (
        *("a", "(S (NP )NP (D) (VP (X )X )VP )S"),
        *("(S (D a))", {"empty_constituent": 3}),
    ),
    "empty and never closed": (
        *("a", "(S (D) )S (S (NP"),
        *("(S (D a))", {"empty_constituent": 2}),
    ),
    # Roots
    "several": (
        *("a b", "(S (D) )S (S (V) )S"),
        *("(TOP (S (D a)) (S (V b)))", {"several_roots": 1}),
    ),
    "one among leaves": (
        *("a b c", "(D) (S (V) )S (X)"),
        *("(S (D a) (V b) (X c))", {"several_roots": 1}),
    ),
    "nothing but leaves": ("a b", "(D) (V)", "(TOP (D a) (V b))", {"several_roots": 1}),
    # Leaves
    "missing in an empty constituent": (
        *("a b", "(S (NP )NP (V) )S"),
        *("(S (NP (XX a)) (V b))", {"missing_leaf": 1}),
    ),
    "missing in the middle": (
        *("a b c", "(S (NP (D) )NP (V) )S"),
        *("(S (NP (D a) (XX b)) (V c))", {"missing_leaf": 1}),
    ),
    "missing before a mark": (
        *("a b c , d e", "(S (NP (D) (N) )NP (,) (V) (X) )S"),
        *("(S (NP (D a) (XX b) (N c)) (, ,) (V d) (X e))", {"missing_leaf": 1}),
    ),
    "missing after a mark": (
        *("a b , d e", "(S (NP (D) (N) )NP (,) (V) )S"),
        *("(S (NP (D a) (N b)) (, ,) (V d) (XX e))", {"missing_leaf": 1}),
    ),
    "missing at the start, before a mark": (
        *("a , b", "(S (,) (V) )S"),
        *("(S (XX a) (, ,) (V b))", {"missing_leaf": 1}),
    ),
    "missing where a mark agrees from the end only": (
        # As many marks in tags as in words, but in another order at the start.
        *("; , a b c .", "(S (,) (;) (A) (B) (.) )S"),
        *("(S (, ;) (; ,) (XX a) (A b) (B c) (. .))", {"missing_leaf": 1}),
    ),
    "missing at the end, broken off": (
        *("a b c d", "(S (NP (D) (N) )NP (VP (VP"),
        *(
            "(S (NP (D a) (N b)) (XX c) (XX d))",
            {"missing_leaf": 2, "empty_constituent": 2, "missing_closer": 1},
        ),
    ),
    "missing, all": ("a b", "(S (NP )NP )S", "(S (NP (XX a) (XX b)))", {"missing_leaf": 2}),
    "missing, all, with one closer": (
        *("a b", ")S"),
        *("(S (XX a) (XX b))", {"missing_leaf": 2, "missing_opener": 1}),
    ),
    "extra leaf": ("a b", "(S (A) (B) (C) )S", "(S (A a) (C b))", {"extra_leaf": 1}),
    "extra leaf, alone": (
        *("a b", "(S (A) (NP (B) )NP (C) )S"),
        *("(S (A a) (C b))", {"extra_leaf": 1, "empty_constituent": 1}),
    ),
    "extra leaf before a mark": (
        *("a , b c", "(S (A) (B) (,) (C) (D) )S"),
        *("(S (A a) (, ,) (C b) (D c))", {"extra_leaf": 1}),
    ),
    "extra leaf after the end": ("a", "(S (A) )S (B)", "(S (A a))", {"extra_leaf": 1}),
    # No symbols
    "nothing at all": (
        *("a b", ""),
        *("(TOP (XX a) (XX b))", {"missing_leaf": 2, "several_roots": 1}),
    ),
    "nothing at all for one word": ("a", "", "(XX a)", {"missing_leaf": 1}),
    "unknown strings": (
        *("a", "<s> (S ( (A) ) )S NP"),
        *("(S (A a))", {"unknown_symbol": 4}),
    ),
}


@pytest.mark.parametrize("words, symbols, expected, repairs", CASES.values(), ids=CASES)
def test_repairs_equal_those_written_by_hand(words, symbols, expected, repairs):
    tree, counts = repair(words.split(), symbols.split())
    assert to_bracketed(tree) == expected
    assert counts == repairs and dict(counts) == repairs


def test_repairing_needs_at_least_one_word():
    with pytest.raises(ValueError, match="at least one word"):
        repair([], ["(S", ")S"])


# Any symbols

LABELS = ["S", "NP", "VP"]
SYMBOLS = [form.format(label) for label in LABELS for form in ("({}", "({})", "){}")]
SYMBOLS += ["(,)", "(.)", "(", "NP", ""]
WORDS = ["a", "b", ",", ".", "-LRB-", "(", "x y"]


def is_well_formed(num_words: int, symbols: list[str]) -> bool:
    """By cutting leaves and then innermost constituents out until one is left."""
    if [LABELLED_BRACKETS.step_of(symbol)[0] for symbol in symbols].count("leaf") != num_words:
        return False
    rest = [
        "leaf" if LABELLED_BRACKETS.step_of(symbol)[0] == "leaf" else symbol for symbol in symbols
    ]
    while len(rest) > 1:
        for start, symbol in enumerate(rest):
            end = start + 1
            while end < len(rest) and rest[end] == "leaf":
                end += 1
            if symbol[:1] == "(" and end > start + 1 and rest[end : end + 1] == [")" + symbol[1:]]:
                rest[start : end + 1] = ["leaf"]
                break
        else:
            return False
    return rest == ["leaf"]


def check(words: list[str], symbols: list[str]) -> bool:
    """Checks a repair; returns whether there was something to mend."""
    tree, repairs = repair(words, symbols)
    assert [node[0] for step, node in walk(tree) if step == "leaf"] == words
    assert all(node.label() and len(node) for _, node in walk(tree))
    assert all(number > 0 for number in repairs.values())
    assert bool(repairs) != is_well_formed(len(words), symbols)
    # What comes out is a tree that needs no repair.
    rebuilt = LABELLED_BRACKETS.rebuild(*LABELLED_BRACKETS.linearize(tree))
    assert rebuilt == tree and repair(*LABELLED_BRACKETS.linearize(tree)) == (tree, {})
    if not repairs:
        assert tree == LABELLED_BRACKETS.rebuild(words, symbols)
    else:
        with pytest.raises(ValueError):
            LABELLED_BRACKETS.rebuild(words, symbols)
    return bool(repairs)


def test_random_symbols_are_repaired_to_trees_over_the_words():
    draw = random.Random(0)
    mended = 0
    for _ in range(3_000):
        words = draw.choices(WORDS, k=draw.randint(1, 8))
        mended += check(words, draw.choices(SYMBOLS, k=draw.randint(0, 25)))
    assert 2_700 < mended < 3_000


def random_tree(draw: random.Random, depth: int = 0) -> list[str]:
    if depth == 4 or draw.random() < 0.3:
        return [draw.choice(["(D)", "(N)", "(,)", "(.)"])]
    label = draw.choice(LABELS)
    children = [random_tree(draw, depth + 1) for _ in range(draw.randint(1, 3))]
    return [f"({label}", *(symbol for child in children for symbol in child), f"){label}"]


def test_trees_and_damaged_trees():
    draw = random.Random(0)
    for _ in range(1_000):
        symbols = random_tree(draw)
        num_words = sum(LABELLED_BRACKETS.step_of(symbol)[0] == "leaf" for symbol in symbols)
        words = draw.choices(WORDS, k=num_words)
        assert not check(words, symbols)
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(symbols) + 1)
            symbols[place : place + draw.randint(0, 1)] = draw.choices(
                SYMBOLS, k=draw.randint(0, 1)
            )
        check(words, symbols)


@settings(max_examples=150)
@given(
    st.lists(st.text(), min_size=1, max_size=6),
    st.lists(st.one_of(st.sampled_from(SYMBOLS), st.text(), st.text(alphabet="()N"))),
)
def test_arbitrary_strings_are_repaired_to_trees_over_the_words(words, symbols):
    check(words, symbols)


@pytest.mark.parametrize(
    "symbols",
    [
        ["(S"] * 20_000,
        ["(S", "(NP"] * 10_000 + ["(D)"] + [")S"] * 20_000,
        ["(S", "(NP"] * 10_000 + ["(D)"] + [")NP"] * 100 + [")S"] * 100,
        *(
            pytest.param(symbols, marks=pytest.mark.slow)
            for symbols in (
                [")S"] * 20_000,
                ["(D)"] * 20_000,
                ["(S", "(D)"] * 10_000 + [")VP", ")NP"] * 10_000,
                ["(S", "(D)", ")S"] * 7_000,
                ["(S", ")S"] * 10_000,
            )
        ),
    ],
)
def test_long_and_deep_output(symbols):
    # Quadratic time would take minutes here, and recursion would end at 1,000.
    for words in (["a", "b"], ["a"] * 5_000):
        tree, repairs = repair(words, symbols)
        assert [node[0] for step, node in walk(tree) if step == "leaf"] == words
        assert repairs
