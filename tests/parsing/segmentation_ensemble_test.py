"""A parser that searches each sentence in several segmentations."""

import numpy as np
import pytest
from nltk import Tree

import keras_transformer as kt
from keras_transformer.parsing import segmentation_ensemble
from keras_transformer.parsing.trees import consensus
from tests.parsing.small_trees import new_parser, new_tagging_parser, tokenizer, trees

pytestmark = pytest.mark.once

SENTENCES = [tree.leaves() for tree in trees()[:6]]
ALPHA = 0.3  # of the small parser


def log_probabilities_of_each(words, number, num_results):
    """By hand: of each segmentation the log-probability of each tree that is found, as text."""
    found = []
    for index in range(number):
        parser = new_parser()
        if index:
            draw, encode = tokenizer().sampler(0.1), parser._encode
            parser._encode = lambda x: [draw([ids], index)[0] for ids in encode(x)]  # noqa: B023
        (parse,) = parser.parse([words], num_results)
        every = (parse, *parse.others)
        # A tree has a symbol for each leaf, two for each constituent, and the end token.
        found.append({str(x.tree): x.score * penalty_of(x.tree) for x in every})
    return found


def penalty_of(tree):
    length = 2 * sum(1 for _ in tree.subtrees()) - len(tree.leaves()) + 1
    return ((5 + length) / 6) ** ALPHA


def mixture(found):
    """The log of P(y | x) = 1/n Σ_i P(y | s_i), by tree."""
    texts = dict.fromkeys(text for each in found for text in each)
    probabilities = {
        text: np.mean([np.exp(each.get(text, -np.inf)) for each in found]) for text in texts
    }
    return {text: np.log(probability) for text, probability in probabilities.items()}


@pytest.mark.parametrize("words", SENTENCES[1:3], ids=" ".join)
def test_the_best_and_the_consensus_of_all(words):
    found = log_probabilities_of_each(words, 4, 3)
    assert len({tuple(each) for each in found}) > 1  # else one would do
    expected = mixture(found)
    (parse,) = new_parser(num_segmentations=4).parse([words], 3)
    ranked = [parse, *parse.others]
    assert len(ranked) == 3
    scores = {text: x / penalty_of(Tree.fromstring(text)) for text, x in expected.items()}
    best = sorted(scores, key=scores.get, reverse=True)[:3]
    assert [str(each.tree) for each in ranked] == best
    np.testing.assert_allclose([x.score for x in ranked], [scores[x] for x in best], rtol=1e-4)

    agreeing = new_parser(num_segmentations=4, decision="consensus", beam_size=3)
    (parse,) = agreeing.parse([words])
    tree, agreement = consensus(
        [*map(Tree.fromstring, expected)], np.exp([*expected.values()]).tolist()
    )
    assert (parse.tree, parse.others) == (tree, ())
    assert parse.score == pytest.approx(agreement, rel=1e-4)


def test_neighbours_make_no_difference():
    parser = new_parser(num_segmentations=3, decision="consensus")
    sentences = SENTENCES[:3]
    together = list(parser.parse([*sentences, [], ["x" * 50]]))
    assert [parse.tree is None for parse in together] == [False] * 3 + [True, False]
    for words, parse in zip(reversed(sentences), reversed(together[:3])):
        (alone,) = parser.parse([words])
        assert alone.tree == parse.tree and alone.score == pytest.approx(parse.score, rel=1e-4)


def test_what_becomes_too_long_is_searched_as_it_was():
    words = SENTENCES[0]
    usual = new_parser()
    length = len(usual.source_ids(words))
    parser = new_parser(num_segmentations=8, max_source_length=length)
    inputs = parser._repeated([words])
    assert {len(ids) for ids in parser._encode_segmentations(inputs)} == {length}
    unlimited = new_parser(num_segmentations=8, max_source_length=None)
    assert max(map(len, unlimited._encode_segmentations(inputs))) > length
    (parse,), (too_long,) = parser.parse([words]), parser.parse([words * 2])
    assert parse.tree.leaves() == words
    assert too_long.tree is None and too_long.is_too_long


def test_tags_are_those_of_the_usual_segmentation():
    several, one = new_tagging_parser(num_segmentations=4), new_tagging_parser()
    for parse, usual in zip(several.parse(SENTENCES), one.parse(SENTENCES), strict=True):
        assert parse.tree.pos() == usual.tree.pos()


def test_trees_that_no_grammar_keeps_together():
    parser = new_parser(num_segmentations=3, constrained=False, decision="consensus")
    assert [tree.leaves() for tree in parser(SENTENCES)] == SENTENCES


def test_a_preset_keeps_their_number(tmp_path, capsys):
    new_parser(num_segmentations=3).save_to_preset(tmp_path / "model")
    load = kt.ConstituencyParser.from_preset
    load(tmp_path / "model").summary()
    assert "trees over the sentence's words, in 3 segmentations" in capsys.readouterr().out
    assert load(tmp_path / "model", num_segmentations=1).segmentations.number == 1
    assert new_parser().segmentations.number == 1


def test_equal_samples_count_once():
    search = kt.Sampling()
    one, other = np.array([5, 2, 0]), np.array([6, 2, 0])
    sampled = [[(one, -0.5), (one, -0.5), (other, -1.0)], [(one, -0.7), (one, -0.7)]]
    (best, score), (_, second) = segmentation_ensemble._mixed(sampled, search)
    assert best is one and score == pytest.approx(np.log((np.exp(-0.5) + np.exp(-0.7)) / 2))
    assert second == pytest.approx(-1.0 - np.log(2))
    assert segmentation_ensemble._mixed([[], []], search) == []


@pytest.mark.parametrize("number", [0, -1, 2.5, "two", True])
def test_a_number_that_is_none(number):
    with pytest.raises(kt.UserError, match="`num_segmentations` must be a positive integer"):
        new_parser(num_segmentations=number)
