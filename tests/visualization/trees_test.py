"""Trees, beams and where parses went wrong, as text and as pictures."""

import random
from xml.etree import ElementTree

import pytest
from nltk import Tree

import keras_transformer as kt
from keras_transformer.decoding.beam_trace import BeamHistory, Hypothesis
from keras_transformer.parsing.evalb import find_differences
from keras_transformer.visualization import (
    BeamTree,
    TreeComparison,
    explain_translation,
    tree_svg,
    tree_text,
)
from keras_transformer.visualization.drawing import LIGHT, text_width
from tests.helpers import error_of
from tests.parsing.small_trees import trees
from tests.small_corpus import new_model, tokenizer

pytestmark = pytest.mark.once

GOLD = Tree.fromstring(
    "(S (NP (DT The) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat)) (ADVP (RB here))) (. .))"
)
PREDICTED = Tree.fromstring(
    "(S (NP (DT The) (NN dog)) (VP (VBZ sees) (NP (NP (DT a) (NN cat)) (RB here))) (. ,))"
)


def words_in(picture):
    return " ".join("".join(x.itertext()) for x in ElementTree.fromstring(picture).iter() if x.text)


# Beams

HISTORY = BeamHistory(
    [
        Hypothesis((5,), "continued", -0.5, 1),
        Hypothesis((6,), "dropped", -1.5, 1),
        Hypothesis((5, 7), "continued", -0.7, 2),
        Hypothesis((5, 8), "live", -2.0, 2),
        Hypothesis((5, 7, 2), "finished", -0.6),
        Hypothesis((5, 2), "finished", -1.25),
    ],
    [Hypothesis((5, 7, 2), "finished", -0.6)],
    3,
)
NAMES = {5: "ein", 6: "<&>", 7: "Hund", 8: "Haus", 2: "</s>"}


def test_a_beam_in_letters():
    assert str(BeamTree(HISTORY, NAMES)) == (
        "ein\n├─ Hund </s> ✓ 1. -0.60\n├─ </s> ✓ -1.25\n└─ Haus … -2.00\n<&> ✗ -1.50"
    )
    assert str(BeamTree(HISTORY)).startswith("5\n├─ 7 2 ✓")
    assert repr(BeamTree(HISTORY)) == "<BeamTree of 3 steps: 2 finished, 1 live, 1 dropped>"


def test_a_beam_as_a_picture(tmp_path):
    BeamTree(HISTORY, NAMES).save(tmp_path / "beam.svg")
    root = ElementTree.fromstring((tmp_path / "beam.svg").read_text("utf-8"))
    pieces = [x for x in root.iter() if x.tag.endswith("tspan")]
    shown = {"".join(x.itertext()).replace("\xa0", " "): x.get("class") for x in pieces}
    assert shown["eincontinued, -0.500"] == "good"  # on the way to the result
    assert shown["<&>dropped, -1.500"] == shown[" ✗ -1.50"] == "muted"
    assert shown["</s>finished, -0.600"] == shown[" ✓ 1. -0.60"] == "good"
    assert shown["Hauslive, -2.000"] == "accent"
    rows = [x for x in root.iter() if x.tag.endswith("}text")]
    assert len(rows) == 4 + 1 + 3 + 1  # the lines of the text, and the three signs


def test_the_beam_of_a_translator(tmp_path):
    translator = kt.Translator(new_model(), tokenizer(), beam_size=3, extra_length=4)
    beam = explain_translation(translator, "the dog runs").beam
    (((_, score),),) = translator.n_best(["the dog runs"], 1)
    assert f"✓ 1. {score:.2f}" in str(beam)
    beam.save(tmp_path / "beam.txt")
    assert (tmp_path / "beam.txt").read_text("utf-8") == f"{beam}\n"
    with pytest.raises(kt.UserError, match="`path` must end with .svg or .txt. .*beam.png"):
        beam.save(tmp_path / "beam.png")


