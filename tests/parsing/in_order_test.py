"""Trees in-order: each constituent is opened after its first child."""

import itertools
import os
import random
from pathlib import Path

import keras
import pytest
from nltk import Tree

from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import clean_tree, read_trees, to_bracketed
from keras_transformer.parsing.linearization import (
    InOrderBrackets,
    LabelledBrackets,
    Linearization,
    most_openings,
)
from keras_transformer.parsing.traversal import LEAF, walk
from keras_transformer.parsing.tree_repair import repair
from tests.parsing.small_trees import symbols_of, trees
from tests.parsing.unlabelled_closers import UnlabelledClosers

pytestmark = pytest.mark.once

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ runs)))"
WORDS = ["The", "dog", "runs"]
SYMBOLS = ["(DT)", "(NP", "(NN)", ")NP", "(S", "(VBZ)", "(VP", ")VP", ")S"]
IN_ORDER = InOrderBrackets()


@keras.saving.register_keras_serializable(package="tests")
class InOrderUnlabelled(UnlabelledClosers):
    order = "in-order"


UNLABELLED = InOrderUnlabelled()


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        (DOG, " ".join(SYMBOLS)),
        ("(UH Yes)", "(UH)"),
        ("(S (NP (NN a)))", "(NN) (NP )NP (S )S"),
        ("(S (A (B (N a)) (N b)) (C (N c)))", "(N) (B )B (A (N) )A (S (N) (C )C )S"),
        ("(S (N a) (A (N b) (B (N c))))", "(N) (S (N) (A (N) (B )B )A )S"),
        ("(NP (NN a) (CC b) (NP (NN c)))", "(NN) (NP (CC) (NN) (NP )NP )NP"),
    ],
)
def test_symbols_equal_those_written_by_hand(text, symbols):
    tree = Tree.fromstring(text)
    assert IN_ORDER.linearize(tree) == (tree.leaves(), symbols.split())
    assert IN_ORDER.rebuild(tree.leaves(), symbols.split()) == tree
    without_tags = InOrderBrackets(keep_tags=False).linearize(tree)[1]
    assert len(without_tags) == len(symbols.split())
    assert {symbol for symbol in without_tags if symbol.endswith(")")} == {"(XX)"}


@pytest.mark.parametrize("linearization", [IN_ORDER, UNLABELLED], ids=["labelled", "unlabelled"])
def test_rebuilding_restores_in_order_trees(linearization):
    for tree in trees():
        words, symbols = linearization.linearize(tree)
        assert linearization.rebuild(words, symbols) == tree
        assert repair(words, symbols, linearization) == (tree, {})


def test_the_symbols_are_those_of_the_other_order():
    top_down = LabelledBrackets()
    for tree in trees():
        assert sorted(IN_ORDER.linearize(tree)[1]) == sorted(top_down.linearize(tree)[1])
    assert symbols_of(IN_ORDER) == symbols_of(top_down)


@pytest.mark.parametrize(
    ("words", "symbols", "part"),
    [
        ("a", "(S (NN) )S", "symbol 0, '(S', comes where there is no child to open it around"),
        ("a", "(NN) (S (NP )NP )S", "symbol 2, '(NP', comes where there is no child"),
        ("a b", "(NN) (NN)", "symbol 1, '(NN)', comes after the end"),
        ("a", "(NN) )S", "symbol 1, ')S', comes after the end"),
        ("a", ")S (NN)", "symbol 0, ')S', comes where nothing is open"),
        ("a", "(NN) (S )NP", "symbol 2, ')NP', comes where a S is open"),
        ("a b", "(NN) (S )S", "1 leaves for 2 words"),
        ("a", "(NN) (S (NN) )S", "more leaves than the 1 words"),
        ("a", "(NN) (S )S (NP", "the NP opened last is never closed"),
        ("a", "(NN) <s>", "symbol 1, '<s>', is not one of"),
        ("", "", "neither symbols nor words"),
    ],
)
def test_not_a_tree(words, symbols, part):
    with pytest.raises(UserError) as error:
        IN_ORDER.rebuild(words.split(), symbols.split())
    assert part in str(error.value)


