import pytest
from nltk import Tree

from keras_transformer.parsing.tree_survey import survey_trees
from keras_transformer.parsing.trees import LabelledBrackets

pytestmark = pytest.mark.once

GOLD = "(S (NP (DT the) (NN run)) (VP (VB run)))", "(S (NP (NN run)))"
SILVER = ("(S (NP (NP (FW chien))))",)


def survey(*texts, extra=(), keep_tags=True):
    passes = [iter([Tree.fromstring(text) for text in group]) for group in (texts, extra)]
    return survey_trees(passes[0], LabelledBrackets(keep_tags), passes[1])


def test_one_pass_finds_symbols_openings_and_tags():
    symbols, openings, counts = survey(*GOLD)
    assert symbols == sorted("(S )S (NP )NP (VP )VP (DT) (NN) (VB)".split())
    assert openings == 2
    assert counts == {"the": {"DT": 1}, "run": {"NN": 2, "VB": 1}}
    assert survey(*GOLD, keep_tags=False).symbols == sorted("(S )S (NP )NP (VP )VP (XX)".split())


def test_extra_trees_have_symbols_and_openings_but_no_tags_that_count():
    symbols, openings, counts = survey(*GOLD, extra=SILVER)
    assert symbols == sorted([*survey(*GOLD).symbols, "(FW)"])
    assert openings == 3 and counts == survey(*GOLD).tag_counts