# Trees


def test_a_tree_as_letters_and_as_a_picture():
    assert "NP" in tree_text(GOLD) and "dog" in tree_text(GOLD)
    picture = tree_svg(GOLD)
    assert "\n" not in picture and "prefers-color-scheme: dark" in picture
    assert {*GOLD.leaves(), "ADVP"} <= {*words_in(picture).split()}
    both = ElementTree.fromstring(tree_svg(GOLD, PREDICTED))
    assert [x.get("y") for x in both.iter() if x.get("class") == "kt"] == [None, "0", "216.0"]


def test_where_a_parse_went_wrong(tmp_path):
    comparison = TreeComparison(GOLD, PREDICTED)
    assert comparison.message == "" and comparison.num_matched == 4
    assert [str(x) for x in comparison.missing] == ["ADVP (here)"]
    assert [str(x) for x in comparison.wrong] == ["NP (a cat here)"]
    assert comparison.wrong_tags == []
    assert "NP*" in str(comparison) and "ADVP*" in str(comparison)
    assert str(comparison).endswith("missing: ADVP (here)\nwrong: NP (a cat here)")
    assert repr(comparison) == "<TreeComparison: 4 brackets are correct, 1 missing, 1 wrong>"
    comparison.save(tmp_path / "comparison.svg")
    picture = (tmp_path / "comparison.svg").read_text("utf-8")
    assert words_in(picture).split().count("dog") == 2
    root = ElementTree.fromstring(picture)
    fills = [x.get("fill") for x in root.iter() if x.tag.endswith("text") and x.text == "NP"]
    assert fills.count(LIGHT.bad) == 1 and fills.count(None) == 4
    assert "wrong: NP (a cat here)" in comparison._repr_html_()


def test_a_tree_of_thousands_of_levels_is_not_drawn():
    deep = Tree("NN", ["dog"])
    for _ in range(3000):
        deep = Tree("S", [deep])
    for draw in (tree_text, tree_svg, lambda tree: TreeComparison(tree, tree)):
        assert "too many levels" in error_of(draw, deep)


def test_a_comparison_shows_the_error_of_evalb():
    predicted = PREDICTED.copy(deep=True)
    predicted[2].set_label("SYM")  # a tag of the full stop that counts as a word's
    comparison = TreeComparison(GOLD, predicted)
    assert "EVALB cannot compare the trees: Length unmatch (6|7)" in str(comparison)
    ((gold, tag),) = comparison.wrong_tags
    assert (gold.words, gold.label, tag.label) == ((".",), ".", "SYM")
    assert "tag: . is ., not SYM" in str(comparison)


def test_brackets_match_the_scores():
    """Against EVALB's figures, of trees in which brackets were taken out, put in and renamed."""
    parameters, generator = kt.parsing.Parameters.named("COLLINS"), random.Random(1)
    for gold in trees()[:40]:
        predicted = gold.copy(deep=True)
        for place in predicted.treepositions("postorder"):
            node = predicted[place]
            if not isinstance(node, str) and not isinstance(node[0], str):
                if generator.random() < 0.3:
                    node.set_label(generator.choice(["NP", "VP", "X"]))
                if generator.random() < 0.3:
                    node[:] = [Tree(generator.choice(["NP", "S"]), list(node))]
        differences = find_differences(gold, predicted, parameters)
        (scores,) = kt.parsing.evaluate_trees([gold], [predicted], parameters).sentence_scores
        for statuses, total in (
            (differences.gold, scores.gold_brackets),
            (differences.predicted, scores.predicted_brackets),
        ):
            assert statuses.count("matched") == scores.matched
            assert statuses.count("matched") + statuses.count("unmatched") == total


def test_chinese_characters_are_two_columns_wide():
    assert [text_width(text) for text in ("", "dog", "狗", "▁狗a")] == [0, 3, 2, 4]
