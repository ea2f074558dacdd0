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
def test_padding_has_no_influence(normalize_first):
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


def test_parameter_count_is_an_attention_a_feed_forward_and_two_norms():
    attention = 2 * (8 * 3 + 8 * 3 + 8 * 5 + 5 * 8)
    feed_forward = 8 * 16 + 16 + 16 * 8 + 8
    assert encoder_layer(key_dim=3, value_dim=5).count_params() == attention + feed_forward + 4 * 8


def test_dropout_in_training_only():
    layer, x = encoder_layer(dropout=0.5), normal(2, 3, 8)
    plain = encoder_layer()(x)
    assert_close(layer(x), plain, atol=0)
    assert_close(layer(x, training=False), plain, atol=0)
    assert np.abs(to_numpy(layer(x, training=True)) - to_numpy(plain)).max() > 0.1


@pytest.mark.parametrize("live", ["self_attention", "feed_forward"])
def test_dropout_is_on_the_output_of_each_sublayer(live):
    layer, x = encoder_layer(dropout=0.5, normalize_first=True), normal(2, 6, 8)
    for name in ("self_attention", "feed_forward"):
        if name != live:
            silence(getattr(layer, name).output_dense)
    sublayer = to_numpy(layer(x)) - x
    dropped = to_numpy(layer(x, training=True)) - x
    # Half of the sub-layer's output is gone and the other half doubled, never the residual.
    kept = np.abs(dropped) > 1e-6
    assert 0.2 < kept.mean() < 0.8
    assert_close(dropped[kept], 2 * sublayer[kept], atol=1e-5)


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_heads": 3},
        {"num_heads": 0},
        {"num_heads": 2, "key_dim": 0},
        {"num_heads": 2, "key_dim": 4, "value_dim": 0},
        {"num_heads": 2, "intermediate_dim": 0},
    ],
)
def test_sizes_of_zero_or_that_do_not_divide_are_refused(sizes):
    with pytest.raises(ValueError, match="num_heads|_dim"):
        encoder_layer(**sizes)


def test_config_round_trip():
    layer = encoder_layer(
        key_dim=3,
        value_dim=5,
        dropout=0.25,
        activation="gelu",
        normalize_first=True,
        layer_norm_epsilon=1e-3,
        use_bias=True,
        name="layer",
    )
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(copy) is TransformerEncoderLayer
    assert copy.get_config() == layer.get_config()
    assert_close(randomize(copy)(normal(1, 3, 8)), layer(normal(1, 3, 8)), atol=0)


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


def test_a_padding_mask_is_used_in_place_of_that_of_an_embedding():
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


def test_returned_attention_scores_sum_to_one_over_tokens():
    layer, inputs = encoder_layer(num_heads=2), normal(2, 5, 8)
    is_token = np.array([[1, 1, 1, 0, 0], [1] * 5], "bool")
    outputs, weights = layer(inputs, padding_mask=is_token, return_attention_scores=True)
    assert_close(outputs, layer(inputs, padding_mask=is_token))
    assert weights.shape == (2, 2, 5, 5)
    assert_close(np.sum(to_numpy(weights), axis=-1), np.ones((2, 2, 5)))
    assert not to_numpy(weights)[0, :, :, 3:].any()
    graph = keras.Input((5, 8))
    model = keras.Model(graph, layer(graph, return_attention_scores=True))
    assert [x.shape for x in model.outputs] == [(None, 5, 8), (None, 2, 5, 5)]
    assert_close(model(inputs)[1][1], weights[1])


def test_attention_scores_of_a_window():
    with pytest.raises(ValueError, match="does not compute the weights of all positions"):
        encoder_layer(attention_window=3)(normal(2, 5, 8), return_attention_scores=True)