def test_each_tree_has_one_sequence_and_each_sequence_one_tree():
    symbols = ["(x)", "(A", "(B", ")A", ")B"]
    found = []
    for length in range(1, 8):
        for sequence in itertools.product(symbols, repeat=length):
            words = ["w"] * sequence.count("(x)")
            try:
                tree = IN_ORDER.rebuild(words, sequence)
            except UserError:
                continue
            assert IN_ORDER.linearize(tree) == (words, list(sequence))
            # Its sequence from the top down is a permutation of the same symbols.
            found.append(tuple(LabelledBrackets().linearize(tree)[1]))
    # All trees, as there are as many of them from the top down.
    expected = 0
    for length in range(1, 8):
        for sequence in itertools.product(symbols, repeat=length):
            try:
                LabelledBrackets().rebuild(["w"] * sequence.count("(x)"), sequence)
            except UserError:
                continue
            expected += 1
    assert len(found) == len({*found}) == expected > 50


def test_no_depth_is_too_great():
    symbols = ["(NN)"] + ["(NP", ")NP"] * 20_000
    assert IN_ORDER.linearize(IN_ORDER.rebuild(["a"], symbols)) == (["a"], symbols)
    symbols = ["(NN)"] + ["(NP", "(NN)"] * 10_000 + [")NP"] * 10_000
    words = ["a"] * 10_001
    assert IN_ORDER.linearize(IN_ORDER.rebuild(words, symbols)) == (words, symbols)


def test_most_openings_counts_brackets_opened_after_a_word():
    trees = [Tree.fromstring(DOG), Tree.fromstring("(S (A (B (N a) (C (D (N b))))) (E (N c)))")]
    assert most_openings(trees[0], IN_ORDER) == 1
    # (N) (B (N) (D )D (C )C )B (A )A (S (N) (E )E )S: four after the second word.
    assert most_openings(trees[1], IN_ORDER) == 4 and most_openings(trees[1]) == 3


def test_in_order_linearizations_survive_serialization():
    for linearization in (InOrderBrackets(), InOrderBrackets(keep_tags=False), UNLABELLED):
        again = Linearization.deserialize(linearization.serialize())
        assert type(again) is type(linearization) and again.order == "in-order"
        assert again.get_config() == linearization.get_config()


# Repairs


@pytest.mark.parametrize(
    ("words", "symbols", "expected", "repairs"),
    [
        ("a", "(S (D) )S", "(S (D a))", {"misplaced_opener": 1}),
        ("a", "(D) (A (B )B )A", "(A (B (D a)))", {"misplaced_opener": 1}),
        ("a b", "(D) (NP )NP (S (V) (VP", "(S (NP (D a)) (VP (V b)))", {"missing_closer": 2}),
        (
            *("a b c d", "(D) (VP (P) (PP (V) )VP (S (X) )S"),
            *("(S (VP (D a) (PP (P b) (V c))) (X d))", {"missing_closer": 1}),
        ),
        ("a b", "(D) (NP )VP (S (V) )S", "(S (NP (D a)) (V b))", {"wrong_closer": 1}),
        ("a b", "(D) (NP )NP )NP (S (V) )S", "(S (NP (D a)) (V b))", {"extra_closer": 1}),
        ("a b", "(D) (V) )S", "(S (D a) (V b))", {"missing_opener": 1}),
        ("a b", "(D) (S )S (V) (VP )VP", "(TOP (S (D a)) (VP (V b)))", {"several_roots": 1}),
        ("a b c", "(D) (V) (VP )VP (X)", "(VP (D a) (V b) (X c))", {"several_roots": 1}),
        # Leaves
        ("a b", "(NP )NP (S (V) )S", "(S (NP (XX a)) (V b))", {"missing_leaf": 1}),
        ("a b", "(D) (S (NP )NP )S", "(S (D a) (NP (XX b)))", {"missing_leaf": 1}),
        ("a b c", "(D) (NP )NP (S (V) )S", "(S (NP (D a) (XX b)) (V c))", {"missing_leaf": 1}),
        ("a , b", "(,) (S (V) )S", "(S (XX a) (, ,) (V b))", {"missing_leaf": 1}),
        (
            *("a b c d", "(D) (NP (N) )NP (S (VP"),
            *(
                "(S (NP (D a) (N b)) (VP (XX c)) (XX d))",
                {"missing_leaf": 2, "missing_closer": 2},
            ),
        ),
        ("a b", "(A) (S (B) (C) )S", "(S (A a) (C b))", {"extra_leaf": 1}),
        (
            *("a b", "(A) (S (B) (NP (C) )NP )S"),
            *("(S (A a) (NP (C b)))", {"extra_leaf": 1}),
        ),
        (
            *("a b", "(A) (S (B) (NP )NP (VP (C) )VP )S"),
            *("(S (A a) (VP (C b)))", {"extra_leaf": 1, "empty_constituent": 1}),
        ),
        ("a b", "", "(TOP (XX a) (XX b))", {"missing_leaf": 2, "several_roots": 1}),
        ("a", "<s> (A) (S )S NP", "(S (A a))", {"unknown_symbol": 2}),
    ],
)
def test_repairs_by_hand(words, symbols, expected, repairs):
    tree, counts = repair(words.split(), symbols.split(), IN_ORDER)
    assert to_bracketed(tree) == expected and dict(counts) == repairs


