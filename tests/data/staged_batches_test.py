"""A curriculum: batches of one store, then those of another."""

import keras
import numpy as np
import pytest

from keras_transformer.data.batch_planner import BatchingOptions
from keras_transformer.data.batching import TokenBatches, plan_batches
from keras_transformer.data.staged_batches import StagedBatches
from keras_transformer.errors import UserError
from tests.small_corpus import store_of

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Short pairs, and longer ones."""
    generator = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("stores")
    return [
        store_of(folder / str(longest), generator.integers(1, longest, (60, 2)).tolist())
        for longest in (9, 24)
    ]


def stages(stores, num_batches, **options):
    first, rest = (TokenBatches(store, 100, 3, seed=2, **options) for store in stores)
    return StagedBatches(first, num_batches, rest), first, rest


def assert_same(x, y):
    keras.tree.map_structure(np.testing.assert_array_equal, x, y)


@pytest.mark.parametrize("num_batches", [0, 5, 30])  # 30: in a later epoch of the first
def test_each_step_is_a_batch_of_its_stage(stores, num_batches):
    staged, first, rest = stages(stores, num_batches)
    assert len(first) < 30
    for step in (0, 4, 5, 29, 30, 70):
        batches, index = (first, step) if step < num_batches else (rest, step - num_batches)
        assert_same(staged.batch_of_step(step), batches.batch_of_step(index))
        pairs = batches.pairs_of_batch(*batches.plans.position(index))[1]
        np.testing.assert_array_equal(staged.pairs_of_step(step), pairs)


@pytest.mark.parametrize("start", [0, 4, 5, 6])
def test_a_stream_that_begins_anywhere_goes_on_the_same(stores, start):
    staged, *_ = stages(stores, 5)
    stream = staged.stream(start)
    batches = stream.take(3) if hasattr(stream, "take") else [stream[i] for i in range(3)]
    for step, batch in enumerate(batches, start=start):
        assert_same(keras.tree.map_structure(np.asarray, batch), staged.batch_of_step(step))


def test_every_update_weighs_its_tokens_alike_across_the_switch(stores):
    staged, *_ = stages(stores, 6, accumulate=3)
    for update in range(8):
        weights = [staged.batch_of_step(3 * update + i)[2] for i in range(3)]
        flat = np.concatenate([w[w > 0] for w in weights])
        assert len(np.unique(flat)) == 1
        assert abs(flat.sum(dtype="float64") - 3) < 1e-5


def test_accounts_of_both_stages(stores):
    first, rest = (TokenBatches(store, 100, 3, seed=2) for store in stores)
    staged = StagedBatches(first, 2 * len(first), rest)
    tokens = [int((store.target.lengths + 1).sum()) for store in stores]
    switch, end = 2 * len(first), 2 * len(first) + 3 * len(rest)
    assert staged.passes(switch) == [(first, 2), (rest, 0)]
    assert staged.passes(end) == [(first, 2), (rest, 3)]
    assert (staged.epochs(len(first)), staged.epochs(end)) == (1, 5)
    assert staged.target_tokens(end) == 2 * tokens[0] + 3 * tokens[1]
    # What batches hold, counted.
    counted = sum((staged.batch_of_step(step)[1] > 0).sum() for step in range(end))
    assert counted == staged.target_tokens(end)
    counts = [staged.target_tokens(step) for step in range(end)]
    assert counts == sorted(counts)


def test_shapes_are_those_of_both_stages(stores):
    staged, first, rest = stages(stores, 5)
    shapes = {tuple(shape) for batches in (first, rest) for shape in batches.shapes.tolist()}
    assert {tuple(shape) for shape in staged.shapes.tolist()} == shapes
    assert len(staged.shapes) == len(shapes) > 3


def test_an_update_is_of_one_stage(stores):
    with pytest.raises(UserError, match="whole updates.*num_batches=5, accumulate=3"):
        stages(stores, 5, accumulate=3)
    first, rest = TokenBatches(stores[0], 100, accumulate=2), TokenBatches(stores[1], 100)
    with pytest.raises(UserError, match="accumulate=2 and 1"):
        StagedBatches(first, 4, rest)


def test_planned_in_updates(stores):
    options = BatchingOptions(batch_tokens=100, num_shapes=3)
    first, rest = stores
    staged, _ = plan_batches(rest, rest, options, accumulate=2, seed=3, first=(first, 4))
    assert staged.num_batches == 8 and staged.accumulate == 2
    assert (staged.first.store, staged.rest.store) == (first, rest)
    assert staged.first.seed == staged.rest.seed == 3
