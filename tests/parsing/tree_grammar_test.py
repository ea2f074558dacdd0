"""Searches with a grammar, which find exactly the trees."""

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.reserved_ids import END_ID
from tests.decoding.search_functions import beam_search, sample
from tests.helpers import randomize, to_numpy

# Labels A and B, leaves x and y, and two tokens that belong to no tree.
OPENING, CLOSING, LEAVES = (4, 5), (6, 7), (8, 9)
VOCABULARY_SIZE = 12
GRAMMAR = kt.parsing.TreeGrammar(OPENING, CLOSING, LEAVES)
OF_SETS = kt.parsing.TreeGrammar(OPENING, CLOSING, LEAVES, leaf_sets=(LEAVES,))


def small_model(seed=0):
    model = kt.Transformer(
        VOCABULARY_SIZE, num_layers=1, hidden_dim=8, intermediate_dim=8, num_heads=2, dropout=0.0
    )
    return randomize(model, seed)


def sources(num_words, width=8):
    """Return sentences with these numbers of words, one token per word."""
    token_ids = np.zeros((len(num_words), width), "int32")
    generator = np.random.default_rng(0)
    for row, words in enumerate(num_words):
        token_ids[row, :words] = generator.integers(4, VOCABULARY_SIZE, words)
        token_ids[row, words] = END_ID
    return token_ids, np.array(num_words, "int32")


def read_tree(symbols):
    """Return the first tree, (label, children) or a leaf's id, and the other symbols."""
    first, *rest = symbols
    if first in LEAVES:
        return first, rest
    label = OPENING.index(first)  # fails on a closing symbol, or an alien one
    children = []
    while rest[0] not in CLOSING:
        child, rest = read_tree(rest)
        children.append(child)
    assert children and CLOSING.index(rest[0]) == label
    return (label, children), rest[1:]


def leaves(tree):
    return 1 if isinstance(tree, int) else sum(map(leaves, tree[1]))


def depth(tree):
    return 0 if isinstance(tree, int) else 1 + max(map(depth, tree[1]))


def assert_is_tree(token_ids, num_words, limit, max_depth=100):
    token_ids = [int(i) for i in token_ids if i]
    assert len(token_ids) <= limit and token_ids[-1] == END_ID
    tree, rest = read_tree(token_ids[:-1])
    assert not rest and leaves(tree) == num_words and depth(tree) <= max_depth


def all_trees(num_words, size):
    """Return all trees of at most `size` symbols over the words, as tuples of symbols."""
    return {
        symbols
        for symbols in all_forests(num_words, size)
        if not read_tree(symbols)[1]  # one tree, nothing after it
    }


def all_forests(num_words, size):
    """Return all non-empty sequences of trees of at most `size` symbols over the words."""
    forests = set()
    for first_words in range(1, num_words + 1):
        firsts = set()
        if first_words == 1 and size >= 1:
            firsts |= {(leaf,) for leaf in LEAVES}
        if size >= 3:
            firsts |= {
                (opening, *inside, closing)
                for opening, closing in zip(OPENING, CLOSING)
                for inside in all_forests(first_words, size - 2)
            }
        for first in firsts:
            if first_words == num_words:
                forests.add(first)
            elif size > len(first):
                rest = all_forests(num_words - first_words, size - len(first))
                forests |= {first + more for more in rest}
    return forests


@pytest.mark.parametrize(("num_words", "size"), [(1, 5), (2, 6), (3, 5)])
def test_a_wide_beam_finds_exactly_the_trees(num_words, size):
    expected = all_trees(num_words, size)
    token_ids, words = sources([num_words])
    outputs, scores = beam_search(
        small_model(),
        token_ids,
        beam_size=2 * len(expected),
        num_results=2 * len(expected),
        extra_length=size + 1 - num_words,
        constraints=GRAMMAR.over(words),
    )
    is_there = to_numpy(scores)[0] > -np.inf
    found = [tuple(int(i) for i in row if i)[:-1] for row in to_numpy(outputs)[0][is_there]]
    assert len(found) == len(set(found)) > 10
    assert set(found) == expected