@pytest.mark.parametrize("linearization", [IN_ORDER, UNLABELLED], ids=["labelled", "unlabelled"])
def test_any_symbols_are_repaired(linearization):
    draw = random.Random(0)
    symbols = ["(S", "(NP", "(D)", "(N)", ")S", ")NP", ")", ""]
    num_mended = 0
    for _ in range(6_000):
        words = draw.choices(["a", "b", ","], k=draw.randint(1, 4))
        drawn = draw.choices(symbols, k=draw.randint(0, 12))
        num_mended += check(words, drawn, linearization)
    assert 5_400 < num_mended < 6_000


def test_damaged_trees_are_repaired():
    draw = random.Random(0)
    inventory = symbols_of(IN_ORDER)
    num_mended = 0
    for tree in trees():
        words, symbols = IN_ORDER.linearize(tree)
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(symbols) + 1)
            symbols[place : place + draw.randint(0, 1)] = draw.choices(
                inventory, k=draw.randint(0, 1)
            )
        num_mended += check(words, symbols, IN_ORDER)
    assert num_mended > len(trees()) / 2


def check(words, symbols, linearization):
    """Checks a repair; returns whether there was something to mend."""
    tree, repairs = repair(words, symbols, linearization)
    assert tree.leaves() == words
    assert all(number > 0 for number in repairs.values())
    assert repair(*linearization.linearize(tree), linearization) == (tree, {})
    if repairs:
        with pytest.raises(UserError):
            linearization.rebuild(words, symbols)
    else:
        assert linearization.rebuild(words, symbols) == tree
    return bool(repairs)


@pytest.mark.parametrize(
    "symbols",
    [
        ["(S"] * 20_000,
        ["(D)"] + ["(S", "(NP"] * 10_000 + [")S"] * 20_000,
        *(
            pytest.param(symbols, marks=pytest.mark.slow)
            for symbols in (
                ["(D)", "(S"] * 10_000 + [")VP", ")NP"] * 10_000,
                ["(D)"] + ["(S", ")S"] * 10_000,
                [")S"] * 20_000,
            )
        ),
    ],
)
def test_long_and_deep_output(symbols):
    # Quadratic time would take minutes here, and recursion would end at 1,000.
    for words in (["a", "b"], ["a"] * 5_000):
        tree, repairs = repair(words, symbols, IN_ORDER)
        assert [node[0] for step, node in walk(tree) if step == LEAF] == words
        assert repairs


# Real treebanks

CORPORA = os.environ.get("KERAS_TRANSFORMER_DATA")


@pytest.mark.skipif(
    not CORPORA, reason="set KERAS_TRANSFORMER_DATA to the folder that holds craft/ and ptb_sample/"
)
@pytest.mark.parametrize(
    ("files", "size"),
    [
        pytest.param("craft/train.mrg", 18_951, marks=pytest.mark.slow),
        pytest.param("ptb_sample/mrg/*.mrg", 3_914, marks=pytest.mark.slow),
        pytest.param("craft/dev.mrg", 2_780, marks=pytest.mark.slow),
    ],
)
def test_rebuilding_real_trees_is_the_identity(files, size):
    count = 0
    for path in Path(CORPORA).glob(files):
        for original in read_trees(path):
            tree = clean_tree(original)
            count += 1
            for linearization in (IN_ORDER, UNLABELLED):
                words, symbols = linearization.linearize(tree)
                assert linearization.rebuild(words, symbols) == tree
                assert repair(words, symbols, linearization) == (tree, {})
    assert count == size
