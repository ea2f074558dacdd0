import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
)
from tests.helpers import assert_close, gradient, normal, randomize, to_numpy


def attention(*args, hidden_dim=6, **kwargs):
    layer = MultiHeadAttention(*args, **kwargs)
    layer.build((None, None, hidden_dim))
    return randomize(layer)


def causal_mask(length):
    return np.tril(np.ones((1, length, length), "bool"))


@pytest.mark.each_backend
def test_one_head_equals_values_worked_out_by_hand():
    layer = attention(1, 2, hidden_dim=2)
    identity = np.eye(2)
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense):
        dense.kernel.assign(identity)
    layer.output_dense.kernel.assign([[10, 0], [0, 1]])
    # The scores are 1/sqrt(d_k) = 0.7071 for a position with itself and 0 with the other;
    # exp(0.7071) = 2.0281, and 2.0281 / 3.0281 = 0.66976. (Without the scaling: 0.731.)
    outputs = layer(identity[None])
    assert_close(outputs, [[[6.6976, 0.33024], [3.3024, 0.66976]]], atol=1e-4)


def test_heads_see_their_own_slices_of_the_projections():
    layer = attention(2, 1, hidden_dim=2)
    layer.query_dense.kernel.assign([[100, 0], [0, 0]])
    layer.key_dense.kernel.assign([[100, 0], [0, 0]])
    layer.value_dense.kernel.assign(np.eye(2))
    layer.output_dense.kernel.assign(np.eye(2))
    # Head 1 has scores 10,000 x x': the query 1 sees only the 1, the query -1 only the -1.
    # Head 2 has scores 0: the mean of the values 3 and 5.
    inputs = np.array([[[1.0, 3.0], [-1.0, 5.0]]], "float32")
    assert_close(layer(inputs), [[[1, 4], [-1, 4]]])


@pytest.mark.parametrize("use_bias", [False, True])
def test_key_and_value_dims_are_free(use_bias):
    layer = attention(3, 4, 5, use_bias=use_bias)
    assert layer(normal(2, 7, 6), normal(2, 8, 6)).shape == (2, 7, 6)
    kernels = 3 * (6 * 4 + 6 * 4 + 6 * 5 + 5 * 6)
    biases = 3 * (4 + 4 + 5) + 6
    assert layer.count_params() == kernels + use_bias * biases


def test_value_dim_defaults_to_key_dim():
    assert attention(3, 4).value_dim == 4


def test_value_defaults_to_query():
    layer, x = attention(2, 3), normal(2, 4, 6)
    assert_close(layer(x), layer(x, x), atol=0)


def test_mask_is_true_where_a_query_may_attend():
    layer, x, memory = attention(2, 3, 5), normal(2, 4, 6), normal(2, 5, 6, seed=1)
    mask = np.zeros((1, 1, 5), "bool")
    mask[..., [0, 3]] = True
    assert_close(layer(x, memory, attention_mask=mask), layer(x, memory[:, [0, 3]]), atol=1e-6)


@pytest.mark.each_backend
def test_masked_positions_do_not_change_outputs_at_all():
    layer, x = attention(2, 3), normal(1, 4, 6)
    later = x.copy()
    later[:, 3] = 1e4
    outputs, changed = (
        to_numpy(layer(inputs, attention_mask=causal_mask(4))) for inputs in (x, later)
    )
    np.testing.assert_array_equal(changed[:, :3], outputs[:, :3])
    assert np.abs(changed[:, 3] - outputs[:, 3]).max() > 1


def test_masks_may_differ_per_query_and_batch():
    layer, x = attention(2, 3), normal(2, 3, 6)
    mask = np.array([causal_mask(3)[0], np.ones((3, 3), "bool")])
    outputs = layer(x, attention_mask=mask)
    assert_close(outputs[:1], layer(x[:1], attention_mask=causal_mask(3)), atol=1e-6)
    assert_close(outputs[1:], layer(x[1:]), atol=1e-6)


