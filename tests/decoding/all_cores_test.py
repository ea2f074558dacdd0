import functools
import threading

import keras
import numpy as np
import pytest

from keras_transformer.decoding import all_cores
from keras_transformer.decoding.search import beam_search, sample
from keras_transformer.decoding.tree_grammar import TreeGrammar
from keras_transformer.models.transformer import Transformer
from tests.decoding.sentences import EXTRA_LENGTH, SOURCE
from tests.helpers import assert_close, randomize, to_numpy

# The backends whose programs run without Python's lock.
COMPILED = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch searches step by step in Python"
)
NUM_CORES = 3
# A part more has a row of padding: 5 rows are no three equal parts.
ROWS = SOURCE[:5]
GRAMMAR = TreeGrammar((4, 5), (6, 7), (8, 9, 10), leaf_sets=((8,), (9, 10)))
WORDS = {
    "grammar": GRAMMAR,
    "num_words": np.array([5, 1, 0, 3, 4]),
    "word_kinds": np.arange(25).reshape(5, 5) % 2,
    "extra_length": 30,
}
SEARCHES = {
    "beam": (beam_search, {"num_results": 3, "coverage_penalty": 0.2}),
    "prefix": (
        beam_search,
        {"prefix_token_ids": np.array([[5, 6], [4, 0], [0, 0], [7, 0], [3, 3]])},
    ),
    "attention": (beam_search, {"return_attention": True}),
    "sample": (sample, {"num_results": 2, "seed": 3}),
    "grammar": (beam_search, WORDS),
}


@functools.cache
def shared_model():
    model = Transformer(12, num_layers=1, hidden_dim=8, intermediate_dim=16, num_heads=2)
    return randomize(model, seed=10)


@pytest.fixture
def programs(monkeypatch):
    """Splits every batch; gives the calls of a program: its thread and the shape of its sources."""
    calls = []

    def counted(*args, **options):
        program = compiled(*args, **options)

        def count(encoder_token_ids, *tensors):
            calls.append((threading.get_ident(), tuple(encoder_token_ids.shape)))
            return program(encoder_token_ids, *tensors)

        return count

    compiled = all_cores.compiled
    monkeypatch.setattr(all_cores, "compiled", counted)
    monkeypatch.setattr(all_cores, "_num_cores", lambda: NUM_CORES)
    monkeypatch.setattr(all_cores, "_FEWEST_HYPOTHESES", 1)
    return calls


@COMPILED
@pytest.mark.parametrize("name", SEARCHES)
def test_parts_give_what_the_whole_gives(name, programs, monkeypatch):
    search, options = SEARCHES[name]
    run = functools.partial(
        search, shared_model(), ROWS, **{"extra_length": EXTRA_LENGTH, **options}
    )
    parts = [to_numpy(x) for x in run()]
    assert [shape for _, shape in programs] == [(2, ROWS.shape[1])] * NUM_CORES
    monkeypatch.setattr(all_cores, "_num_cores", lambda: 1)
    whole = [to_numpy(x) for x in run()]
    assert len(programs) == NUM_CORES  # the whole is not among these
    assert parts[0].tolist() == whole[0].tolist()
    assert parts[0].dtype == "int32" and len(np.unique(parts[0], axis=0)) > 1
    for part, all_at_once in zip(parts[1:], whole[1:]):
        assert_close(part, all_at_once, atol=1e-5)


@COMPILED
def test_parts_run_at_the_same_time(programs, monkeypatch):
    meeting = threading.Barrier(NUM_CORES, timeout=60)
    split = all_cores.compiled

    def meeting_first(*args, **options):
        program = split(*args, **options)

        def run(*tensors):
            meeting.wait()  # until all parts are here
            return program(*tensors)

        return run

    monkeypatch.setattr(all_cores, "compiled", meeting_first)
    beam_search(shared_model(), ROWS, extra_length=EXTRA_LENGTH)
    assert len({thread for thread, _ in programs}) == NUM_CORES


def test_a_small_batch_stays_whole(programs, monkeypatch):
    monkeypatch.setattr(all_cores, "_FEWEST_HYPOTHESES", 11)
    beam_search(shared_model(), ROWS, beam_size=4, extra_length=EXTRA_LENGTH)
    assert not programs  # two parts would have 10 hypotheses each


def test_a_search_within_a_compiled_program_stays_whole(programs):
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
    assert not programs
    assert token_ids.tolist() == to_numpy(search(ROWS)).tolist()
