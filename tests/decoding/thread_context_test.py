"""A search sees what its thread sees, whole or in parts that other threads search."""

import contextlib

import keras
import numpy as np
import pytest

from keras_transformer.decoding import batch_compaction, cpu_parallel
from keras_transformer.decoding import search as search_module
from tests.decoding.comparison import new_model
from tests.decoding.search_functions import beam_search, greedy_search, sample
from tests.decoding.sentences import EXTRA_LENGTH, SOURCE
from tests.helpers import randomize, to_numpy

ROWS = SOURCE[:4]


def scores_of(model):
    return to_numpy(beam_search(model, ROWS, beam_size=2, extra_length=EXTRA_LENGTH)[1])


@pytest.fixture(params=[1, 2])
def num_parts(request, monkeypatch):
    monkeypatch.setattr(cpu_parallel, "_num_cores", lambda: request.param)
    monkeypatch.setattr(search_module, "FEWEST_HYPOTHESES", 1)
    return request.param


def test_a_search_reads_the_values_of_a_stateless_scope(num_parts):
    model = randomize(new_model(), seed=1)
    before = scores_of(model)
    values = [to_numpy(variable.value).copy() for variable in model.variables]
    randomize(model, seed=2)
    other = scores_of(model)
    assert not np.allclose(other, before)
    mapping = [
        (variable, keras.ops.convert_to_tensor(value, variable.dtype))
        for variable, value in zip(model.variables, values)
    ]
    with keras.StatelessScope(state_mapping=mapping):
        np.testing.assert_allclose(scores_of(model), before, atol=1e-5)
    np.testing.assert_allclose(scores_of(model), other, atol=1e-5)


@contextlib.contextmanager
def another_setting():
    """A setting of the backend, of the calling thread alone, other than the usual."""
    if keras.backend.backend() == "jax":
        import jax

        with jax.default_matmul_precision("highest"):
            yield
    else:
        import tensorflow as tf

        with tf.device(tf.config.list_logical_devices("CPU")[-1].name):
            yield


def setting():
    if keras.backend.backend() == "jax":
        import jax

        return jax.config.jax_default_matmul_precision
    import tensorflow as tf

    return tf.zeros(()).device


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="its searches use one thread")
def test_settings_of_the_backend(num_parts, monkeypatch):
    seen = []
    search = search_module.search_in_stages

    def noted(*args, **options):
        seen.append(setting())
        return search(*args, **options)

    monkeypatch.setattr(search_module, "search_in_stages", noted)
    model = randomize(new_model(), seed=1)
    with another_setting():
        expected = setting()
        scores_of(model)
    assert seen == [expected] * num_parts


def test_entering_a_thread_context_compiles_no_second_program(monkeypatch):
    model = randomize(new_model(), seed=1)
    monkeypatch.setattr(search_module, "FEWEST_HYPOTHESES", 1)
    monkeypatch.setattr(batch_compaction, "FEWEST_HYPOTHESES", 100)
    monkeypatch.setattr(cpu_parallel, "_num_cores", lambda: 1)
    greedy_search(model, ROWS[:2], extra_length=1)
    traces = model.traces
    monkeypatch.setattr(cpu_parallel, "_num_cores", lambda: 2)  # two parts of the same shape
    greedy_search(model, ROWS, extra_length=1)
    if keras.backend.backend() != "torch":
        assert model.traces == traces


def test_floatx_is_float16():
    keras.config.set_floatx("float16")
    try:
        model = randomize(new_model(), seed=1)
        options = {"extra_length": EXTRA_LENGTH, "coverage_penalty": 0.2}
        token_ids, scores = beam_search(model, ROWS, **options)
        _, sample_scores = sample(model, ROWS, extra_length=EXTRA_LENGTH, top_p=0.9)
    finally:
        keras.config.set_floatx("float32")
    assert model.dtype_policy.compute_dtype in ("float16", "float32")
    assert to_numpy(scores).dtype == to_numpy(sample_scores).dtype == "float32"
    assert np.isfinite(to_numpy(scores)).all() and np.isfinite(to_numpy(sample_scores)).all()
    assert (to_numpy(token_ids)[:, 0, 0] > 1).all()