@pytest.mark.each_backend
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_query_that_may_attend_to_nothing_attends_to_all_alike(dtype):
    layer, x = attention(2, 3, dtype=dtype), 9 * normal(1, 4, 6)
    outputs = layer(x, attention_mask=np.zeros((1, 4, 4), "bool"))
    outputs = to_numpy(ops.cast(outputs, "float32"))
    assert np.isfinite(outputs).all()
    mean = to_numpy(x).mean(1) @ to_numpy(layer.value_dense.kernel)
    mean = mean @ to_numpy(layer.output_dense.kernel)
    atol = 1e-5 if dtype == "float32" else 0.02 * np.abs(mean).max()
    assert_close(outputs, np.broadcast_to(mean[:, None], outputs.shape), atol=atol)


# PyTorch's fused kernels, which compute no weights. `return_attention_scores` computes them.

CAUSAL_MASK = np.tril(np.ones((2, 4, 5), "bool"))
CAUSAL_MASK[1, 2] = False  # This query may attend to nothing.
MASKS = {
    "no mask": None,
    "padding": np.array([[[1, 1, 1, 0, 0]], [[0, 0, 0, 0, 0]]], "bool"),
    "causal": CAUSAL_MASK,
}


@pytest.mark.each_backend
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_gradients_are_the_same_with_and_without_weights(mask):
    layer, factor = attention(2, 3, 5), normal(2, 4, 6, seed=2)
    query, value = 3 * normal(2, 4, 6), normal(2, 5, 6, seed=1)

    def loss(query, value, return_attention_scores):
        options = {"return_attention_scores": return_attention_scores}
        outputs = layer(query, value, attention_mask=mask, **options)
        outputs = outputs[0] if return_attention_scores else outputs
        return ops.sum(ops.multiply(outputs, factor))

    assert_close(loss(query, value, False), loss(query, value, True))
    for x, losses in (
        (query, [lambda x, y=y: loss(x, value, y) for y in (False, True)]),
        (value, [lambda x, y=y: loss(query, x, y) for y in (False, True)]),
    ):
        actual, expected = (gradient(function, x) for function in losses)
        assert np.abs(expected).max() > 0.1
        assert_close(actual, expected)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_softmax_is_in_float32_with_and_without_weights(dtype):
    # In float16 and bfloat16, a sum of 4,097 weights of about the same size would stop growing.
    layer = attention(1, 1, hidden_dim=1, dtype=dtype)
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
        dense.kernel.assign([[1.0]])
    value = np.concatenate([np.ones((1, 1, 1)), np.zeros((1, 4096, 1))], axis=1)
    mask = np.ones((1, 1, 4097), "bool")
    for query, expected in ((4.0, np.exp(4) / (np.exp(4) + 4096)), (0.0, 1 / 4097)):
        inputs = np.full((1, 1, 1), query)
        fused = layer(inputs, value, attention_mask=mask)
        weighted, _ = layer(inputs, value, attention_mask=mask, return_attention_scores=True)
        for outputs in (fused, weighted):
            assert to_numpy(ops.cast(outputs, "float32")) == pytest.approx(expected, rel=0.01)


def test_softmax_takes_large_scores():
    layer = attention(2, 3)
    assert np.isfinite(to_numpy(layer(1e4 * normal(1, 4, 6)))).all()


@pytest.mark.parametrize("value_dim", [None, 5])
def test_cache_filled_step_by_step_equals_all_at_once(value_dim):
    layer, x = attention(2, 3, value_dim), normal(2, 4, 6)
    expected = layer(x, attention_mask=causal_mask(4))
    cache = layer.empty_cache(2, 6)
    # Two positions, then one at a time; the cache is longer than what is written to it.
    for start, stop in ((0, 2), (2, 3), (3, 4)):
        mask = np.arange(6) <= np.arange(start, stop)[:, None]
        outputs, cache = layer(
            x[:, start:stop], attention_mask=mask[None], cache=cache, cache_index=start
        )
        assert_close(outputs, expected[:, start:stop], atol=1e-6)
    key, value = layer.project(x)
    assert_close(cache[0][..., :4], key, atol=1e-6)
    assert_close(cache[1][:, :, :4], value, atol=1e-6)
    assert not to_numpy(cache[0][..., 4:]).any()
    assert not to_numpy(cache[1][:, :, 4:]).any()


