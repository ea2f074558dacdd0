"""The word-synchronous beam search, held to the same search in plain Python and to brute force."""

import functools
import itertools
import json

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import constraints
from keras_transformer.decoding.resolve_search import resolve_search
from keras_transformer.decoding.static_fields import deserialize, serialize
from tests.decoding.reference_search import NumpyTransformer
from tests.helpers import assert_close, class_for, randomize, to_numpy
from tests.parsing.reference_word_search import reference_word_search, tree_rules
from tests.parsing.tree_grammar_test import (
    CLOSING,
    LEAVES,
    OPENING,
    VOCABULARY_SIZE,
    all_trees,
    small_model,
    sources,
)

GRAMMAR = kt.parsing.TreeGrammar(OPENING, CLOSING, LEAVES, max_depth=5, max_openings=3)
NUM_WORDS = [3, 1, 0, 5, 2, 4]
EXTRA_LENGTH = 12
COUNTED = {"word_start_ids": tuple(range(3, VOCABULARY_SIZE)), "leaf_ids": LEAVES}
# Where the reference decides by less, float32 may rightly decide otherwise.
MARGIN = 3e-5


@functools.cache
def lively_model(seed, **options):
    """Random weights whose log-probabilities differ enough for hypotheses to overtake others."""
    sizes = {"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2}
    model = randomize(class_for(options)(VOCABULARY_SIZE, **{**sizes, **options}), seed)
    table = model.token_embedding.embeddings
    table.assign(2.5 * to_numpy(table))
    return model


def searched(model, token_ids, search, num_results, rules):
    """A list of (tokens, score) a row."""
    results = search(model, token_ids, num_results, rules)
    return [
        [(tuple(int(i) for i in tokens if i), score) for tokens, score in zip(*row)]
        for row in zip(*map(to_numpy, results))
    ]


def of_trees(num_words, limit):
    return tree_rules(OPENING, CLOSING, LEAVES, num_words, limit, 5, 3)


def assert_equals_reference(model, search, num_results, extra_rules=lambda tokens, left: left):
    """How many rows were compared, and how many had the score of a beam search's best."""
    token_ids, num_words = sources(NUM_WORDS)
    rules = (GRAMMAR.over(num_words), *search.constraints)
    search = kt.parsing.WordSynchronousBeamSearch(**{**vars(search), "constraints": ()})
    found = searched(model, token_ids, search, num_results, rules)
    predict, compared = NumpyTransformer(model), 0
    for row, words in enumerate(NUM_WORDS):
        limit = words + EXTRA_LENGTH
        may_follow = of_trees(words, limit)
        expected, margin = reference_word_search(
            predict,
            [int(i) for i in token_ids[row] if i],
            lambda tokens, rule=may_follow: extra_rules(tokens, rule(tokens)),
            LEAVES,
            limit,
            search.beam_size,
            search.num_actions,
            search.fast_track,
            search.alpha,
            num_results,
        )
        if margin < MARGIN:
            continue
        expected += [((), -np.inf)] * (num_results - len(expected))
        assert [tokens for tokens, _ in found[row]] == [tokens for tokens, _ in expected]
        assert_close([x for _, x in found[row]], [x for _, x in expected], atol=1e-4)
        compared += 1
    return compared


def word_search(beam_size, action_beam_size, fast_track, alpha=0.0, rules=()):
    return kt.parsing.WordSynchronousBeamSearch(
        beam_size, action_beam_size, fast_track, LEAVES, alpha, EXTRA_LENGTH, rules
    )


@pytest.mark.parametrize(
    ("widths", "num_results", "alpha"),
    [
        ((2, 3, 1), 2, 1.0),
        ((3, 8, 2), 3, 0.3),
        ((2, None, 1), 1, 0.0),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ((1, 1, 0), 1, 0.0),
                ((1, 1, 1), 1, 0.3),
                ((1, 4, 0), 1, 0.3),
                ((3, 3, 3), 3, 0.0),
                ((8, 12, 0), 8, 0.6),
            )
        ),
    ],
)
def test_equals_the_search_in_plain_python(widths, num_results, alpha):
    search = word_search(*widths, alpha)
    # Every other model counts the words.
    models = [lively_model(seed, **(COUNTED if seed % 2 else {})) for seed in range(3)]
    compared = sum(assert_equals_reference(model, search, num_results) for model in models)
    assert compared > 0.8 * 3 * len(NUM_WORDS)  # close decisions are rare


