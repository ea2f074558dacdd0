import itertools

import numpy as np
import pytest

from keras_transformer.data.bucketing import assign_shapes, merge_shapes, plan_shapes

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
def test_lengths_that_do_not_go_together(num_shapes):
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
