"""A search constrained to trees whose linearization closes every constituent by one symbol."""

import keras
import numpy as np
import pytest
from nltk import Tree

import keras_transformer as kt
from keras_transformer.parsing.brackets import parse_trees, to_bracketed
from tests.helpers import to_numpy
from tests.parsing.small_trees import new_parser_of, short_sentences
from tests.parsing.unlabelled_closers import UnlabelledClosers

SENTENCES = short_sentences(6)


@pytest.fixture(scope="module")
def parser():
    return new_parser_of(UnlabelledClosers())


def test_the_grammar_has_the_symbols_of_the_linearization(parser):
    opening, closing = parser.symbols.brackets()
    (closer,) = parser.tokenizer.tokens_to_ids([")"])
    assert len(opening) > 3 and closing == (closer,) * len(opening)
    assert parser.grammar.closing_ids == closing


def test_outputs_are_trees_without_a_repair(parser):
    for words, parse in zip(SENTENCES, parser.parse(SENTENCES), strict=True):
        assert parse.tree.leaves() == words
        assert not parse.repairs and np.isfinite(parse.score)
        (again,) = parse_trees([to_bracketed(parse.tree)])
        assert again == parse.tree


def test_every_hypothesis_is_a_tree(parser):
    linearization = parser.symbols.linearization
    words = SENTENCES[0]
    _, (outputs, scores) = parser.search_sentence(words, num_results=3)
    found = to_numpy(outputs)[0][to_numpy(scores)[0] > -np.inf]
    rebuilt = [linearization.rebuild(words, parser.symbols.decode(row)) for row in found]
    assert len(rebuilt) > 1 and len({str(tree) for tree in rebuilt}) == len(rebuilt)


def test_an_opener_may_not_share_its_symbol_with_a_closer():
    with pytest.raises(ValueError, match="distinct"):
        kt.parsing.TreeGrammar((4, 5), (6, 5), (8,))


@pytest.mark.slow
def test_a_model_that_learned_one_tree_with_unlabelled_closers_predicts_it(parser):
    """A tree survives linearization, training and a constrained search."""
    tree = Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP him))) (. .))")
    learner = new_parser_of(parser.symbols.linearization)
    words, symbols = learner.symbols.linearization.linearize(tree)
    source = np.array([[*learner.tokenizer.encode([" ".join(words)])[0], 2]])
    target = np.array([[*learner.symbols.encode([" ".join(symbols)])[0], 2]])
    inputs = {
        "encoder_token_ids": source,
        "decoder_token_ids": np.concatenate([[[1]], target[:, :-1]], axis=1),
    }
    learner.model.compile(keras.optimizers.Adam(0.005), loss=kt.LabelSmoothedCrossentropy(0.0))
    # 78 updates on one machine: the last digits differ between machines.
    losses = (learner.model.train_on_batch(inputs, target) for _ in range(300))
    assert any(loss < 0.05 for loss in losses)
    (parse,) = learner.parse([words])
    assert parse.tree == tree
