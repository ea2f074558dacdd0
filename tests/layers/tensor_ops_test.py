import contextlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.tensor_ops import masked_softmax, slice_update
from tests.helpers import assert_close, to_numpy

SCORES = np.log([[1.0, 2, 5], [4, 4, 8]]).astype("float32")


@pytest.mark.each_backend
def test_masked_softmax_equals_values_worked_out_by_hand():
    assert_close(masked_softmax(ops.array(SCORES)), [[0.125, 0.25, 0.625], [0.25, 0.25, 0.5]])
    mask = ops.array([[True, True, False], [False, True, False]])
    assert_close(masked_softmax(ops.array(SCORES), mask), [[1 / 3, 2 / 3, 0], [0, 1, 0]])


@pytest.mark.each_backend
@pytest.mark.parametrize("start", [(0, 1, 2), (1, 0, 0)])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_slice_update_writes_from_the_start_on(start, axis):
    x, update = np.zeros((3, 3, 6), "float32"), np.ones((2, 2, 3), "float32")
    expected = x.copy()
    expected[tuple(slice(i, i + n) for i, n in zip(start, update.shape))] = 1
    # One place, that of a step, is a tensor.
    places = [
        ops.convert_to_tensor(place, "int32") if i == axis else place
        for i, place in enumerate(start)
    ]
    with inference():
        written = slice_update(ops.array(x), places, ops.array(update))
    assert_close(written, expected)


def inference():
    """The mode in which a search runs: PyTorch's tensors are changed in place."""
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.inference_mode()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_row_without_legal_positions(dtype):
    # -1e9 is minus infinity in float16, whose softmax would be no number.
    scores = ops.cast(SCORES, dtype)
    weights = masked_softmax(scores, ops.array([[False] * 3, [True, False, False]]))
    assert keras.backend.standardize_dtype(weights.dtype) == dtype
    assert_close(ops.cast(weights, "float32"), [[1 / 3] * 3, [1, 0, 0]], atol=2e-3)


def test_is_computed_in_float32():
    # In bfloat16, of 8 bits, the logits would be rounded before the exponentials.
    scores = ops.cast(np.linspace(-40, 40, 400, dtype="float32")[None], "bfloat16")
    weights = to_numpy(ops.cast(masked_softmax(scores), "float32"))
    exact = np.exp(to_numpy(ops.cast(scores, "float32")).astype("float64"))
    np.testing.assert_allclose(weights, exact / exact.sum(), rtol=2**-8, atol=0)
