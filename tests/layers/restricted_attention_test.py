"""Restricted self-attention is full self-attention whose mask is a band, at less cost."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
    RestrictedSelfAttention,
    restricted_attention,
)
from tests.helpers import assert_close, gradient, normal, randomize, to_numpy


def attention(**kwargs):
    layer_class = RestrictedSelfAttention if "attention_window" in kwargs else MultiHeadAttention
    layer = layer_class(2, 3, 5, **kwargs)
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


def test_inside_a_functional_model_of_any_length():
    inputs, mask = keras.Input((None, 6)), keras.Input((1, None), dtype="bool")
    outputs = RestrictedSelfAttention(2, 3, attention_window=5)(inputs, attention_mask=mask)
    assert outputs.shape == (None, None, 6)
    model = keras.Model([inputs, mask], outputs)
    model.compile("sgd", "mse")
    for length in (3, 40):
        x = normal(2, length, 6)
        assert np.isfinite(model.train_on_batch([x, np.ones((2, 1, length), "bool")], x))
        assert model.predict([x, np.ones((2, 1, length), "bool")], verbose=0).shape == x.shape


def test_a_mask_per_query_is_refused_with_a_window():
    with pytest.raises(ValueError, match=r"\(batch, 1, source\).*\(1, 7, 7\)"):
        attention(attention_window=3)(normal(1, 7, 6), attention_mask=band(7, 3))
