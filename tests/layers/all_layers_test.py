"""What all layers have in common: configurations, errors, dropout."""

import keras
import numpy as np
import pytest

from keras_transformer.layers import (
    Dropout,
    FeedForward,
    LearnedPositionEncoding,
    MultiHeadAttention,
    RestrictedSelfAttention,
    SinePositionEncoding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from tests.helpers import assert_close, normal, randomize, to_numpy

X = normal(2, 6, 8)
OPTIONS = {
    **{"key_dim": 3, "value_dim": 5, "dropout": 0.25, "activation": "gelu", "use_bias": True},
    **{"normalize_first": True, "layer_norm_epsilon": 1e-3, "name": "layer"},
}
STACKS = pytest.mark.parametrize("layer_class", [TransformerEncoderLayer, TransformerDecoderLayer])


def call(layer, **options):
    """Call a layer with as many inputs as it needs, with weights that depend on shapes only."""
    inputs = (X, X[:, :5]) if isinstance(layer, TransformerDecoderLayer) else (X,)
    if not layer.built:
        layer(*inputs)
        randomize(layer)
    return to_numpy(layer(*inputs, **options))


@pytest.mark.parametrize(
    "layer",
    [
        Dropout(0.25, seed=9, name="drop"),
        FeedForward(8, activation="gelu", name="feed_forward"),
        LearnedPositionEncoding(9),
        MultiHeadAttention(2, 3, 5, dropout=0.25, use_bias=True, name="attention"),
        RestrictedSelfAttention(2, 3, attention_window=9),
        SinePositionEncoding(dtype="mixed_bfloat16"),
        TransformerDecoderLayer(16, 2, **OPTIONS),
        TransformerEncoderLayer(16, 2, **OPTIONS, attention_window=3),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_layer_made_again_from_its_config_computes_the_same(layer):
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(copy) is type(layer) and copy.get_config() == layer.get_config()
    np.testing.assert_array_equal(call(copy), call(layer))
    np.testing.assert_array_equal(
        *[x(np.ones(40), training=True) for x in (copy, layer)] if layer.name == "drop" else (0, 0)
    )


def sizes(layer_class, **arguments):
    """Cases of one argument that is not a positive integer."""
    for name in arguments:
        for size in (0, -1, 1.5):
            message = f"`{name}` must be a positive integer.*{name}={size}"
            yield layer_class, {**arguments, name: size}, message


@pytest.mark.parametrize(
    ("layer_class", "arguments", "message"),
    [
        *sizes(MultiHeadAttention, num_heads=2, key_dim=3, value_dim=3),
        *sizes(FeedForward, intermediate_dim=2),
        *sizes(LearnedPositionEncoding, max_length=2),
        *(
            (Dropout, {"rate": rate}, f"`rate`.*Received: rate={rate}")
            for rate in (-0.1, 1.0, 1, 2, float("nan"))
        ),
        *(
            (
                RestrictedSelfAttention,
                {"num_heads": 2, "key_dim": 3, "attention_window": window},
                f"positive odd integer.*attention_window={window}",
            )
            for window in (0, -1, 4, 2.0, True)
        ),
        *(
            (layer_class, {"intermediate_dim": 16, "num_heads": 2, **wrong}, "num_heads|_dim")
            for layer_class in (TransformerEncoderLayer, TransformerDecoderLayer)
            for wrong in (
                {"num_heads": 3},
                {"num_heads": 0},
                {"key_dim": 0},
                {"key_dim": 4, "value_dim": 0},
                {"intermediate_dim": 0},
            )
        ),
    ],
)
def test_wrong_arguments_are_refused_by_name(layer_class, arguments, message):
    with pytest.raises(ValueError, match=message):
        call(layer_class(**arguments))


@pytest.mark.parametrize("is_built", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (3, 4)])
def test_inputs_of_another_rank_are_refused(shape, is_built):
    for layer in (
        MultiHeadAttention(2, 3),
        TransformerEncoderLayer(4, 2),
        TransformerDecoderLayer(4, 2),
        SinePositionEncoding(),
        LearnedPositionEncoding(9),
    ):
        if is_built:
            call(layer)
        more = [normal(2, 3, 4)] if isinstance(layer, TransformerDecoderLayer) else []
        with pytest.raises(ValueError, match=f"expected ndim=3, found ndim={len(shape)}"):
            layer(np.zeros(shape, "float32"), *more)


@pytest.mark.parametrize(
    ("layer_class", "arguments"),
    [
        (MultiHeadAttention, {"num_heads": 2, "key_dim": 3}),
        (RestrictedSelfAttention, {"num_heads": 2, "key_dim": 3, "attention_window": 9}),
        (TransformerEncoderLayer, {"intermediate_dim": 16, "num_heads": 2}),
        (TransformerDecoderLayer, {"intermediate_dim": 16, "num_heads": 2}),
    ],
)
def test_dropout_in_training_only(layer_class, arguments):
    layer, plain = (layer_class(**arguments, dropout=rate) for rate in (0.5, 0.0))
    assert_close(call(layer), call(plain), atol=0)
    assert_close(call(layer, training=False), call(plain), atol=0)
    assert np.abs(call(layer, training=True) - call(plain)).max() > 1e-2


@STACKS
@pytest.mark.parametrize("live", ["self_attention", "cross_attention", "feed_forward"])
def test_dropout_is_on_the_output_of_each_sublayer(layer_class, live):
    layer = layer_class(16, 2, dropout=0.5, normalize_first=True)
    call(layer)
    parts = ("self_attention", "cross_attention", "feed_forward")
    sublayers = {name: getattr(layer, name) for name in parts if hasattr(layer, name)}
    if live not in sublayers:
        pytest.skip("An encoder layer has no cross-attention.")
    for name, sublayer in sublayers.items():
        if name != live:
            for variable in sublayer.output_dense.weights:
                variable.assign(np.zeros(variable.shape))
    sublayer, dropped = call(layer) - X, call(layer, training=True) - X
    # Half of the sub-layer's output is gone and the other half doubled, never the residual.
    kept = np.abs(dropped) > 1e-6
    assert 0.2 < kept.mean() < 0.8
    assert_close(dropped[kept], 2 * sublayer[kept], atol=1e-5)


@STACKS
def test_parameters_belong_to_attentions_a_feed_forward_and_norms(layer_class):
    layer = layer_class(16, 2, key_dim=3, value_dim=5)
    call(layer)
    attention = 2 * (8 * 3 + 8 * 3 + 8 * 5 + 5 * 8)
    number = 2 if layer_class is TransformerDecoderLayer else 1
    feed_forward = 8 * 16 + 16 + 16 * 8 + 8
    assert layer.count_params() == number * attention + feed_forward + (number + 1) * 2 * 8
