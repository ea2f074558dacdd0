import numpy as np
import pytest

from keras_transformer.parsing.linearization import LABELLED_BRACKETS
from keras_transformer.parsing.parser_tokens import TreeSymbols, WordTokenizer
from keras_transformer.reserved_ids import END_ID, UNKNOWN_ID
from tests.parsing.small_trees import symbols, tokenizer, trees

pytestmark = pytest.mark.once

SENTENCES = [tree.leaves() for tree in trees()[:50]]
# Words that SentencePiece drops or splits in two, unknown words, a mark, a word of many tokens, and
# two letters that are normalized to one.
ODD = [
    "\u200b",
    "a\u00a0b",
    "中文",
    "▁",
    "x" * 50,
    "e\u0301",
    "\ue000",
    "½",
    "\x07",
    "🙂",
    "\u3000",
]


def words_of(token_ids):
    """Return the number of tokens of each word."""
    starts = np.isin(token_ids, WordTokenizer(tokenizer()).word_start_ids)
    assert starts[0]
    return np.diff([*np.flatnonzero(starts), len(token_ids)]).tolist()


def test_tokens_equal_the_tokens_of_the_whole_sentence():
    lines = [" ".join(words) for words in SENTENCES]
    words = WordTokenizer(tokenizer())
    assert words.encode(lines) == tokenizer().encode(lines) == words.encode_words(SENTENCES)


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_each_word_has_one_token_that_begins_a_word(odd):
    (token_ids,) = WordTokenizer(tokenizer()).encode_words([["runs", odd, "the", odd, odd]])
    alone = [len(ids) for ids in tokenizer().encode(["runs", "the"])]
    lengths = words_of(token_ids)
    assert len(lengths) == 5 and [lengths[0], lengths[2]] == alone


def test_sentences_without_words_have_no_tokens():
    assert WordTokenizer(tokenizer()).encode_words([[], ["runs"], []])[::2] == [[], []]
    assert WordTokenizer(tokenizer()).encode([""]) == [[]]


def test_word_start_ids_are_all_pieces_that_begin_a_word():
    pieces = [tokenizer().decode([[4, i]])[0] for i in tokenizer().word_start_ids]
    assert len(pieces) > 20
    ids = tokenizer().tokens_to_ids(symbols())
    assert not {*ids} & {*tokenizer().word_start_ids}


@pytest.fixture(scope="module")
def tree_symbols():
    return TreeSymbols(symbols(), tokenizer())


def test_lines_of_symbols_survive_encoding(tree_symbols):
    for tree in trees():
        _, sequence = LABELLED_BRACKETS.linearize(tree)
        (token_ids,) = tree_symbols.encode([" ".join(sequence)])
        assert len(token_ids) == len(sequence) and UNKNOWN_ID not in token_ids
        assert tree_symbols.decode([*token_ids, END_ID, 0, 0]) == sequence


def test_strings_that_are_not_symbols_are_unknown(tree_symbols):
    known = tree_symbols.encode(["(S"])[0][0]
    word = tokenizer().encode(["the"])[0][0]
    assert tree_symbols.encode(["(S (ALIEN"]) == [[known, UNKNOWN_ID]]
    assert tree_symbols.decode([known, word, known, END_ID, known]) == ["(S", "?", "(S"]


def test_symbols_are_grouped_by_their_step():
    symbols = ["(A", "(B", "(x)", "(y)", ")A", ")B", ")C"]
    names = Names(symbols)
    tree_symbols = TreeSymbols(symbols, names)
    opening, closing = tree_symbols.brackets()
    assert [names.pieces[i] for i in opening] == ["(A", "(B"]
    assert [names.pieces[i] for i in closing] == [")A", ")B"]
    leaves = tree_symbols.leaves()
    assert {tag: names.pieces[i] for tag, i in leaves.items()} == {"x": "(x)", "y": "(y)"}


class Names:
    """A minimal tokenizer of symbols."""

    def __init__(self, symbols):
        self.pieces = ["pad", "start", "end", "unknown", *reversed(symbols)]
        self.vocabulary_size = len(self.pieces)

    def tokens_to_ids(self, symbols):
        return [self.pieces.index(symbol) for symbol in symbols]


def test_symbols_must_be_tokens():
    with pytest.raises(ValueError, match=r"no token '\(ALIEN'"):
        TreeSymbols(["(S", "(ALIEN"], tokenizer())


def test_vocabulary_size_ends_at_the_last_symbol(tree_symbols):
    # 4 reserved ids, and the symbols; the tokens that make words come after them.
    assert tree_symbols.vocabulary_size == 4 + len(symbols()) < tokenizer().vocabulary_size
    assert max(tree_symbols.ids) + 1 == tree_symbols.vocabulary_size
