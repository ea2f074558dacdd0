import numpy as np
import pytest

from keras_transformer.tasks.search_stream import (
    batches_by_length,
    few_sizes,
    pad_to_few_shapes,
)

pytestmark = pytest.mark.once


def test_few_sizes():
    sizes = sorted({2**k for k in range(12)} | {3 * 2**k for k in range(11)})
    for size in range(1, 2049):
        assert few_sizes(size) == min(x for x in sizes if x >= size)
    assert few_sizes(np.int64(5)) == 6


@pytest.mark.parametrize("batch_tokens", [1, 10, 60, 10_000])
def test_batches_by_length(batch_tokens):
    lengths = np.random.default_rng(0).integers(1, 40, 100)
    batches = list(batches_by_length(lengths, batch_tokens))
    assert sorted(np.concatenate(batches)) == list(range(100))
    longest = [lengths[batch].max() for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for batch in batches:
        assert len(batch) * few_sizes(lengths[batch].max()) <= batch_tokens or len(batch) == 1
    assert list(batches_by_length(np.array([], int), batch_tokens)) == []


def test_pad_to_few_shapes():
    batch = pad_to_few_shapes([[5, 6, 7, 8, 2], [9, 2], [2], [4, 2], [3, 3, 2]])
    assert batch.dtype == "int32" and batch.shape == (6, 6)
    assert batch[:2].tolist() == [[5, 6, 7, 8, 2, 0], [9, 2, 0, 0, 0, 0]]
    assert not batch[5].any()
