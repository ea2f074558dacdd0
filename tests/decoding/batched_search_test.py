import numpy as np
import pytest

from keras_transformer.decoding.batched_search import (
    batches_by_length,
    pad_to_few_shapes,
    padded_size,
)

pytestmark = pytest.mark.once


def test_padded_sizes_are_powers_of_two_or_three_times_one():
    sizes = sorted({2**k for k in range(12)} | {3 * 2**k for k in range(11)})
    for size in range(1, 2049):
        assert padded_size(size) == min(x for x in sizes if x >= size)
    assert padded_size(np.int64(5)) == 6


@pytest.mark.parametrize("batch_tokens", [1, 10, 60, 10_000])
def test_batches_by_length(batch_tokens):
    lengths = np.random.default_rng(0).integers(1, 40, 100)
    batches = list(batches_by_length(lengths, batch_tokens))
    assert sorted(np.concatenate(batches)) == list(range(100))
    longest = [lengths[batch].max() for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for batch in batches:
        assert len(batch) * padded_size(lengths[batch].max()) <= batch_tokens or len(batch) == 1
    assert list(batches_by_length(np.array([], int), batch_tokens)) == []


def test_a_batch_uses_the_whole_token_budget():
    # Six tokens are padded to six, five too; 60 slots have room for ten rows: eight of `SIZES`.
    batches = batches_by_length(np.array([5] * 9 + [6] * 2 + [1] * 9), 60)
    assert [batch.tolist() for batch in batches] == [
        [9, 10, *range(6)],
        [6, 7, 8, 11, 12, 13, 14, 15],
        [16, 17, 18, 19],
    ]


def test_sentences_without_tokens_are_in_no_batch():
    (batch,) = batches_by_length(np.array([0, 3, 0, 2, 0]), 60)
    assert batch.tolist() == [1, 3]
    assert list(batches_by_length(np.array([0, 0]), 60)) == []


def test_pad_to_few_shapes():
    batch = pad_to_few_shapes([[5, 6, 7, 8, 2], [9, 2], [2], [4, 2], [3, 3, 2]])
    assert batch.dtype == "int32" and batch.shape == (6, 6)
    assert batch[:2].tolist() == [[5, 6, 7, 8, 2, 0], [9, 2, 0, 0, 0, 0]]
    assert not batch[5].any()


def test_few_rows_have_one_short_length():
    def shape(rows, length, **options):
        return pad_to_few_shapes([[5] * length] * rows, **{"batch_tokens": 200, **options}).shape

    assert {shape(5, length) for length in range(1, 17)} == {(6, 16)}
    assert shape(1, 17) == (1, 24) and shape(8, 3) == (8, 16) and shape(9, 3) == (12, 3)
    assert shape(8, 3, batch_tokens=127) == (8, 3)  # there is no room for 8 * 16
    assert shape(1, 3, max_length=4) == (1, 4)


def test_no_padding_beyond_the_longest_source():
    assert pad_to_few_shapes([[5] * 13], max_length=14).shape == (1, 14)
    assert pad_to_few_shapes([[5] * 13], max_length=20).shape == (1, 16)
