"""The tree on which many trees agree."""

import itertools
import random
from collections import Counter

import pytest
from nltk import Tree

from keras_transformer.errors import UserError
from keras_transformer.parsing.tree_consensus import consensus

pytestmark = pytest.mark.once


def trees(*texts):
    return [Tree.fromstring(text) for text in texts]


LOW = "(S (NP (N He)) (VP (V saw) (NP (NP (N her)) (PP (P with) (NP (N it))))))"
HIGH = "(S (NP (N He)) (VP (V saw) (NP (N her)) (PP (P with) (NP (N it)))))"


@pytest.mark.parametrize(("weights", "best"), [((2, 1), LOW), ((1, 2), HIGH), ((1, 1), HIGH)])
def test_the_majority_decides_where_trees_differ(weights, best):
    # One constituent is in LOW only: half of the weight is not a majority.
    tree, agreement = consensus(trees(LOW, HIGH), weights)
    assert tree == Tree.fromstring(best)
    numbers = {LOW: 6 + 2 / 3, HIGH: 6}
    assert agreement == pytest.approx(numbers[best] / (7 if best == LOW else 6))


def test_the_consensus_may_differ_from_all_trees():
    # Each tree has one of three constituents wrong; the words outside them stay where they are.
    right = ("(A (N a) (N b))", "(B (N c) (N d))", "(C (N e) (N f))")
    wrong = ("(X (N a) (N b))", "(Y (N c) (N d))", "(Z (N e) (N f))")
    parts = [[w if i == j else r for j, (r, w) in enumerate(zip(right, wrong))] for i in range(3)]
    found = trees(*(f"(S {' '.join(of_tree)})" for of_tree in parts))
    expected = Tree.fromstring(f"(S {' '.join(right)})")
    assert expected not in found
    assert consensus(found, [1, 1, 1]) == (expected, pytest.approx((1 + 3 * 2 / 3) / 4))


def test_one_tree_is_its_own_consensus():
    chains = "(S (S (NP (NP (N a)))) (VP (NP (VP (V b) (N c)))))"
    for text in (LOW, HIGH, chains, "(N a)", "(S (N a))"):
        assert consensus(trees(text), [0.3]) == (Tree.fromstring(text), pytest.approx(1))


def test_constituents_of_the_same_words_keep_their_order():
    found = trees("(A (B (C (N a) (N b))))", "(A (C (N a) (N b)))", "(B (C (N a) (N b)))")
    assert consensus(found, [1, 1, 1]).tree == found[0]
    twice = trees("(A (A (N a) (N b)))", "(A (N a) (N b))")
    assert consensus(twice, [2, 1]).tree == twice[0]
    assert consensus(twice, [1, 2]).tree == twice[1]


def test_each_word_gets_the_tag_with_the_largest_weight():
    found = trees("(S (X a) (N b))", "(S (Y a) (M b))", "(S (X a) (M b))")
    assert consensus(found, [2, 3, 2]).tree == Tree.fromstring("(S (X a) (M b))")


def test_the_root_is_the_heaviest_if_none_has_a_majority():
    found = trees("(A (N a) (N b))", "(B (N a) (N b))", "(C (N a) (N b))")
    assert consensus(found, [1, 3, 2]) == (found[1], 0.5)
    bare = trees("(N a)", "(S (N a))", "(Q (N a))")
    assert consensus(bare, [1, 1, 1]).tree == bare[0]  # one word needs none


def test_deep_trees_have_a_consensus():
    deep = Tree("N", ["a"])
    for _ in range(5000):
        deep = Tree("S", [deep])
    tree, _ = consensus([deep, deep], [1, 1])
    depth = 0
    while not isinstance(tree, str):
        tree, depth = tree[0], depth + 1
    assert depth == 5001


def bracketings(start, end):
    """Return all ways to divide the words from `start` to before `end`, as sets of spans."""
    if end - start == 1:
        return [()]
    found = []
    for cuts in itertools.product([False, True], repeat=end - start - 1):
        ends = [start + 1 + i for i, cut in enumerate(cuts) if cut] + [end]
        parts = list(zip([start, *ends], ends))
        if len(parts) > 1:
            for below in itertools.product(*(bracketings(*part) for part in parts)):
                found.append(((start, end), *itertools.chain.from_iterable(below)))
    return found


def labelled(spans, labels):
    return frozenset((*span, label) for span, label in zip(spans, labels))


def tree_of(constituents, num_words):
    opened = Counter(start for start, _, _ in constituents)
    text = ""
    for position in range(num_words):
        here = sorted((c for c in constituents if c[0] == position), key=lambda c: -c[1])
        assert opened[position] == len(here)
        text += "".join(f"({label} " for _, _, label in here) + f"(N {position}) "
        text += ")" * sum(end == position + 1 for _, end, _ in constituents)
    return Tree.fromstring(text)


def expected_errors(taken, found, weights):
    return sum(weight * len(taken ^ each) for each, weight in zip(found, weights))


def test_the_consensus_has_the_fewest_expected_errors():
    rng, n = random.Random(1), 5
    every = [
        labelled(spans, labels)
        for spans in bracketings(0, n)
        for labels in itertools.product("AB", repeat=len(spans))
    ]
    by_tree = {str(tree_of(each, n)): each for each in every}
    for _ in range(30):
        found = rng.choices(every, k=rng.randint(1, 6))
        weights = [rng.random() for _ in found]
        taken = by_tree[str(consensus([tree_of(each, n) for each in found], weights).tree)]
        least = min(expected_errors(each, found, weights) for each in every)
        assert expected_errors(taken, found, weights) == pytest.approx(least)


@pytest.mark.parametrize(
    ("texts", "weights", "message"),
    [
        ((), (), "`trees` must be one or more trees"),
        (("(N a)", "(N b)"), (1, 1), "trees of 2 sentences"),
        (("(N a)",), (1, 1), "for 1 trees"),
        (("(N a)", "(N a)"), (2, -1), "not negative"),
        (("(N a)",), (0,), "not all 0"),
        (("(N a)",), (float("nan"),), "`weights` must hold one number per tree"),
    ],
)
def test_invalid_trees_and_weights_are_errors(texts, weights, message):
    with pytest.raises(UserError, match=message):
        consensus(trees(*texts), weights)
