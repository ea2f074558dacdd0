import functools
import os
import sys
import threading

import keras
import numpy as np
import pytest

from keras_transformer.decoding import cpu_parallel
from keras_transformer.decoding import search as search_module
from tests.decoding.comparison import without_padding
from tests.decoding.compiled_search_test import EXPECTED, SCORES
from tests.decoding.search_functions import beam_search
from tests.decoding.searches import ROWS, SEARCHES, shared_model
from tests.decoding.sentences import EXTRA_LENGTH
from tests.helpers import assert_close, to_numpy

# The backends whose searches run without Python's lock.
COMPILED = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch searches step by step in Python"
)
NUM_CORES = 3


@pytest.fixture
def searches(monkeypatch):
    """Splits every batch; gives the searches: their threads and the shapes of their sources."""
    calls = []

    def counted(model, inputs, **options):
        calls.append((threading.get_ident(), tuple(inputs.encoder_token_ids.shape)))
        return search(model, inputs, **options)

    search = search_module.search_in_stages
    monkeypatch.setattr(search_module, "search_in_stages", counted)
    monkeypatch.setattr(cpu_parallel, "_num_cores", lambda: NUM_CORES)
    monkeypatch.setattr(search_module, "FEWEST_HYPOTHESES", 1)
    return calls


@pytest.mark.each_backend
@COMPILED
def test_parts_of_a_search_for_trees_give_the_recorded_trees(searches):
    # Of all kinds, one that has something more to split than the sources.
    search, options = SEARCHES["grammar"]
    token_ids, scores = (to_numpy(x) for x in search(shared_model(), ROWS, **options))
    assert [shape for _, shape in searches] == [(2, ROWS.shape[1])] * NUM_CORES
    assert [[without_padding(x) for x in row] for row in token_ids] == EXPECTED["grammar"]
    assert token_ids.dtype == "int32"
    assert_close(scores, SCORES["grammar"], atol=2e-4)


@COMPILED
@pytest.mark.parametrize("name", SEARCHES)
def test_parts_and_the_whole_batch_give_equal_outputs(name, searches, monkeypatch):
    search, options = SEARCHES[name]
    run = functools.partial(search, shared_model(), ROWS, **options)
    parts = [to_numpy(x) for x in run()]
    assert [shape for _, shape in searches] == [(2, ROWS.shape[1])] * NUM_CORES
    monkeypatch.setattr(cpu_parallel, "_num_cores", lambda: 1)
    whole = [to_numpy(x) for x in run()]
    assert [shape for _, shape in searches[NUM_CORES:]] == [ROWS.shape]
    assert parts[0].tolist() == whole[0].tolist()
    assert parts[0].dtype == "int32" and len(np.unique(parts[0], axis=0)) > 1
    for part, all_at_once in zip(parts[1:], whole[1:]):
        assert_close(part, all_at_once, atol=1e-5)


@COMPILED
def test_parts_run_at_the_same_time(searches, monkeypatch):
    meeting = threading.Barrier(NUM_CORES, timeout=600)
    search = search_module.search_in_stages

    def meeting_first(*args, **options):
        meeting.wait()  # until all parts are here
        return search(*args, **options)

    monkeypatch.setattr(search_module, "search_in_stages", meeting_first)
    beam_search(shared_model(), ROWS, extra_length=EXTRA_LENGTH)
    assert len({thread for thread, _ in searches}) == NUM_CORES


def test_a_small_batch_stays_whole(searches, monkeypatch):
    monkeypatch.setattr(search_module, "FEWEST_HYPOTHESES", 11)
    beam_search(shared_model(), ROWS, beam_size=4, extra_length=EXTRA_LENGTH)
    assert len(searches) == 1  # two parts would have 10 hypotheses each


def test_a_search_within_a_compiled_program_stays_whole(searches):
    model = shared_model()

    def search(source):
        return beam_search(model, source, extra_length=EXTRA_LENGTH)[0]

    if keras.backend.backend() == "jax":
        import jax

        search_compiled = jax.jit(search)
    elif keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        search_compiled = tf.function(search, autograph=False)
    else:
        search_compiled = search
    token_ids = to_numpy(search_compiled(ROWS))
    assert [shape[1:] for _, shape in searches] == [ROWS.shape[1:]]
    assert token_ids.tolist() == to_numpy(search(ROWS)).tolist()


@pytest.mark.once
@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1),
        ({"cpu.max": "400000 100000\n"}, 4),
        ({"cpu.max": "50000 100000\n"}, 0),
        ({"cpu.max": "max 100000\n"}, sys.maxsize),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, sys.maxsize),
        ({}, sys.maxsize),
    ],
)
def test_quota_of_a_container(tmp_path, files, cores):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cpu_parallel._quota(tmp_path) == cores


@pytest.mark.once
def test_no_more_cores_than_there_are(monkeypatch):
    for quota, cores in ((0, 1), (1, 1), (sys.maxsize, len(os.sched_getaffinity(0)))):
        monkeypatch.setattr(cpu_parallel, "_quota", lambda _, quota=quota: quota)
        assert cpu_parallel._num_cores.__wrapped__() == cores