def test_each_word_gets_a_leaf_of_its_set():
    x, y = LEAVES
    grammar = kt.parsing.TreeGrammar(OPENING, CLOSING, LEAVES, leaf_sets=((x, y), (x,), (y,)))
    kinds = [1, 0, 2]  # an x, whatever, a y
    expected = {
        tree for tree in all_trees(3, 5) if [leaf for leaf in tree if leaf in LEAVES][::2] == [x, y]
    }
    token_ids, words = sources([3, 1])
    size = 2 * len(expected)
    outputs, scores = beam_search(
        small_model(),
        token_ids,
        beam_size=size,
        num_results=size,
        extra_length=3,
        # Entries after the words have no effect.
        constraints=grammar.over(words, np.array([[*kinds, 0], [2, 1, 1, 1]])),
    )
    found, one_word = (
        {tuple(int(i) for i in output if i)[:-1] for output in to_numpy(outputs)[row][is_there]}
        for row, is_there in enumerate(to_numpy(scores) > -np.inf)
    )
    assert found == expected and len(expected) > 2
    assert one_word == {(y,), (4, y, 6), (5, y, 7)}


def test_two_thousand_outputs_of_an_untrained_model_are_trees():
    num_words = [1 + row % 7 for row in range(100)]
    token_ids, words = sources(num_words)
    outputs, scores = sample(
        small_model(),
        token_ids,
        num_results=20,
        temperature=2.0,
        extra_length=20,
        constraints=GRAMMAR.over(words),
    )
    assert np.isfinite(to_numpy(scores)).all()
    outputs = to_numpy(outputs)
    for row, words in enumerate(num_words):
        for token_ids in outputs[row]:
            assert_is_tree(token_ids, words, limit=words + 20)
    # The outputs are random within the grammar.
    assert len({tuple(ids) for ids in outputs.reshape(2_000, -1)}) > 800


def test_sentences_of_a_batch_get_their_own_trees():
    num_words = [3, 1, 7, 2]
    token_ids, words = sources(num_words)
    model = small_model(seed=3)
    options = {"beam_size": 4, "num_results": 4, "extra_length": 16}
    together, scores = beam_search(model, token_ids, constraints=GRAMMAR.over(words), **options)
    for row, count in enumerate(num_words):
        for output in to_numpy(together)[row][to_numpy(scores)[row] > -np.inf]:
            assert_is_tree(output, count, limit=count + 16)
        alone, _ = beam_search(
            model,
            token_ids[row : row + 1, : count + 1],
            constraints=GRAMMAR.over(words[row : row + 1]),
            **options,
        )
        alone = to_numpy(alone)[0]
        np.testing.assert_array_equal(to_numpy(together)[row, :, : alone.shape[1]], alone)


def test_max_depth_limits_open_constituents():
    grammar = kt.parsing.TreeGrammar(OPENING, CLOSING, LEAVES, max_depth=2)
    token_ids, words = sources([3])
    outputs, _ = sample(small_model(), token_ids, num_results=200, constraints=grammar.over(words))
    depths = []
    for output in to_numpy(outputs)[0]:
        assert_is_tree(output, 3, limit=53, max_depth=2)
        depths.append(depth(read_tree([int(i) for i in output if i])[0]))
    assert set(depths) == {1, 2}


def test_max_openings_limits_constituents_before_a_word():
    token_ids, words = sources([3])
    for most in (1, 2):
        grammar = kt.parsing.TreeGrammar(OPENING, CLOSING, LEAVES, max_openings=most)
        outputs, _ = sample(
            small_model(), token_ids, num_results=200, constraints=grammar.over(words)
        )
        runs = set()
        for output in to_numpy(outputs)[0]:
            assert_is_tree(output, 3, limit=53)
            letters = "".join("(" if i in OPENING else "." for i in output)
            runs |= {len(run) for run in letters.split(".")}
        assert max(runs) == most


