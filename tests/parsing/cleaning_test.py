"""Cleaning treebank trees: each case by hand."""

import pytest

from keras_transformer.parsing.brackets import clean_label, clean_tree, parse_trees, to_bracketed

pytestmark = pytest.mark.once


def clean(text: str, **options) -> str | None:
    (tree,) = parse_trees([text])
    cleaned = clean_tree(tree, **options)
    assert to_bracketed(tree) == text  # The tree that was given is as it was.
    return None if cleaned is None else to_bracketed(cleaned)


@pytest.mark.parametrize(
    "label, bare",
    [
        ("NP", "NP"),
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("NP-SBJ=1-3", "NP"),
        ("ADVP|PRT", "ADVP"),
        ("NNS|NN", "NNS"),
        ("PRP$", "PRP$"),
        ("-NONE-", "-NONE-"),
        ("-LRB-", "-LRB-"),
        ("-RCB-", "-RCB-"),
        ("``", "``"),
        (":", ":"),
        ("-", "-"),
        ("=", "="),
        ("|", "|"),
        ("", ""),
    ],
)
def test_functions_and_indices_are_removed_from_labels(label, bare):
    assert clean_label(label) == bare


@pytest.mark.parametrize("outer", ["(", "(TOP", "(ROOT", "(S1", "(ROOT (TOP"])
def test_outer_brackets_are_removed_from_a_single_tree(outer):
    ends = ")" * outer.count("(")
    assert clean(f"{outer} (S (NN a) (NN b)){ends}") == "(S (NN a) (NN b))"
    assert clean(f"{outer} (UH Yes){ends}") == "(UH Yes)"
    assert clean(f"{outer} (S (NN a)) (. .){ends}") == "(TOP (S (NN a)) (. .))"


def test_outer_bracket_of_one_child_and_a_trace():
    assert clean("( (S (NN a)) (NP (-NONE- *)))") == "(S (NN a))"


def test_names_of_outer_brackets_may_stand_inside():
    assert clean("(S (TOP (NN a)))") == "(S (TOP (NN a)))"


def test_traces_go_with_what_they_leave_empty():
    assert clean("(S (NP-SBJ (-NONE- *)) (VP (VB go) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))))") == (
        "(S (VP (VB go)))"
    )
    assert clean("( (S (NP (-NONE- *)) (VP (-NONE- *?*))))") is None
    assert clean("(-NONE- *)") is None


def test_words_that_look_like_traces_stay():
    assert clean("(NP (SYM *) (-LRB- -NONE-) (CD 0))") == "(NP (SYM *) (-LRB- -NONE-) (CD 0))"


def test_everything_at_once():
    text = (
        "( (S-TPC-1 (NP-SBJ-2 (DT The) (-LRB- -LRB-) (NN|NNS dog) (-RRB- -RRB-)) "
        "(VP=3 (VBZ runs) (ADVP|PRT (RB off)) (NP-2 (-NONE- *T*-1)))))"
    )
    assert clean(text) == (
        "(S (NP (DT The) (-LRB- -LRB-) (NN dog) (-RRB- -RRB-)) (VP (VBZ runs) (ADVP (RB off))))"
    )


@pytest.mark.parametrize(
    "text, collapsed",
    [
        ("(S (NP (NP (NN dog))))", "(S (NP (NN dog)))"),
        ("(NP (NP (NP (NN a) (NN b))))", "(NP (NN a) (NN b))"),
        ("(NP (NP-1 (-NONE- *)) (NP-2 (NN a)))", "(NP (NN a))"),
        ("(S (VP (S (VB go) (PRT up))))", "(S (VB go) (PRT up))"),
        ("(X (S (VP (S (VP (VB go))))))", "(X (S (VP (VB go))))"),
        # No loops:
        ("(NP (NP (NN a)) (NN b))", "(NP (NP (NN a)) (NN b))"),
        ("(S (VP (VB go)))", "(S (VP (VB go)))"),
        ("(X (X dog))", "(X (X dog))"),  # A tag is no constituent.
    ],
)
def test_unary_loops_are_collapsed_only_on_request(text, collapsed):
    assert clean(text, collapse_unary=True) == collapsed
    assert len(clean(text)) >= len(collapsed)


def test_loops_stay_unless_asked():
    assert clean("(S (NP (NP (NN dog))))") == "(S (NP (NP (NN dog))))"


@pytest.mark.parametrize("collapse_unary", [False, True])
def test_no_depth_is_too_great(collapse_unary):
    labels = ["A", "B", "C"] * 5_000
    text = "".join(f"({label} " for label in labels) + "(NN dog)" + ")" * len(labels)
    cleaned = "(A (B (C (NN dog))))" if collapse_unary else text
    assert clean(text, collapse_unary=collapse_unary) == cleaned
