"""Each kind of search as each backend compiles it: held to the search in plain Python, and to what
the same searches give where nothing is compiled.
"""

import math

import keras
import numpy as np
import pytest

from keras_transformer.decoding import batch_compaction, compilation, search_loop
from tests.decoding.comparison import (
    EVERYTHING,
    FULL,
    LIMITS,
    SEEDS,
    assert_equals_reference,
    model_of,
    new_model,
    note_calls,
    output_lengths,
    reweight,
    search,
    without_padding,
)
from tests.decoding.searches import ROWS, SEARCHES, shared_model
from tests.decoding.sentences import SOURCE
from tests.helpers import assert_close, randomize, to_numpy

ONE_LAYER = {"num_layers": 1}


@pytest.mark.each_backend
def test_everything_together_compiled_once(monkeypatch):
    # On a busy machine XLA would soon pay, and compile another program.
    monkeypatch.setattr(compilation, "_SECONDS_OF_XLA", math.inf)
    model = new_model()  # one model: changed weights need no new program
    for seed in SEEDS[:3]:
        assert_equals_reference(reweight(model, seed), **EVERYTHING)
    # PyTorch compiles nothing, and counts each search.
    assert model.traces == (3 if keras.backend.backend() == "torch" else 1)
    if keras.backend.backend() == "tensorflow":
        prefix = EVERYTHING["prefix_token_ids"][:2]
        search(model, SOURCE[:2, :4], **{**EVERYTHING, "prefix_token_ids": prefix})
        assert model.traces == 1  # nor do other shapes


def test_leaf_counts_follow_hypotheses_through_the_beam():
    # A hypothesis takes the number of its leaves along, wherever the beam puts it.
    counted = {"word_start_ids": (3, 5, 7, 8, 10), "leaf_ids": (4, 6, 9, 11)}
    model = reweight(model_of.__wrapped__(**ONE_LAYER, **counted), SEEDS[0])
    searches = assert_equals_reference(model, **FULL)
    found = [row.tokens for search in searches for row in search.results]
    assert any(sum(token in counted["leaf_ids"] for token in tokens) > 1 for tokens in found)
    whole = model_of(**ONE_LAYER)
    whole.set_weights([to_numpy(weight) for weight in model.weights])
    assert (search(whole, beam_size=4)[0] != search(model, beam_size=4)[0]).any()


@pytest.mark.each_backend
def test_growing_and_shrinking_stages(monkeypatch):
    # Room for four steps at first, and half of a batch goes on as soon as half has ended.
    monkeypatch.setattr(batch_compaction, "_FIRST_STEPS", 4)
    monkeypatch.setattr(batch_compaction, "FEWEST_HYPOTHESES", 1)
    called = note_calls(
        monkeypatch,
        (search_loop, "without_unused"),
        (batch_compaction, "with_capacity"),
        (batch_compaction, "with_batch_size"),
    )
    model = reweight(model_of.__wrapped__(**ONE_LAYER), SEEDS[1])  # it has compiled no search yet
    options = {"beam_size": 3, "alpha": 1.0, "length_penalty": "power", "num_results": 2}
    searches = assert_equals_reference(model, **options)
    lengths = {len(each.tokens) for search in searches for each in search.results}
    assert max(lengths) > 4 and len(lengths) > 3
    assert called == {"without_unused", "with_capacity", "with_batch_size"}


# What PyTorch gives, which compiles nothing and is held to the references in the other files.
EXPECTED = {
    "sample": [
        [[10, 10, 10, 2], [3, 6, 10, 6, 4, 6, 7, 6, 6]],
        [[7, 7, 10, 7, 7], [7, 7, 6, 7, 7]],
        [[10, 7, 7, 7], [10, 2]],
        [[2], [8, 7, 7, 7, 7, 7, 7]],
        [[10, 10, 10, 2], [10, 9, 3, 3, 7, 7, 10, 10]],
    ],
    "grammar": [
        [[*[5] * 6, 8, *[7] * 5, *[5] * 7, 10, 7, 7, 7, 8, 7, 7, 7, 7, 10, 8, 7, 2]],
        [[10, 2]],
        [[2]],
        [[*[5] * 7, 10, *[7] * 6, 8, 10, 7, 2]],
        [[*[5] * 6, 8, *[7] * 5, 5, 5, 5, 10, 7, 7, 7, 8, 10, 7, 2]],
    ],
}
SCORES = {
    "sample": [[-7.3319, -20.3625], [-5.8020, -7.1097], [-4.5169, -5.4870],
               [-2.9981, -7.6261], [-8.4468, -14.3646]],
    "grammar": [[-17.3033], [-4.7244], [-4.1471], [-13.7255], [-15.2302]],
}  # fmt: skip


@pytest.mark.each_backend
@pytest.mark.parametrize("name", EXPECTED)
def test_same_on_every_backend(name):
    function, options = SEARCHES[name]
    token_ids, scores = (to_numpy(x) for x in function(shared_model(), ROWS, **options))
    found = [[without_padding(result) for result in results] for results in token_ids]
    assert found == EXPECTED[name]
    assert_close(scores, SCORES[name], atol=2e-4)


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow has two compilers")
@pytest.mark.parametrize("name", ["constraints", "sample"])
def test_xla_takes_over_a_shape_that_occurs_often_and_finds_the_same(name, monkeypatch):
    monkeypatch.setattr(compilation, "_SECONDS_OF_XLA", 1e-9)
    monkeypatch.setattr(batch_compaction, "_FIRST_STEPS", 4)  # so there is a second stage
    called = note_calls(monkeypatch, (batch_compaction, "_stages_one_by_one"))
    function, options = SEARCHES[name]
    model = randomize(model_of.__wrapped__(**ONE_LAYER), seed=10)
    expected = [to_numpy(x) for x in function(model, ROWS, **options)]
    assert not called
    token_ids, scores = function(model, ROWS, **options)
    assert called
    np.testing.assert_array_equal(to_numpy(token_ids), expected[0])
    assert_close(scores, expected[1], atol=1e-5)


@pytest.mark.parametrize("name", ["constraints", "prefix"])
def test_within_a_program_of_the_user(name):
    search, options = SEARCHES[name]
    model = shared_model()
    expected = [to_numpy(x) for x in search(model, ROWS, **options)]
    compiled = {"tensorflow": compile_tensorflow, "jax": compile_jax, "torch": lambda f: f}
    run = compiled[keras.backend.backend()](lambda source: search(model, source, **options))
    for actual, value in zip(run(ROWS), expected, strict=True):
        assert_close(actual, value, atol=1e-4)


def compile_tensorflow(function):
    import tensorflow as tf

    signature = [tf.TensorSpec((None, None), "int32")]
    return tf.function(function, input_signature=signature, autograph=False)


def compile_jax(function):
    import jax

    return jax.jit(function)


def test_bfloat16_gives_finite_float32_scores_within_the_limits():
    model = randomize(model_of(dtype="mixed_bfloat16", **ONE_LAYER), seed=1)
    token_ids, scores = search(model, beam_size=2)
    assert scores.dtype == "float32" and np.isfinite(scores).all()
    assert ((output_lengths(token_ids) > 0) == (np.array(LIMITS) > 0)[:, None]).all()
    assert (output_lengths(token_ids) <= np.array(LIMITS)[:, None]).all()