def test_cache_without_index_stands_for_value():
    layer, x, memory = attention(2, 3, 5), normal(2, 4, 6), normal(2, 7, 6, seed=1)
    assert_close(layer(x, cache=layer.project(memory)), layer(x, memory), atol=1e-6)


def test_cache_index_requires_a_cache():
    with pytest.raises(ValueError, match="requires a `cache`"):
        attention(2, 3)(normal(1, 1, 6), cache_index=0)


def test_bfloat16_outputs_are_close_to_float32_outputs():
    x = normal(2, 4, 6)
    layer = attention(2, 3, dtype="mixed_bfloat16")
    outputs = layer(x, attention_mask=causal_mask(4))
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    expected = attention(2, 3)(x, attention_mask=causal_mask(4))
    assert_close(keras.ops.cast(outputs, "float32"), expected, atol=0.05)


def test_symbolic_outputs_have_the_queries_shape():
    outputs = MultiHeadAttention(2, 3)(keras.Input((None, 6)), keras.Input((None, 6)))
    assert outputs.shape == (None, None, 6)


def test_initial_query_key_and_value_kernels_have_half_of_glorots_variance():
    layer = MultiHeadAttention(4, 16)
    layer.build((None, None, 64))
    kernels = [
        to_numpy(dense.kernel)
        for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense)
    ]
    # Glorot's uniform distribution reaches to sqrt(6 / (fan_in + fan_out)); queries, keys and
    # values have half of its variance.
    limits = [np.abs(kernel).max() for kernel in kernels]
    expected = np.sqrt(6 / 128 * np.array([0.5, 0.5, 0.5, 1]))
    np.testing.assert_allclose(limits, expected, rtol=0.01)


# In a functional graph


def shapes(outputs):
    return keras.tree.map_structure(lambda x: tuple(x.shape), outputs)


def test_attention_scores_in_a_functional_graph():
    layer, query, value = attention(2, 3, 5), keras.Input((4, 6)), keras.Input((None, 6))
    outputs = layer(query, value, return_attention_scores=True)
    assert shapes(outputs) == ((None, 4, 6), (None, 2, 4, None))
    arrays = normal(3, 4, 6), normal(3, 7, 6, seed=1)
    expected = layer(*arrays, return_attention_scores=True)
    for actual, other in zip(keras.Model([query, value], outputs)(arrays), expected):
        assert_close(actual, other, atol=1e-6)


def test_cache_in_a_functional_graph():
    layer, query = attention(2, 3, 5, dtype="mixed_bfloat16"), keras.Input((1, 6))
    cache = keras.Input((2, 3, 8), dtype="bfloat16"), keras.Input((2, 8, 5), dtype="bfloat16")
    index = keras.Input((), batch_size=1, dtype="int32")
    outputs = layer(query, cache=cache, cache_index=index, return_attention_scores=True)
    assert shapes(outputs) == (
        (None, 1, 6),
        ((None, 2, 3, 8), (None, 2, 8, 5)),
        (None, 2, 1, 8),
    )
    assert {x.dtype for x in keras.tree.flatten(outputs)} == {"bfloat16"}
    of_cache = layer(query, cache=cache, return_attention_scores=True)
    assert shapes(of_cache) == ((None, 1, 6), (None, 2, 1, 8))


# Masks that Keras keeps with tensors


def test_masks_of_embeddings_hide_padding():
    ids, other_ids = np.array([[3, 5, 0, 0]]), np.array([[4, 1, 2, 0]])
    embedding, layer = keras.layers.Embedding(6, 6, mask_zero=True), attention(2, 3)
    x, other = embedding(ids), embedding(other_ids)
    assert_close(layer(x)[:, :2], layer(to_numpy(x)[:, :2]), atol=1e-6)
    assert_close(layer(x, other), layer(to_numpy(x), to_numpy(other)[:, :3]), atol=1e-6)
    everything = np.ones((1, 4, 4), "bool")
    assert_close(layer(x, attention_mask=everything), layer(to_numpy(x)), atol=1e-6)
