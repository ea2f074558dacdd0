"""Batch shapes, and epochs that have few of them first and more when they pay."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_transformer.data.batch_planner import (
    EpochPlans,
    _shares,
    assign_shapes,
    merge_shapes,
    plan_shapes,
)

pytestmark = pytest.mark.once


def random_lengths(count, longest, seed):
    """Lengths of source and target that go together, as those of sentences do."""
    generator = np.random.default_rng(seed)
    source = generator.integers(1, longest, count, endpoint=True)
    target = np.clip(source + generator.integers(-2, 3, count), 1, longest)
    return source, target


def cost(source, target, shapes):
    """The slots all pairs take, each in the smallest shape that holds it."""
    return sum(
        min(s + t for s, t in shapes if a <= s and b <= t)
        for a, b in zip(source.tolist(), target.tolist())
    )


@pytest.mark.parametrize("seed", range(10))
def test_two_shapes_are_the_best_possible(seed):
    source, target = random_lengths(40, 6, seed)
    largest = (source.max(), target.max())
    best = min(
        cost(source, target, [small, largest])
        for small in itertools.product(range(1, 7), range(1, 7))
    )
    assert cost(source, target, plan_shapes(source, target, 2)) == best


@pytest.mark.parametrize("seed", range(3))
def test_three_shapes_are_close_to_the_best_possible(seed):
    source, target = random_lengths(30, 5, seed)
    largest = (source.max(), target.max())
    places = list(itertools.product(range(1, 6), range(1, 6)))
    best = min(
        cost(source, target, [*small, largest]) for small in itertools.combinations(places, 2)
    )
    assert cost(source, target, plan_shapes(source, target, 3)) <= 1.03 * best


@pytest.mark.parametrize("num_shapes", [1, 2, 5, 12])
def test_every_pair_fits_and_more_shapes_cost_less(num_shapes):
    source, target = random_lengths(500, 40, seed=0)
    shapes = plan_shapes(source, target, num_shapes)
    assert shapes.shape == (num_shapes, 2)
    assert (np.diff(shapes.sum(axis=1)) >= 0).all()
    assert tuple(shapes[-1]) == (source.max(), target.max())
    if num_shapes > 1:
        fewer = plan_shapes(source, target, num_shapes - 1)
        assert cost(source, target, shapes) < cost(source, target, fewer)


def test_assign_shapes_takes_the_smallest_that_holds_the_pair():
    shapes = np.array([[2, 3], [3, 3], [2, 9], [9, 9]])
    source, target = np.array([1, 2, 3, 1, 3, 9]), np.array([1, 3, 1, 4, 4, 1])
    assert assign_shapes(source, target, shapes).tolist() == [0, 0, 1, 2, 3, 3]


@pytest.mark.parametrize("num_shapes", [2, 3, 12])
def test_a_long_source_with_a_short_target_fits_a_shape(num_shapes):
    # No pair needs the shape that would hold all.
    source, target = np.array([10, 2, 10]), np.array([2, 10, 3])
    shapes = plan_shapes(source, target, num_shapes)
    assert len(shapes) <= num_shapes
    chosen = shapes[assign_shapes(source, target, shapes)]
    assert (chosen >= np.stack([source, target], axis=1)).all()


def test_never_more_shapes_than_lengths():
    one = np.array([4, 4, 4])
    assert plan_shapes(one, one + 1, 12).tolist() == [[4, 5]]
    two = np.array([3, 4, 4])
    assert plan_shapes(two, two, 12).tolist() == [[3, 3], [4, 4]]
    assert assign_shapes(two, two, plan_shapes(two, two, 12)).tolist() == [0, 1, 1]


def test_depends_on_the_lengths_alone():
    source, target = random_lengths(300, 30, seed=1)
    order = np.random.default_rng(0).permutation(300)
    again = plan_shapes(source[order], target[order], 6)
    assert plan_shapes(source, target, 6).tolist() == again.tolist()


def test_merged_shapes_are_those_that_cost_least_elsewhere():
    shapes, counts = np.array([[2, 2], [3, 4], [4, 4], [9, 9]]), np.array([10, 5, 7, 1])
    # 10 * 3 slots more, 5 * 1 (less than 7 * 10), then 10 * 4 (less than 12 * 10), then the rest.
    assert merge_shapes(shapes, counts).tolist() == [
        [3, 3, 3, 3],
        [2, 2, 2, 3],
        [0, 2, 2, 3],
        [0, 1, 2, 3],
    ]


def test_a_shape_that_no_other_holds_is_never_merged():
    shapes, counts = np.array([[2, 1], [1, 9], [9, 2]]), np.array([1, 100, 100])
    assert merge_shapes(shapes, counts).tolist() == [[2, 1, 2], [0, 1, 2]]


def test_merged_shapes_hold_their_pairs_and_are_nearly_the_best():
    source, target = random_lengths(500, 40, seed=0)
    shapes = plan_shapes(source, target, 12)
    owner = assign_shapes(source, target, shapes)
    for number, merged in enumerate(merge_shapes(shapes, np.bincount(owner)), start=1):
        chosen = shapes[merged[owner]]
        assert len(np.unique(merged)) == number
        assert (chosen >= np.stack([source, target], axis=1)).all()
        best = cost(source, target, plan_shapes(source, target, number))
        assert chosen.sum() <= 1.05 * best


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


def test_later_epochs_add_no_batch_shapes():
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


def test_epochs_of_lengths_that_do_not_go_together():
    # No pair needs a shape that would hold all, so there is none, and both of the two stay.
    source, target = np.array([10, 2, 10]), np.array([2, 10, 3])
    plans = EpochPlans(source, target, 100, num_shapes=3, seed=0, compile_batches=1000)
    assert plans.num_shapes(0) == plans.num_batches(0) == 2


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ((1000, 1, 1), 10, [8, 1, 1]),
        ((0, 50, 50), 3, [0, 1, 2]),
        ((5, 5, 5), 2, [0, 1, 1]),  # less than one of each
    ],
)
def test_a_sample_has_each_shape_if_it_is_large_enough(sizes, count, expected):
    assert _shares(np.array(sizes), count).tolist() == expected


def test_positions_count_the_batches_of_all_epochs():
    one_by_one, from_the_end, from_an_epoch = make_plans(), make_plans(), make_plans()
    numbers = [one_by_one.num_batches(epoch) for epoch in range(EPOCHS)]
    assert len(set(numbers)) > 1 and from_an_epoch.num_batches(EPOCHS - 1) == numbers[-1]
    expected = [(epoch, i) for epoch, number in enumerate(numbers) for i in range(number)]
    assert [one_by_one.position(step) for step in range(len(expected))] == expected
    last = len(expected) - 1
    assert from_the_end.position(last) == expected[last]
    firsts = [expected.index((epoch, 0)) for epoch in range(EPOCHS)]
    assert make_plans().first_step(EPOCHS - 1) == firsts[-1]
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
