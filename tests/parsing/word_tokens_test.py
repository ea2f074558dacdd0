import numpy as np
import pytest

from keras_transformer.parsing.trees import LabelledBrackets
from keras_transformer.parsing.word_tokens import WordTokenizer
from tests.parsing.small_trees import tokenizer, trees

pytestmark = pytest.mark.once

SENTENCES = [tree.leaves() for tree in trees()[:50]]
# Left out by SentencePiece's normalisation, cut in two by it, unknown to the vocabulary, a mark of
# its own, of many tokens, and two letters that become one.
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
    """How many tokens each word has."""
    starts = np.isin(token_ids, WordTokenizer(tokenizer()).word_start_ids)
    assert starts[0]
    return np.diff([*np.flatnonzero(starts), len(token_ids)]).tolist()


def test_the_tokens_are_those_of_the_whole_sentence():
    lines = [" ".join(words) for words in SENTENCES]
    words = WordTokenizer(tokenizer())
    assert words.encode(lines) == tokenizer().encode(lines) == words.encode_words(SENTENCES)


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_every_word_has_one_token_that_begins_it(odd):
    (token_ids,) = WordTokenizer(tokenizer()).encode_words([["runs", odd, "the", odd, odd]])
    alone = [len(ids) for ids in tokenizer().encode(["runs", "the"])]
    lengths = words_of(token_ids)
    assert len(lengths) == 5 and [lengths[0], lengths[2]] == alone


def test_no_words():
    assert WordTokenizer(tokenizer()).encode_words([[], ["runs"], []])[::2] == [[], []]
    assert WordTokenizer(tokenizer()).encode([""]) == [[]]


def test_all_pieces_that_begin_a_word():
    pieces = [tokenizer().decode([[4, i]])[0] for i in tokenizer().word_start_ids]
    assert len(pieces) > 20
    symbols = tokenizer().ids_of(LabelledBrackets().inventory(trees()))
    assert not {*symbols} & {*tokenizer().word_start_ids}
