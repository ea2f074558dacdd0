"""Restricted self-attention is full self-attention whose mask is a band, at less cost."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import MultiHeadAttention, restricted_attention
from tests.helpers import assert_close, gradient, normal, randomize, to_numpy


def attention(**kwargs):
    layer = MultiHeadAttention(2, 3, 5, **kwargs)
    layer.build((None, None, 6))
    return randomize(layer)


def band(length, window):
    positions = np.arange(length)
    return np.abs(positions[:, None] - positions)[None] <= window // 2


# Windows smaller and larger than a block; sequences shorter than the window, shorter than a block,
# of whole blocks, and of a block and one position.
SHAPES = itertools.product((1, 3, 9, 33, 51), (1, 4, 16, 17, 48, 50, 101))


@pytest.mark.parametrize(("window", "length"), SHAPES)
def test_equals_full_attention_with_a_band(window, length):
    x = normal(2, length, 6)
    actual = attention(attention_window=window)(x)
    assert_close(actual, attention()(x, attention_mask=band(length, window)))


@pytest.mark.parametrize("window", [5, 41])
def test_an_empty_batch_gives_an_empty_batch(window):
    x, mask = normal(0, 40, 6), np.ones((0, 1, 40), bool)
    assert attention(attention_window=window)(x, attention_mask=mask).shape == (0, 40, 6)


@pytest.mark.parametrize("window", [5, 41])
def test_padded_rows_equal_attention_with_a_band_mask(window):
    x, mask = normal(3, 40, 6), np.arange(40) < np.array([[40], [23], [1]])
    actual = to_numpy(attention(attention_window=window)(x, attention_mask=mask[:, None]))
    expected = to_numpy(attention()(x, attention_mask=band(40, window) & mask[:, None]))
    assert_close(actual[mask], expected[mask])
    assert np.isfinite(actual).all()


@pytest.mark.each_backend
def test_gradient_equals_the_one_with_a_band_mask():
    mask = np.arange(37) < np.array([[37], [20]])
    x, weights = normal(2, 37, 6), normal(2, 37, 6, seed=1) * mask[..., None]

    def total(layer, **kwargs):
        return lambda x: ops.sum(layer(x, **kwargs) * ops.convert_to_tensor(weights))

    actual = gradient(total(attention(attention_window=9), attention_mask=mask[:, None]), x)
    full_mask = band(37, 9) & mask[:, None]
    assert_close(actual, gradient(total(attention(), attention_mask=full_mask), x), atol=1e-4)


@pytest.mark.parametrize("window", [3, 65])
def test_scores_grow_with_the_length_not_its_square(window, monkeypatch):
    sizes = []

    def recording_softmax(scores, mask):
        sizes.append(int(np.prod(scores.shape)))
        return masked_softmax(scores, mask)

    masked_softmax = restricted_attention.masked_softmax
    monkeypatch.setattr(restricted_attention, "masked_softmax", recording_softmax)
    layer = attention(attention_window=window)
    for length in (1024, 2048):
        layer(normal(1, length, 6))
    heads = 2
    assert sizes[1] == 2 * sizes[0]
    assert sizes[0] <= heads * 1024 * max(1.5 * window, 40)


def test_dropout_in_training_only():
    x, layer = normal(2, 40, 6), attention(attention_window=9, dropout=0.5)
    assert_close(layer(x), attention(attention_window=9)(x), atol=0)
    assert np.abs(to_numpy(layer(x, training=True)) - to_numpy(layer(x))).max() > 1e-2


def test_inside_a_functional_model_of_any_length():
    inputs, mask = keras.Input((None, 6)), keras.Input((1, None), dtype="bool")
    outputs = MultiHeadAttention(2, 3, attention_window=5)(inputs, attention_mask=mask)
    assert outputs.shape == (None, None, 6)
    model = keras.Model([inputs, mask], outputs)
    model.compile("sgd", "mse")
    for length in (3, 40):
        x = normal(2, length, 6)
        assert np.isfinite(model.train_on_batch([x, np.ones((2, 1, length), "bool")], x))
        assert model.predict([x, np.ones((2, 1, length), "bool")], verbose=0).shape == x.shape


def test_config_round_trip():
    layer = attention(attention_window=9)
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert copy.attention_window == 9
    assert_close(randomize(copy)(normal(1, 20, 6)), layer(normal(1, 20, 6)), atol=0)


@pytest.mark.parametrize("window", [0, -1, 4, 2.0, True])
def test_windows_that_are_not_positive_odd_integers_are_refused(window):
    with pytest.raises(ValueError, match=f"positive odd integer.*attention_window={window}"):
        MultiHeadAttention(2, 3, attention_window=window)


def test_mask_by_query():
    with pytest.raises(ValueError, match=r"\(batch, 1, source\).*\(1, 7, 7\)"):
        attention(attention_window=3)(normal(1, 7, 6), attention_mask=band(7, 3))


@pytest.mark.parametrize(
    "kwargs",
    [{"value": normal(1, 4, 6)}, {"cache_index": 0}, {"return_attention_scores": True}],
    ids=lambda kwargs: next(iter(kwargs)),
)
def test_only_self_attention(kwargs):
    with pytest.raises(ValueError, match="only `query` and `attention_mask` are supported"):
        attention(attention_window=3)(normal(1, 4, 6), **kwargs)
