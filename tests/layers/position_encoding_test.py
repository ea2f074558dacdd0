import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import LearnedPositionEncoding, SinePositionEncoding
from tests.helpers import assert_close, normal, to_numpy


def table(length, hidden_dim, positions=None, **kwargs):
    layer = SinePositionEncoding(**kwargs)
    outputs = layer(np.zeros((1, length, hidden_dim), "float32"), positions=positions)
    return to_numpy(ops.cast(outputs, "float32"))[0]


def formula(position, dimension, hidden_dim):
    """Section 3.5."""
    i = dimension // 2
    angle = position / 10000 ** (2 * i / hidden_dim)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


@pytest.mark.each_backend
def test_sines_and_cosines_equal_values_worked_out_by_hand():
    # d_model = 4: the wavelengths are 2π and 100 · 2π; sine and cosine alternate.
    expected = [
        [0, 1, 0, 1],
        [0.841471, 0.540302, 0.0099998, 0.99995],
        [0.909297, -0.416147, 0.0199987, 0.9998],
    ]
    assert_close(table(3, 4), expected, atol=1e-5)


@pytest.mark.parametrize("position", [0, 1, 17, 99])
@pytest.mark.parametrize("dimension", [0, 1, 2, 255, 256, 510, 511])
def test_formula_at_the_papers_size(position, dimension):
    expected = formula(position, dimension, 512)
    assert table(100, 512)[position, dimension] == pytest.approx(expected, abs=1e-5)


def test_sinusoids_are_added_to_the_inputs():
    x = normal(2, 3, 4)
    assert_close(SinePositionEncoding()(x), x + table(3, 4), atol=1e-6)


@pytest.mark.parametrize("kind", [np.array, ops.convert_to_tensor])
def test_given_positions_select_rows_of_the_table(kind):
    assert_close(table(3, 8, kind([5, 1, 5])), table(8, 8)[[5, 1, 5]], atol=1e-6)


def test_one_position_may_hold_for_all_tokens():
    assert_close(table(3, 8, np.array([4])), table(8, 8)[[4, 4, 4]], atol=1e-6)


def test_positions_may_differ_per_sequence():
    layer, x = SinePositionEncoding(), normal(2, 3, 8)
    positions = np.array([[5, 1, 5], [0, 7, 2]])
    assert_close(layer(x, positions=positions), x + table(8, 8)[positions], atol=1e-6)


def test_position_5000_follows_the_formula():
    # float32 holds angles up to 5,000 to 0.0003.
    expected = [formula(5000, dimension, 8) for dimension in range(8)]
    assert_close(table(1, 8, np.array([5000]))[0], expected, atol=1e-3)


def test_positions_are_exact_in_mixed_precision():
    # bfloat16 has 8 bits: 257 rounds to 256, so angles must not be computed in it.
    encoding = table(260, 8, dtype="mixed_bfloat16")
    assert_close(encoding, table(260, 8), atol=2**-8)
    assert encoding[257, 0] != encoding[256, 0]


def test_the_sum_is_rounded_once_in_mixed_precision():
    x = ops.cast(normal(2, 50, 16), "bfloat16")
    actual = SinePositionEncoding(dtype="mixed_bfloat16")(x)
    exact = SinePositionEncoding()(ops.cast(x, "float32"))
    expected = ops.cast(ops.cast(exact, "bfloat16"), "float32")
    assert (to_numpy(ops.cast(actual, "float32")) == to_numpy(expected)).all()


def test_an_odd_hidden_dim_is_refused():
    with pytest.raises(ValueError, match="must be even.*hidden_dim=7"):
        SinePositionEncoding()(normal(1, 2, 7))


@pytest.mark.parametrize("layer", [SinePositionEncoding(), LearnedPositionEncoding(9)])
def test_symbolic_inputs_may_have_any_length(layer):
    assert layer(keras.Input((None, 4))).shape == (None, None, 4)


def test_learned_adds_its_vectors():
    layer, x = LearnedPositionEncoding(6), normal(2, 3, 4)
    layer.build(x.shape)
    vectors = normal(6, 4, seed=1)
    layer.embeddings.assign(vectors)
    assert layer.count_params() == 6 * 4
    assert_close(layer(x), x + vectors[:3], atol=1e-6)
    assert_close(layer(x, positions=np.array([5, 1, 5])), x + vectors[[5, 1, 5]], atol=1e-6)
    assert_close(layer(x, positions=ops.convert_to_tensor([3])), x + vectors[3], atol=1e-6)
    positions = np.array([[5, 1, 5], [0, 3, 2]])
    assert_close(layer(x, positions=positions), x + vectors[positions], atol=1e-6)


def test_learned_positions_end_at_max_length():
    layer = LearnedPositionEncoding(6)
    assert layer(normal(1, 6, 4)).shape == (1, 6, 4)
    with pytest.raises(ValueError, match="max_length=6.*7 positions"):
        layer(normal(1, 7, 4))
