"""Few shapes first, more when they pay: what is in which batch of epochs that differ in shapes."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_transformer.data.batch_planner import EpochPlans

pytestmark = pytest.mark.once

COUNT, EPOCHS = 300, 40


def make_plans(seed=0, compile_batches=2, rows_multiple=1, num_shapes=6):
    generator = np.random.default_rng(0)
    source = generator.integers(1, 24, COUNT)
    target = np.clip(source + generator.integers(-3, 6, COUNT), 1, 28)
    return EpochPlans(source, target, 256, num_shapes, rows_multiple, seed, compile_batches)


def programs(plans, epoch):
    """The lengths and rows of the batches of an epoch, in their order."""
    shapes = [plans.pairs(epoch, i)[0] for i in range(plans.num_batches(epoch))]
    return [(*plans.shapes[shape].tolist(), int(plans.rows[shape])) for shape in shapes]


@pytest.mark.parametrize("rows_multiple", [1, 4])
def test_every_pair_is_in_one_batch_of_each_epoch(rows_multiple):
    plans = make_plans(rows_multiple=rows_multiple)
    assert plans.num_shapes(0) < plans.num_shapes(EPOCHS) == len(plans.shapes)
    for epoch in range(EPOCHS):
        found = [plans.pairs(epoch, i)[1] for i in range(plans.num_batches(epoch))]
        assert sorted(np.concatenate(found)) == list(range(COUNT))


def test_rows_hold_the_pairs_and_the_budget_holds_the_rows():
    plans = make_plans(rows_multiple=2)
    assert (plans.rows * plans.shapes.max(axis=1) <= 256).all()
    assert (plans.rows % 2 == 0).all()
    for epoch in range(EPOCHS):
        for index in range(plans.num_batches(epoch)):
            shape, pairs = plans.pairs(epoch, index)
            assert 0 < len(pairs) <= plans.rows[shape]


def test_an_epoch_has_the_programs_of_those_before_and_no_more_than_all():
    plans = make_plans()
    before = set()
    for epoch in range(EPOCHS):
        now = set(programs(plans, epoch))
        assert len(now) == plans.num_shapes(epoch)
        assert before <= now
        before = now
    assert len(before) == 6


def test_each_epoch_begins_with_the_largest_shape():
    plans = make_plans()
    for epoch in range(EPOCHS):
        found = programs(plans, epoch)
        assert found[0] == max(found, key=lambda program: program[0] + program[1])
        if plans.num_shapes(epoch) > 1:  # On TensorFlow the second shows that both axes vary.
            assert found[1][0] != found[0][0] and found[1][1] != found[0][1]


def test_a_shape_comes_when_it_pays():
    # In the longer shape, 90 pairs take 42 slots in place of 6: 3,240 more an epoch. A program
    # costs 40 batches of 420 slots. In 2e + 1 epochs, 7 for the first time, more are saved.
    source = np.array([3] * 90 + [21] * 10)
    plans = EpochPlans(source, source, 210, num_shapes=2, seed=0, compile_batches=40)
    assert [plans.num_shapes(epoch) for epoch in range(6)] == [1, 1, 1, 2, 2, 2]
    # Ten rows a batch; then 90 pairs of 3 in two batches, and ten of 21 in one.
    assert [plans.num_batches(epoch) for epoch in range(6)] == [10, 10, 10, 3, 3, 3]
    assert plans.num_batches_at_last == 3
    assert plans.rows.tolist() == [45, 10]
    assert [plans.num_slots(epoch) for epoch in (0, 5)] == [100 * 42, 90 * 6 + 10 * 42]


def test_without_a_price_all_shapes_come_at_once():
    plans = make_plans(compile_batches=0)
    assert {plans.num_shapes(epoch) for epoch in range(3)} == {6}


def test_lengths_that_do_not_go_together():
    # No pair needs a shape that would hold all, so there is none, and both of the two stay.
    source, target = np.array([10, 2, 10]), np.array([2, 10, 3])
    plans = EpochPlans(source, target, 100, num_shapes=3, seed=0, compile_batches=1000)
    assert plans.num_shapes(0) == plans.num_batches(0) == 2


def test_positions_count_the_batches_of_all_epochs():
    expected = [(e, i) for e in range(EPOCHS) for i in range(make_plans().num_batches(e))]
    assert len({make_plans().num_batches(epoch) for epoch in range(EPOCHS)}) > 1
    one_by_one, from_the_end = make_plans(), make_plans()
    assert [one_by_one.position(step) for step in range(len(expected))] == expected
    last = len(expected) - 1
    assert from_the_end.position(last) == expected[last]
    firsts = [expected.index((epoch, 0)) for epoch in range(EPOCHS)]
    assert [make_plans().first_step(epoch) for epoch in range(EPOCHS)] == firsts
    assert [one_by_one.first_step(epoch) for epoch in range(EPOCHS)] == firsts


def test_seed_and_epoch_alone_decide():
    plans, other = make_plans(), make_plans(seed=1)
    backwards = make_plans()
    later = [backwards.pairs(epoch, 1)[1].tolist() for epoch in reversed(range(EPOCHS))][::-1]
    assert [plans.pairs(epoch, 1)[1].tolist() for epoch in range(EPOCHS)] == later
    assert later != [other.pairs(epoch, 1)[1].tolist() for epoch in range(EPOCHS)]


def test_threads_may_ask_at_once():
    expected, plans = make_plans(), make_plans()
    steps = np.random.default_rng(0).integers(0, 400, 200).tolist()

    def pairs(plans, step):
        return plans.pairs(*plans.position(step))[1].tolist()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda step: pairs(plans, step), steps))
    assert found == [pairs(expected, step) for step in steps]
