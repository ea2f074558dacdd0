"""Trees in-order: each constituent is opened after its first child."""

import itertools
import os
from pathlib import Path

import pytest
from nltk import Tree

from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import clean_tree, read_trees
from keras_transformer.parsing.linearization import (
    InOrderBrackets,
    LabelledBrackets,
    Linearization,
    most_openings,
)
from tests.parsing.small_trees import symbols_of, trees
from tests.parsing.unlabelled_closers import InOrderUnlabelled

pytestmark = pytest.mark.once

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ runs)))"
WORDS = ["The", "dog", "runs"]
SYMBOLS = ["(DT)", "(NP", "(NN)", ")NP", "(S", "(VBZ)", "(VP", ")VP", ")S"]
IN_ORDER = InOrderBrackets()


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
        assert linearization.repair(words, symbols) == (tree, {})


def test_both_orders_have_the_same_symbols():
    top_down = LabelledBrackets()
    for tree in trees():
        assert sorted(IN_ORDER.linearize(tree)[1]) == sorted(top_down.linearize(tree)[1])
    assert symbols_of(IN_ORDER) == symbols_of(top_down)


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
    # Both orders have the same number of trees.
    expected = 0
    for length in range(1, 8):
        for sequence in itertools.product(symbols, repeat=length):
            try:
                LabelledBrackets().rebuild(["w"] * sequence.count("(x)"), sequence)
            except UserError:
                continue
            expected += 1
    assert len(found) == len({*found}) == expected > 50


def test_deep_in_order_trees_are_rebuilt():
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
                assert linearization.repair(words, symbols) == (tree, {})
    assert count == size
