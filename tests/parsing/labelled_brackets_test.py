"""Trees as symbols with labels on both brackets, and back."""

import os
import re
from pathlib import Path

import pytest
from nltk import Tree

from keras_transformer.parsing.brackets import clean_tree, parse_trees, read_trees
from keras_transformer.parsing.linearization import (
    LABELLED_BRACKETS,
    LabelledBrackets,
    most_openings,
)

pytestmark = pytest.mark.once

linearize, rebuild = LABELLED_BRACKETS.linearize, LABELLED_BRACKETS.rebuild
WITHOUT_TAGS = LabelledBrackets(keep_tags=False)

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ runs)))"
WORDS = ["The", "dog", "runs"]
SYMBOLS = ["(S", "(NP", "(DT)", "(NN)", ")NP", "(VP", "(VBZ)", ")VP", ")S"]


def tree_of(text: str) -> Tree:
    (tree,) = parse_trees([text])
    return tree


def test_tags_are_symbols_or_one_placeholder():
    assert linearize(tree_of(DOG)) == (WORDS, SYMBOLS)
    words, symbols = WITHOUT_TAGS.linearize(tree_of(DOG))
    assert words == WORDS
    assert symbols == ["(S", "(NP", "(XX)", "(XX)", ")NP", "(VP", "(XX)", ")VP", ")S"]


def test_a_tree_of_one_leaf_is_one_symbol():
    assert linearize(tree_of("(UH Yes)")) == (["Yes"], ["(UH)"])
    assert rebuild(["Yes"], ["(UH)"]) == tree_of("(UH Yes)")


def test_rebuilding_puts_any_words_at_the_leaves():
    assert rebuild(WORDS, SYMBOLS) == tree_of(DOG)
    assert rebuild(("a b", "(", ""), SYMBOLS).leaves() == ["a b", "(", ""]


@pytest.mark.parametrize(
    "text",
    [
        "(NP (-LRB- -LRB-) (NN a) (-RRB- -RRB-))",
        "(PP (IN in) (NP (NP (NN a)) (NP (NP (NN b)))))",
        "(NN (NN a))",  # a constituent and a tag of one name
        "(TOP ($ $) (: --) (`` ``) (, ,) (WP$ whose))",
    ],
)
def test_rebuilding_restores_linearized_trees(text):
    assert rebuild(*linearize(tree_of(text))) == tree_of(text)


def test_labels_that_cannot_be_symbols_are_errors():
    for label in ("", "N P", "N)", "(N", "N\n"):
        for tree in (Tree(label, ["a"]), Tree(label, [Tree("NN", ["a"])])):
            with pytest.raises(ValueError, match="Received: label="):
                linearize(tree)
    with pytest.raises(ValueError, match="no tag of its own"):
        linearize(Tree("S", ["a", "b"]))


def test_symbols_are_read_as_steps():
    assert LABELLED_BRACKETS.read_symbol("(NP") == ("open", "NP")
    assert LABELLED_BRACKETS.read_symbol("(NP)") == ("leaf", "NP")
    assert LABELLED_BRACKETS.read_symbol(")NP") == ("close", "NP")
    assert LABELLED_BRACKETS.read_symbol("(``)") == ("leaf", "``")
    for unknown in ("", "(", ")", "()", "NP", "(N P", "((N", "))N", "(N))", ")N)", "(N\n", "<s>"):
        assert LABELLED_BRACKETS.read_symbol(unknown) == (None, None)


def test_most_openings_counts_brackets_opened_in_a_row():
    trees = [tree_of(DOG), tree_of("(S (A (B (N a) (C (D (N b))))))")]
    assert [most_openings(tree) for tree in trees] == [2, 3]
    assert most_openings(tree_of("(S (N a) (A (N b)))")) == 1


def test_deep_trees_are_rebuilt():
    symbols = ["(NP"] * 20_000 + ["(NN)"] + [")NP"] * 20_000
    assert linearize(rebuild(["a"], symbols)) == (["a"], symbols)


# Real treebanks

CORPORA = os.environ.get("KERAS_TRANSFORMER_DATA")


@pytest.mark.skipif(
    not CORPORA, reason="set KERAS_TRANSFORMER_DATA to the folder that holds craft/ and ptb_sample/"
)
@pytest.mark.parametrize(
    "files, size",
    [
        pytest.param("craft/train.mrg", 18_951, marks=pytest.mark.slow),
        pytest.param("ptb_sample/mrg/*.mrg", 3_914, marks=pytest.mark.slow),
        ("craft/dev.mrg", 2_780),
    ],
)
def test_rebuilding_real_trees_is_the_identity(files, size):
    count, seen = 0, set()
    for path in Path(CORPORA).glob(files):
        for original in read_trees(path):
            tree = clean_tree(original)
            count += 1
            words, symbols = linearize(tree)
            assert rebuild(words, symbols) == tree
            seen.update(symbols)
            without_tags = [re.sub(r"\(.*\)", "(XX)", symbol) for symbol in symbols]
            assert WITHOUT_TAGS.linearize(tree) == (words, without_tags)
            assert linearize(rebuild(words, without_tags)) == (words, without_tags)
    assert count == size
    # No trace, function tag or index is left.
    for symbol in seen:
        assert re.fullmatch(
            r"[A-Z]+\$?|-[LR]RB-|[.,:$#]|``|''", LABELLED_BRACKETS.read_symbol(symbol)[1]
        )
