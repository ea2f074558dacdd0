"""Trees, beams and where parses went wrong, as text and as pictures."""

import random
from xml.etree import ElementTree

import pytest
from nltk import Tree

import keras_transformer as kt
from keras_transformer.decoding.beam_trace import BeamHistory, Hypothesis
from keras_transformer.parsing.evalb.evaluate import find_differences
from keras_transformer.visualization import BeamTree, beam_tree, compare_trees, tree_svg, tree_text
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
    texts = ["".join(x.itertext()) for x in root.iter() if x.tag.endswith("text")]
    kinds = [x.get("class") for x in root.iter() if x.tag.endswith("text")]
    shown = dict(zip(texts, kinds))
    assert shown["ein" + "continued, -0.500"] == "text"
    assert shown["<&>" + "dropped, -1.500" + " ✗ -1.50"] == "muted"
    assert shown["</s>" + "finished, -0.600" + " ✓ 1. -0.60"] == "good"
    assert shown["Haus" + "live, -2.000" + " … -2.00"] == "accent"
    paths = [x.get("class") for x in root.iter() if x.tag.endswith("path")]
    assert sorted(paths) == ["good", "good", "muted", "muted"]  # on the way to the result


def test_the_beam_of_a_translator(tmp_path):
    translator = kt.Translator(new_model(), tokenizer(), beam_size=3, extra_length=4)
    beam = beam_tree(translator, "the dog runs", num_results=2)
    results = next(translator.n_best(["the dog runs"], 2))
    for number, (_, score) in enumerate(results, start=1):
        assert f"✓ {number}. {score:.2f}" in beam.text()
    beam.save(tmp_path / "beam.txt")
    assert (tmp_path / "beam.txt").read_text("utf-8") == f"{beam}\n"
    with pytest.raises(kt.UserError, match="`path` must end with .svg or .txt. .*beam.png"):
        beam.save(tmp_path / "beam.png")
    with pytest.raises(
        kt.UserError, match="`task` must be a `Translator` or a `ConstituencyParser`"
    ):
        beam_tree(translator.model, "the dog runs")


# Trees


def test_a_tree_as_letters_and_as_a_picture():
    assert "NP" in tree_text(GOLD) and "dog" in tree_text(GOLD)
    picture = tree_svg(GOLD, {(0,): "bad", (1, 2): "missing"})
    assert "\n" not in picture and "prefers-color-scheme: dark" in picture
    root = ElementTree.fromstring(picture)
    fills = {x.text: x.get("fill") for x in root.iter() if x.tag.endswith("text")}
    assert fills["ADVP"] != fills["S"] is None
    assert {*GOLD.leaves(), "ADVP"} <= {*words_in(picture).split()}


def test_where_a_parse_went_wrong(tmp_path):
    comparison = compare_trees(GOLD, PREDICTED)
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
    assert "wrong: NP (a cat here)" in comparison._repr_html_()


def test_a_tree_of_thousands_of_levels_is_not_drawn():
    deep = Tree("NN", ["dog"])
    for _ in range(3000):
        deep = Tree("S", [deep])
    for draw in (tree_text, tree_svg, lambda tree: compare_trees(tree, tree)):
        assert "too many levels" in error_of(draw, deep)


def test_what_evalb_cannot_compare():
    predicted = PREDICTED.copy(deep=True)
    predicted[2].set_label("SYM")  # a tag of the full stop that counts as a word's
    comparison = compare_trees(GOLD, predicted)
    assert "EVALB cannot compare the trees: Length unmatch (6|7)" in str(comparison)
    assert comparison.wrong_tags == [(".", ".", "SYM")]
    assert "tag: . is ., not SYM" in str(comparison)


def test_brackets_are_those_of_the_scores():
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