@pytest.mark.parametrize(("num_words", "size"), [(2, 6), (3, 5)])
def test_as_wide_as_there_are_trees_it_is_brute_force(num_words, size):
    trees = sorted(all_trees(num_words, size))
    token_ids, words = sources([num_words])
    model, count = lively_model(3), 2 * len(trees)
    grammar = kt.parsing.TreeGrammar(OPENING, CLOSING, LEAVES)
    search = kt.parsing.WordSynchronousBeamSearch(
        count, count, 1, LEAVES, alpha=0, extra_length=size + 1 - num_words
    )
    (found,) = searched(model, token_ids, search, count, (grammar.over(words),))
    found = [(tokens, score) for tokens, score in found if score > -np.inf]
    source = [int(i) for i in token_ids[0] if i]
    expected = {}
    for tree in trees:
        log_probabilities, _ = NumpyTransformer(model)(source, [[1, *tree]])
        outputs = (*tree, 2)
        expected[outputs] = log_probabilities[0, range(len(outputs)), outputs].sum()
    assert len(found) == len(expected) > 10
    assert dict(found).keys() == expected.keys()
    assert_close([x for _, x in found], [expected[tokens] for tokens, _ in found], atol=1e-4)
    assert [x for _, x in found] == sorted((x for _, x in found), reverse=True)


def test_one_hypothesis_is_greedy_search():
    token_ids, num_words = sources(NUM_WORDS)
    rules = (GRAMMAR.over(num_words),)
    greedy = kt.BeamSearch(1, 0, extra_length=EXTRA_LENGTH)
    for seed in range(3):
        model = lively_model(seed)
        expected = searched(model, token_ids, greedy, 1, rules)
        found = searched(model, token_ids, word_search(1, 1, 0), 1, rules)
        assert [[y for y, _ in row] for row in found] == [[y for y, _ in row] for row in expected]


@pytest.mark.slow
def test_hypotheses_compete_at_the_same_word():
    """Where an opening is likely and a leaf dear, a beam as wide fills up with what opens."""
    token_ids, num_words = sources([4, 5, 6])
    rules = (kt.parsing.TreeGrammar(OPENING, CLOSING, LEAVES).over(num_words),)
    better = worse = 0
    for seed in range(8):
        model = lively_model(seed)
        by_actions = kt.BeamSearch(4, 0, extra_length=EXTRA_LENGTH)
        rows = (
            searched(model, token_ids, search, 1, rules)
            for search in (by_actions, word_search(4, 8, 1))
        )
        for ((_, first),), ((_, second),) in zip(*rows):
            better, worse = better + (second > first + 1e-4), worse + (second < first - 1e-4)
    assert better > 2 * worse


def test_a_sentence_does_not_depend_on_its_neighbours():
    token_ids, num_words = sources(NUM_WORDS)
    token_ids = np.concatenate([token_ids, np.zeros_like(token_ids[:1])])  # no sentence at all
    num_words = np.append(num_words, 0).astype("int32")
    model, search = lively_model(1), word_search(3, 5, 1)
    together = searched(model, token_ids, search, 2, (GRAMMAR.over(num_words),))
    assert together[2][0][0] == (2,) and together[-1] == [((), 0.0)] * 2
    for row in range(len(num_words)):
        some = slice(row, row + 1)
        (alone,) = searched(model, token_ids[some], search, 2, (GRAMMAR.over(num_words[some]),))
        assert [y for y, _ in alone] == [y for y, _ in together[row]]
        assert_close([x for _, x in alone], [x for _, x in together[row]], atol=1e-5)


def test_of_equal_scores_the_first_comes_first():
    model = lively_model.__wrapped__(0)
    model.token_embedding.embeddings.assign(np.zeros((VOCABULARY_SIZE, 8)))
    for widths in ((2, 3, 1), (4, 4, 2), (3, 7, 0)):
        assert assert_equals_reference(model, word_search(*widths), widths[0]) == len(NUM_WORDS)


