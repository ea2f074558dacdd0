"""A search that is looked at, step by step, is the search."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.decoding.beam_trace import replay
from tests.decoding.reference_search import NumpyTransformer, reference_search
from tests.helpers import randomize, to_numpy

SOURCE = [7, 9, 5, 2]


def small_model(seed=0, **options):
    sizes = {"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2}
    return randomize(kt.Transformer(12, **{**sizes, **options}), seed)


def assert_is_a_beam(history, most_live):
    """Each grows out of another, and a status says whether others grow out of it."""
    hypotheses = {each.tokens: each for each in history.hypotheses}
    assert len(hypotheses) == len(history.hypotheses)
    parents = {tokens[:-1] for tokens in hypotheses}
    assert parents - {()} <= hypotheses.keys()
    for tokens, each in hypotheses.items():
        assert (each.status == "continued") == (tokens in parents)
        assert (each.status == "finished") == (each.step is None)
        if each.status == "live":
            assert each.step <= history.num_steps
    assert all(each.status == "finished" for each in history.results)
    steps = [each.step for each in history.hypotheses if each.step]
    assert max(np.bincount(steps)) <= most_live


@pytest.mark.parametrize(
    ("search", "num_results"),
    [
        (kt.BeamSearch(3, alpha=0.6, extra_length=5, coverage_penalty=0.2), 2),
        (kt.BeamSearch(4, extra_length=4), 1),
        (kt.BeamSearch(1, 0.0, extra_length=6), 1),
    ],
)
def test_replay_equals_the_search_in_plain_python(search, num_results):
    model = small_model()
    history = replay(search, model, [SOURCE], num_results)
    assert_is_a_beam(history, search.beam_size)
    options = {"length_penalty": search.length_penalty, "extra_length": search.extra_length}
    for name in ("beam_size", "alpha", "coverage_penalty"):
        options[name] = getattr(search, name)
    predict = NumpyTransformer(model)
    expected = reference_search(predict, SOURCE, num_results=num_results, **options)
    assert expected.margin > 1e-5
    assert [x.tokens for x in history.results] == [x.tokens for x in expected.results]
    finished = {x.tokens: x.score for x in history.hypotheses if x.status == "finished"}
    assert finished == pytest.approx({x.tokens: x.score for x in expected.completed}, abs=1e-5)
    # What lived has the model's own log-probability.
    for each in history.hypotheses:
        if each.status != "finished":
            log_probabilities, _ = predict(SOURCE, [[1, *each.tokens[:-1]]])
            total = sum(log_probabilities[0, i, token] for i, token in enumerate(each.tokens))
            assert each.score == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("seed", range(2))
def test_replay_and_the_compiled_search_give_equal_results(seed):
    model = small_model(seed, position_encoding="learned", max_length=40)
    constraints = (kt.constraints.NoRepeatedNgrams(2),)
    for search in (kt.BeamSearch(2, 0.6, "gnmt", 0.0, 9), kt.BeamSearch(5, 1.0, "power", 0.0, 9)):
        token_ids, scores = search(model, [SOURCE], 2, constraints)
        history = replay(search, model, [SOURCE], 2, constraints)
        assert_is_a_beam(history, search.beam_size)
        found = [tuple(i for i in row if i) for row in to_numpy(token_ids)[0].tolist()]
        assert [each.tokens for each in history.results] == found
        assert [x.score for x in history.results] == pytest.approx(to_numpy(scores)[0].tolist())
