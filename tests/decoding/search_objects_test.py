"""Searches as objects: made, compared, kept, and compiled once for many values."""

import json

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer import constraints
from keras_transformer.decoding import compilation
from keras_transformer.decoding.resolve_search import resolve_search
from keras_transformer.decoding.static_fields import deserialize, serialize
from tests.decoding.comparison import new_model, reweight
from tests.decoding.search_functions import beam_search
from tests.decoding.sentences import EXTRA_LENGTH, SOURCE
from tests.helpers import to_numpy

ALL = (
    constraints.MinLength(2),
    constraints.BannedTokens((5, 7)),
    constraints.NoUnknownToken(),
    constraints.NoRepeatedNgrams(2),
    constraints.RepetitionPenalty(1.2),
    constraints.RepetitionPenalty(1.2, applies_to="log_probs"),
    constraints.MaxLength(7),
)
BEAM = kt.BeamSearch(3, 0.8, "power", 0.1, EXTRA_LENGTH, ALL)
SAMPLING = kt.Sampling(0.7, 4, 0.9, 3, EXTRA_LENGTH, ALL)


@pytest.mark.once
@pytest.mark.parametrize("search", [BEAM, SAMPLING, kt.BeamSearch(), kt.Sampling(seed=None)])
def test_json_and_back(search):
    again = deserialize(json.loads(json.dumps(serialize(search))))
    assert again == search and hash(again) == hash(search)
    assert type(search).from_config(json.loads(json.dumps(search.get_config()))) == search


@pytest.mark.each_backend
def test_searches_and_constraints_are_equal_by_value():
    assert kt.BeamSearch(np.int64(4), np.float64(0.6)) == kt.BeamSearch()
    assert len({kt.BeamSearch(), kt.BeamSearch(4), kt.BeamSearch(5), kt.Sampling()}) == 3
    assert constraints.MinLength(np.int64(3)) == constraints.MinLength(3)
    banned = constraints.BannedTokens(np.array([5, 4, 4]))
    assert hash(banned) == hash(constraints.BannedTokens((4, 5)))
    prefix, num_words = np.array([[5, 6], [7, 0]]), np.array([2, 1])
    grammar = kt.parsing.TreeGrammar((4,), (5,), (6, 7), leaf_sets=((6,), (7,)))
    searches = [
        kt.BeamSearch(
            constraints=(
                constraints.ForcedPrefix(as_type(prefix)),
                grammar.over(words, words_kinds),
            )
        )
        for as_type in (np.asarray, np.ndarray.tolist, ops.convert_to_tensor)
        for words, words_kinds in [(as_type(num_words), as_type(prefix % 2))]
    ]
    assert len(set(searches)) == 1 and searches[0] == searches[1] == searches[2]
    assert searches[0] != kt.BeamSearch(constraints=constraints.ForcedPrefix(prefix + 1))
    assert deserialize(json.loads(json.dumps(serialize(searches[2])))) == searches[0]


@pytest.mark.once
def test_names_and_options_become_searches():
    default = kt.BeamSearch(21, 0.3, extra_length=300, constraints=(ALL[0],))
    assert resolve_search(None, default) == default
    assert resolve_search(None, default, beam_size=8).extra_length == 300
    greedy = resolve_search("greedy", default)
    assert greedy == kt.BeamSearch(1, 0.0, extra_length=300, constraints=(ALL[0],))
    sampling = resolve_search("random", default, top_p=0.9)
    assert sampling == kt.Sampling(top_p=0.9, extra_length=300, constraints=(ALL[0],))
    assert resolve_search(SAMPLING, default, seed=5) == kt.Sampling(
        0.7, 4, 0.9, 5, EXTRA_LENGTH, ALL
    )
    limited = resolve_search(None, kt.BeamSearch(), min_length=2)
    assert limited.constraints == ALL[:1]


def outputs(search, model, **options):
    return [to_numpy(x) for x in search(model, SOURCE, **options)]


def test_calls_without_a_seed_draw_different_outputs():
    model, search = new_model(), kt.Sampling(seed=None, extra_length=EXTRA_LENGTH)
    keras.utils.set_random_seed(1)
    first, second = (outputs(search, model, num_results=5)[0].tolist() for _ in range(2))
    assert first != second
    keras.utils.set_random_seed(1)
    assert outputs(search, model, num_results=5)[0].tolist() == first


@pytest.mark.each_backend
def test_values_that_vary_share_a_program():
    model = reweight(new_model(), 9)
    seen = set()
    for temperature, top_p, seed, extra_length, banned in [
        (0.5, 0.9, 0, 4, 5),
        (1.0, 0.8, 1, 5, 6),
        (1.7, 1.0, 2, 9, 7),
    ]:
        search = kt.Sampling(temperature, None, top_p, seed, extra_length)
        ban = constraints.BannedTokens((banned,))
        token_ids, _ = outputs(search, model, constraints=(ban, constraints.MinLength(seed)))
        assert banned not in token_ids and token_ids.shape[-1] == SOURCE.shape[1] + extra_length
        seen.add(token_ids.tobytes())
    assert len(seen) == 3
    assert model.traces == (3 if keras.backend.backend() == "torch" else 1)


@pytest.mark.once
def test_programs_have_a_bound(monkeypatch):
    monkeypatch.setattr(compilation, "_MOST_PROGRAMS", 2)
    model = new_model()
    for beam_size in (1, 2, 3):
        beam_search(model, SOURCE, beam_size, extra_length=1)
    programs = compilation._compiled[model]
    sizes = [dict(options)["static_part"].beam_size for _, _, options in programs]
    assert sizes == [2, 3]