def test_outputs_fit_the_shortest_possible_limit():
    token_ids, words = sources([4])
    # Two brackets, four leaves, the end.
    outputs, _ = beam_search(
        small_model(), token_ids, extra_length=3, constraints=GRAMMAR.over(words)
    )
    assert_is_tree(to_numpy(outputs)[0, 0], 4, limit=7)
    with pytest.raises(ValueError, match="row 0 with 4 words, for an output of at most 6"):
        beam_search(small_model(), token_ids, extra_length=2, constraints=GRAMMAR.over(words))


def test_scores_are_log_probabilities_of_the_model():
    token_ids, words = sources([2])
    model = small_model()
    outputs, scores = beam_search(model, token_ids, alpha=0.0, constraints=GRAMMAR.over(words))
    output = to_numpy(outputs)[0, 0]
    length = int((output != 0).sum())
    inputs = {
        "encoder_token_ids": token_ids,
        "decoder_token_ids": np.array([[1, *output[: length - 1]]]),
    }
    log_probabilities = to_numpy(ops.log_softmax(model(inputs), axis=-1))[0]
    expected = log_probabilities[np.arange(length), output[:length]].sum()
    np.testing.assert_allclose(to_numpy(scores)[0, 0], expected, atol=1e-4)


def test_without_words_the_output_is_the_end_token():
    token_ids, words = sources([2, 1, 0])
    token_ids[1] = 0
    outputs, scores = beam_search(
        small_model(), token_ids, constraints=GRAMMAR.over(words * [1, 0, 0])
    )
    assert not to_numpy(outputs)[1].any() and to_numpy(scores)[1, 0] == 0
    assert to_numpy(outputs)[2, 0].tolist() == [END_ID] + [0] * (outputs.shape[2] - 1)


WORDS = np.array([2, 1])


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        (GRAMMAR, "Received: the grammar alone"),  # without words
        (GRAMMAR.over(np.array([2])), "one number per source"),
        (GRAMMAR.over(np.array([2, -1])), "row 1 with -1 words"),
        (GRAMMAR.over(np.array([2, 60])), "row 1 with 60 words, for an output of at most 51"),
        (kt.parsing.TreeGrammar((4,), (5,), (12,)).over(WORDS), "below 12"),
        (GRAMMAR.over(WORDS, np.zeros((2, 2), int)), "`leaf_sets` and `word_kinds` must be given"),
        (OF_SETS.over(WORDS), "`leaf_sets` and `word_kinds` must be given"),
        (OF_SETS.over(WORDS, np.zeros((2, 1), int)), "of up to 2 words"),
        (OF_SETS.over(WORDS, np.zeros((1, 2), int)), "for 2 sources"),
        (OF_SETS.over(WORDS, np.full((2, 2), 1)), "from 0 to 0.*1 to 1"),
    ],
)
def test_word_counts_and_leaf_sets_that_do_not_fit_are_errors(grammar, message):
    token_ids, _ = sources([2, 1])
    with pytest.raises(ValueError, match=message):
        beam_search(small_model(), token_ids, constraints=grammar)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((4, 5), (6,), (8,)), "2 `opening_ids` and 1 `closing_ids`"),
        (((4,), (6,), ()), "A grammar needs"),
        (((4,), (4,), (8,)), "distinct"),
        (((2,), (4,), (8,)), "above the end token"),
        (((4,), (6,), (8,), 9, 0), "positive"),
        (((4,), (6,), (8,), 9, 9, ((8,), ())), "one or more of `leaf_ids`"),
        (((4,), (6,), (8,), 9, 9, ((4,),)), "one or more of `leaf_ids`"),
    ],
)
def test_invalid_ids_of_a_grammar_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        kt.parsing.TreeGrammar(*arguments)
