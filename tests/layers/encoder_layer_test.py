import keras
import numpy as np
import pytest

from keras_transformer.layers import SinePositionEncoding, TransformerEncoderLayer
from tests.helpers import assert_close, normal, randomize, to_numpy


def encoder_layer(hidden_dim=8, **kwargs):
    kwargs = {"intermediate_dim": 16, "num_heads": 2, "dropout": 0.0, **kwargs}
    layer = TransformerEncoderLayer(**kwargs)
    layer.build((None, None, hidden_dim))
    return randomize(layer)


def silence(dense):
    """Make a sub-layer that ends in `dense` give zeros."""
    for variable in dense.weights:
        variable.assign(np.zeros(variable.shape))


@pytest.mark.each_backend
def test_post_norm_ends_with_a_normalisation():
    layer = encoder_layer()
    layer.feed_forward_norm.gamma.assign(np.ones(8))
    layer.feed_forward_norm.beta.assign(np.zeros(8))
    outputs = to_numpy(layer(normal(2, 3, 8)))
    assert_close(outputs.mean(-1), np.zeros((2, 3)))
    assert_close(outputs.var(-1), np.ones((2, 3)), atol=1e-4)


def test_pre_norm_leaves_the_residual_path_alone():
    layer, x = encoder_layer(normalize_first=True), normal(2, 3, 8)
    silence(layer.self_attention.output_dense)
    silence(layer.feed_forward.output_dense)
    assert_close(layer(x), x, atol=0)


@pytest.mark.parametrize("normalize_first", [False, True])
def test_padding_does_not_change_outputs(normalize_first):
    layer, x = encoder_layer(normalize_first=normalize_first), normal(2, 5, 8)
    mask = np.array([[True] * 3 + [False] * 2] * 2)
    outputs = layer(x, padding_mask=mask)[:, :3]
    assert_close(outputs, layer(x[:, :3]), atol=1e-6)
    assert np.abs(to_numpy(layer(x))[:, :3] - to_numpy(outputs)).max() > 1e-3


def test_every_position_sees_every_other():
    layer, x = encoder_layer(), normal(1, 4, 8)
    changed = x.copy()
    changed[:, 3] += 1
    difference = np.abs(to_numpy(layer(changed)) - to_numpy(layer(x))).max(-1)
    assert (difference > 1e-4).all()


# Masks that Keras keeps with tensors


@pytest.mark.filterwarnings("error:.*does not support masking")
@pytest.mark.parametrize(
    "options", [{}, {"normalize_first": True}, {"attention_window": 3}], ids=str
)
def test_the_mask_of_an_embedding_is_the_padding_mask(options):
    ids = np.array([[3, 5, 1, 0, 0], [4, 1, 2, 2, 5]], "int32")
    embedding = keras.layers.Embedding(6, 8, mask_zero=True)
    first, second = encoder_layer(**options), encoder_layer(**options)

    inputs = keras.Input((None,), dtype="int32")
    x = SinePositionEncoding()(embedding(inputs))
    model = keras.Model(inputs, second(first(x)))
    x = SinePositionEncoding()(to_numpy(embedding(ids)))
    expected = second(first(x, padding_mask=ids != 0), padding_mask=ids != 0)
    assert_close(model(ids), expected, atol=1e-6)
    assert np.isfinite(to_numpy(model(ids, training=True))).all()


def test_a_padding_mask_replaces_the_mask_of_an_embedding():
    x = keras.layers.Embedding(6, 8, mask_zero=True)(np.array([[3, 5, 0, 0]]))
    layer, mask = encoder_layer(), np.array([[True, True, True, False]])
    expected = layer(to_numpy(x), padding_mask=mask)
    assert_close(layer(x, padding_mask=mask), expected, atol=1e-6)


# Restricted self-attention (section 4, Table 1)


def test_a_changed_token_reaches_only_its_attention_window():
    layer, x = encoder_layer(attention_window=3), normal(1, 6, 8)
    changed = x.copy()
    changed[:, 4] += np.arange(8) % 2
    difference = np.abs(to_numpy(layer(changed)) - to_numpy(layer(x))).max(-1)[0]
    assert (difference[3:] > 1e-4).all() and (difference[:3] == 0).all()
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert_close(randomize(copy)(x), layer(x), atol=0)
