"""Searches with the in-order grammar, which find exactly the trees."""

import itertools

import numpy as np
import pytest

from keras_transformer.errors import UserError
from keras_transformer.parsing import InOrderTreeGrammar
from keras_transformer.parsing.linearization import InOrderBrackets
from tests.decoding.search_functions import beam_search, sample
from tests.helpers import to_numpy
from tests.parsing.small_trees import new_parser_of, short_sentences
from tests.parsing.tree_grammar_test import CLOSING, LEAVES, OPENING, small_model, sources

NAMES = dict(zip((*OPENING, *CLOSING, *LEAVES), ("(A", "(B", ")A", ")B", "(x)", "(y)")))
LINEARIZATION = InOrderBrackets()
GRAMMAR = InOrderTreeGrammar(OPENING, CLOSING, LEAVES)
SENTENCES = short_sentences(6)


def is_tree(token_ids, num_words):
    try:
        LINEARIZATION.rebuild(["w"] * num_words, [NAMES[token_id] for token_id in token_ids])
    except UserError:
        return False
    return True


def most_openings(token_ids):
    """Return the largest number of openers between two leaves."""
    runs = "".join("(" if i in OPENING else "." if i in LEAVES else "" for i in token_ids)
    return max(map(len, runs.split(".")))


def all_trees(num_words, size, most=100):
    """Return all sequences of at most `size` symbols that form a tree."""
    return {
        token_ids
        for length in range(1, size + 1)
        for token_ids in itertools.product(NAMES, repeat=length)
        if sum(i in LEAVES for i in token_ids) == num_words
        and is_tree(token_ids, num_words)
        and most_openings(token_ids) <= most
    }


@pytest.mark.parametrize(
    ("num_words", "size", "most"), [(1, 5, 100), (1, 5, 1), (2, 6, 100), (2, 6, 1), (3, 5, 100)]
)
def test_a_wide_beam_finds_exactly_the_in_order_trees(num_words, size, most):
    expected = all_trees(num_words, size, most)
    token_ids, words = sources([num_words])
    outputs, scores = beam_search(
        small_model(),
        token_ids,
        # Room for every hypothesis, even those of the last step but one.
        beam_size=3 * len(expected),
        num_results=3 * len(expected),
        extra_length=size + 1 - num_words,
        constraints=InOrderTreeGrammar(OPENING, CLOSING, LEAVES, max_openings=most).over(words),
    )
    is_there = to_numpy(scores)[0] > -np.inf
    found = [tuple(int(i) for i in row if i)[:-1] for row in to_numpy(outputs)[0][is_there]]
    assert len(found) == len(set(found)) >= 6
    assert set(found) == expected


@pytest.mark.parametrize("limits", [{}, {"max_openings": 1}, {"max_depth": 1}])
def test_outputs_of_an_untrained_model_are_trees(limits):
    num_words = [1 + row % 7 for row in range(200)]
    token_ids, words = sources(num_words)
    grammar = InOrderTreeGrammar(OPENING, CLOSING, LEAVES, **limits)
    for extra_length in (3, 12):  # the first is just enough for two brackets and the end
        outputs, scores = sample(
            small_model(),
            token_ids,
            num_results=5,
            temperature=2.0,
            extra_length=extra_length,
            constraints=grammar.over(words),
        )
        # No hypothesis reached a dead end.
        assert np.isfinite(to_numpy(scores)).all()
        for row, count in enumerate(num_words):
            for output in to_numpy(outputs)[row]:
                symbols = [int(i) for i in output if i][:-1]
                assert is_tree(symbols, count) and len(symbols) < count + extra_length
                assert most_openings(symbols) <= limits.get("max_openings", 100)
                depths = np.cumsum([(i in OPENING) - (i in CLOSING) for i in symbols])
                assert depths.max() <= limits.get("max_depth", 100)


def test_a_parser_writes_in_order_trees():
    parser = new_parser_of(InOrderBrackets())
    assert isinstance(parser.grammar, InOrderTreeGrammar)
    for words, parse in zip(SENTENCES, parser.parse(SENTENCES), strict=True):
        assert parse.tree.leaves() == words
        assert not parse.repairs and np.isfinite(parse.score)
