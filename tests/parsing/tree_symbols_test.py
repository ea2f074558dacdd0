import pytest

from keras_transformer.parsing.tree_symbols import TreeSymbols
from keras_transformer.parsing.trees import linearize
from keras_transformer.reserved_ids import END_ID, UNKNOWN_ID
from tests.parsing.small_trees import symbols, tokenizer, trees

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def tree_symbols():
    return TreeSymbols(symbols(), tokenizer())


def test_lines_go_to_ids_and_back(tree_symbols):
    for tree in trees():
        _, sequence = linearize(tree)
        (token_ids,) = tree_symbols.encode([" ".join(sequence)])
        assert len(token_ids) == len(sequence) and UNKNOWN_ID not in token_ids
        assert tree_symbols.decode([*token_ids, END_ID, 0, 0]) == sequence


def test_what_is_no_symbol_is_unknown(tree_symbols):
    known = tree_symbols.encode(["(S"])[0][0]
    word = tokenizer().encode(["the"])[0][0]
    assert tree_symbols.encode(["(S (ALIEN"]) == [[known, UNKNOWN_ID]]
    assert tree_symbols.decode([known, word, known, END_ID, known]) == ["(S", "?", "(S"]


def test_kinds_of_symbols():
    symbols = ["(A", "(B", "(x)", "(y)", ")A", ")B", ")C"]
    names = Names(symbols)
    tree_symbols = TreeSymbols(symbols, names)
    opening, closing = tree_symbols.brackets()
    assert [names.pieces[i] for i in opening] == ["(A", "(B"]
    assert [names.pieces[i] for i in closing] == [")A", ")B"]
    leaves = tree_symbols.leaves()
    assert {tag: names.pieces[i] for tag, i in leaves.items()} == {"x": "(x)", "y": "(y)"}


class Names:
    """A stand-in for a tokenizer, of symbols alone."""

    def __init__(self, symbols):
        self.pieces = ["pad", "start", "end", "unknown", *reversed(symbols)]
        self.vocabulary_size = len(self.pieces)

    def ids_of(self, symbols):
        return [self.pieces.index(symbol) for symbol in symbols]


def test_symbols_must_be_tokens():
    with pytest.raises(ValueError, match=r"no token '\(ALIEN'"):
        TreeSymbols(["(S", "(ALIEN"], tokenizer())


def test_a_decoder_needs_the_ids_up_to_the_last_symbol(tree_symbols):
    # 4 reserved ids, and the symbols; the tokens that make words come after them.
    assert tree_symbols.vocabulary_size == 4 + len(symbols()) < tokenizer().vocabulary_size
    assert max(tree_symbols.ids) + 1 == tree_symbols.vocabulary_size
