import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.candidates import _block_size, gather_rows, top_k
from tests.helpers import normal, to_numpy


def stable_top_k(x, k):
    indices = np.argsort(-x, axis=-1, kind="stable")[:, :k]
    return np.take_along_axis(x, indices, axis=-1), indices


def kinds(shape):
    generator = np.random.default_rng(0)
    yield normal(*shape)
    yield generator.integers(0, 3, shape).astype("float32")  # ties everywhere
    yield np.zeros(shape, "float32")
    yield np.where(generator.random(shape) < 0.9, -np.inf, normal(*shape)).astype("float32")


# Sizes with blocks, with few divisors, prime, and no larger than k.
@pytest.mark.parametrize(
    ("size", "k"), [(600, 8), (6000, 4), (601, 8), (1202, 3), (1031, 5), (9, 8), (4, 4)]
)
def test_equals_a_stable_sort(size, k):
    for x in kinds((5, size)):
        values, indices = top_k(ops.convert_to_tensor(x), k)
        expected_values, expected_indices = stable_top_k(x, k)
        assert to_numpy(values).tolist() == expected_values.tolist()
        assert to_numpy(indices).tolist() == expected_indices.tolist()
        assert to_numpy(indices).dtype == "int32"


def test_blocks_are_used_where_they_save_work():
    assert _block_size(32000, 8) == 64  # 500 maxima and 512 candidates
    assert _block_size(32003, 8) == 64  # and 3 beyond the blocks
    assert _block_size(601, 8) == 8  # 75 maxima, 64 candidates and 1
    assert _block_size(32, 8) is None  # too small


def test_gather_rows_takes_each_batchs_own_rows():
    x = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    indices = np.array([[2, 0, 0, 1], [1, 1, 2, 0]], "int32")
    gathered = to_numpy(gather_rows(ops.convert_to_tensor(x), ops.convert_to_tensor(indices)))
    assert gathered.tolist() == np.stack([x[b, indices[b]] for b in range(2)]).tolist()
