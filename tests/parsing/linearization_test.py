"""Linearizations, including one that is defined outside the package."""

import pytest
from nltk import Tree

from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.linearization import LabelledBrackets, Linearization
from keras_transformer.parsing.parser_tokens import TreeSymbols
from keras_transformer.parsing.treebanks import Treebank, TreePairs
from tests.parsing.small_trees import trees
from tests.parsing.unlabelled_closers import UnlabelledClosers

pytestmark = pytest.mark.once

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ runs)))"
WORDS = ["The", "dog", "runs"]
SYMBOLS = ["(S", "(NP", "(DT)", "(NN)", ")", "(VP", "(VBZ)", ")", ")"]
UNLABELLED = UnlabelledClosers()


class Names:
    """A minimal tokenizer of symbols."""

    def __init__(self, symbols):
        self.pieces = ["pad", "start", "end", "unknown", *symbols]
        self.vocabulary_size = len(self.pieces)

    def tokens_to_ids(self, symbols):
        return [self.pieces.index(symbol) for symbol in symbols]


def test_rebuilding_restores_trees_of_a_linearization_from_outside():
    assert UNLABELLED.linearize(Tree.fromstring(DOG)) == (WORDS, SYMBOLS)
    for tree in trees():
        words, symbols = UNLABELLED.linearize(tree)
        assert UNLABELLED.rebuild(words, symbols) == tree
        assert UNLABELLED.repair(words, symbols) == (tree, {})


def test_tree_pairs_accept_a_linearization_from_outside():
    treebank = Treebank("dogs", "train", lambda: [Tree.fromstring(DOG)])
    pairs = TreePairs(treebank, linearization=UNLABELLED)
    assert list(pairs) == [(" ".join(WORDS), " ".join(SYMBOLS))]
    assert pairs.fingerprint() != TreePairs(treebank).fingerprint()


def test_one_symbol_closes_every_label():
    names = Names(["(A", "(B", "(x)", "(y)", ")"])
    symbols = TreeSymbols(names.pieces[4:], names, UNLABELLED)
    opening, closing = symbols.brackets()
    assert [names.pieces[i] for i in opening] == ["(A", "(B"]
    assert [names.pieces[i] for i in closing] == [")", ")"]
    assert {tag: names.pieces[i] for tag, i in symbols.leaves().items()} == {"x": "(x)", "y": "(y)"}


def test_symbols_of_another_linearization_are_errors():
    with pytest.raises(UserError, match=r"'\)S' is not a symbol of the linearization"):
        TreeSymbols(["(S", ")S"], Names(["(S", ")S"]), UNLABELLED)


@pytest.mark.parametrize("linearization", [LabelledBrackets(), UNLABELLED], ids=["own", "other"])
def test_symbols_write_brackets(linearization):
    for tree in trees():
        words, symbols = linearization.linearize(tree)
        left, text = iter(words), ""
        for symbol in symbols:
            before, after = linearization.text_around(symbol)
            text += before + (next(left) if linearization.read_symbol(symbol)[0] == "leaf" else "")
            text += after
        assert text.strip() == to_bracketed(tree)


# Serialization in presets


@pytest.mark.parametrize(
    "linearization",
    [LabelledBrackets(), LabelledBrackets(keep_tags=False), UNLABELLED],
    ids=lambda linearization: type(linearization).__name__,
)
def test_a_linearization_survives_serialization(linearization):
    again = Linearization.deserialize(linearization.serialize())
    assert type(again) is type(linearization)
    assert again.get_config() == linearization.get_config()


@pytest.mark.parametrize(
    ("serialized", "message"),
    [
        ({"class_name": "Alien", "config": {}}, "Unknown linearization 'Alien'"),
        ({"class_name": "LabelledBrackets"}, 'a "class_name" and a "config"'),
        ({"class_name": "LabelledBrackets", "config": 3}, 'a "class_name" and a "config"'),
        ({"class_name": ["S"], "config": {}}, "Unknown linearization"),
        ("LabelledBrackets", 'a "class_name" and a "config"'),
        (
            {"class_name": "LabelledBrackets", "config": {"size": 3}},
            "Cannot create Labelled",
        ),
    ],
)
def test_malformed_serialized_linearizations_are_errors(serialized, message):
    with pytest.raises(UserError, match=message):
        Linearization.deserialize(serialized)