def test_constraints_that_look_back_know_of_those_that_wait():
    def no_pair_twice(tokens, left):
        pairs = set(itertools.pairwise(tokens))
        return {token for token in left if (*tokens[-1:], token) not in pairs}

    search = word_search(3, 5, 1, rules=(constraints.NoRepeatedNgrams(2),))
    compared = [
        assert_equals_reference(lively_model(seed), search, 2, no_pair_twice) for seed in range(2)
    ]
    assert sum(compared) > 0.8 * 2 * len(NUM_WORDS)


def test_each_hypothesis_has_its_own_length():
    """Constraints by position, learned positions, and outputs cut at the limit."""
    token_ids, _ = sources(NUM_WORDS)
    model = lively_model(4, position_encoding="learned", max_length=8 + 6)
    prefix = np.array([[4, 5], [8, 0], [0, 0], [9, 8], [5, 4], [6, 0]])
    rules = (constraints.MinLength(5), constraints.ForcedPrefix(prefix))
    search = kt.parsing.WordSynchronousBeamSearch(3, 4, 1, LEAVES, alpha=0.5, extra_length=6)
    found = searched(model, token_ids, search, 3, rules)
    compared = 0
    for row, words in enumerate(NUM_WORDS):
        start = [int(i) for i in prefix[row] if i]

        def may_follow(tokens, start=start):
            if len(tokens) < len(start):
                return {start[len(tokens)]}
            return set(range(2 if len(tokens) >= 4 else 3, VOCABULARY_SIZE))

        expected, margin = reference_word_search(
            NumpyTransformer(model),
            [int(i) for i in token_ids[row] if i],
            may_follow,
            LEAVES,
            words + 6,
            *(3, 4, 1, 0.5, 3),
        )
        if margin >= MARGIN:
            assert [y for y, _ in found[row]] == [y for y, _ in expected]
            assert_close([x for _, x in found[row]], [x for _, x in expected], atol=1e-4)
            compared += 1
    assert compared >= 4
    first = constraints.FirstToken(5)
    assert all(row[0][0][0] == 5 for row in searched(model, token_ids, search, 1, (first,)))


@pytest.mark.once
def test_as_json_and_from_what_users_pass():
    search = kt.parsing.WordSynchronousBeamSearch(
        8, 16, 2, [9, 8], 0.5, 60, (constraints.MinLength(2),)
    )
    again = deserialize(json.loads(json.dumps(serialize(search))))
    assert again == search and hash(again) == hash(search) and again.word_ids == (9, 8)
    default = kt.BeamSearch(21, 0.6, extra_length=70, constraints=(constraints.MinLength(2),))
    made = resolve_search(kt.parsing.WordSynchronousBeamSearch, default, beam_size=5, fast_track=3)
    assert made == kt.parsing.WordSynchronousBeamSearch(
        5, fast_track=3, extra_length=70, constraints=(constraints.MinLength(2),)
    )
    assert made.num_actions == 10
    assert str(made) == "word-synchronous beam 5, 10 between words, fast track 3, alpha 0.3"


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kt.parsing.WordSynchronousBeamSearch(0), "beam_size=0"),
        (
            lambda: kt.parsing.WordSynchronousBeamSearch(4, 3),
            "beam_size=4 or larger.*action_beam_size=3",
        ),
        (
            lambda: kt.parsing.WordSynchronousBeamSearch(4, 4, 5),
            "number of live hypotheses, 4.*fast_track=5",
        ),
        (lambda: kt.parsing.WordSynchronousBeamSearch(fast_track=-1), "fast_track=-1"),
        (
            lambda: kt.parsing.WordSynchronousBeamSearch(word_ids=(8, 2)),
            "above the end token's.*word_ids=2",
        ),
        (lambda: kt.parsing.WordSynchronousBeamSearch(alpha=-1), "alpha=-1"),
        (lambda: kt.parsing.WordSynchronousBeamSearch(extra_length=0), "extra_length=0"),
        (lambda: kt.parsing.WordSynchronousBeamSearch()(small_model(), [[5, 2]]), "word_ids"),
        (lambda: word_search(1, 1, 0)(small_model(), [[5, 2]], num_results=2), "num_results=2"),
        (
            lambda: kt.parsing.WordSynchronousBeamSearch(word_ids=(12,))(small_model(), [[5, 2]]),
            r"vocabulary size 12.*word_ids=\(12,\)",
        ),
    ],
)
def test_wrong_options_of_a_word_synchronous_search_are_refused(make, message):
    with pytest.raises(kt.UserError, match=message):
        make()
