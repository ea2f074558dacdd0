import keras
import numpy as np
import pytest

from keras_transformer.layers import TransformerDecoderLayer
from tests.helpers import assert_close, normal, randomize, to_numpy

BOTH_NORMS = pytest.mark.parametrize("normalize_first", [False, True])


def decoder_layer(hidden_dim=8, **kwargs):
    kwargs = {"intermediate_dim": 16, "num_heads": 2, "dropout": 0.0, **kwargs}
    layer = TransformerDecoderLayer(**kwargs)
    layer.build((None, None, hidden_dim), (None, None, hidden_dim))
    return randomize(layer)


TARGET, SOURCE = normal(2, 4, 8), normal(2, 5, 8, seed=1)


@BOTH_NORMS
def test_later_positions_do_not_change_outputs(normalize_first):
    layer = decoder_layer(normalize_first=normalize_first)
    later = TARGET.copy()
    later[:, 2:] += 1
    outputs, changed = to_numpy(layer(TARGET, SOURCE)), to_numpy(layer(later, SOURCE))
    assert_close(changed[:, :2], outputs[:, :2], atol=1e-6)
    assert (np.abs(changed[:, 2:] - outputs[:, 2:]).max(-1) > 1e-3).all()


@pytest.mark.each_backend
def test_earlier_positions_change_outputs():
    layer, earlier = decoder_layer(), TARGET.copy()
    earlier[:, 0] += np.arange(8) % 2  # a constant would be lost in a normalisation
    difference = np.abs(to_numpy(layer(earlier, SOURCE)) - to_numpy(layer(TARGET, SOURCE)))
    assert (difference.max(-1) > 1e-4).all()


def test_source_padding_does_not_change_outputs():
    layer = decoder_layer()
    mask = np.array([[True] * 3 + [False] * 2] * 2)
    outputs = layer(TARGET, SOURCE, encoder_padding_mask=mask)
    assert_close(outputs, layer(TARGET, SOURCE[:, :3]), atol=1e-6)
    assert np.abs(to_numpy(outputs) - to_numpy(layer(TARGET, SOURCE))).max() > 1e-3


@BOTH_NORMS
def test_step_by_step_equals_all_at_once(normalize_first):
    layer = decoder_layer(key_dim=3, value_dim=5, normalize_first=normalize_first)
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    expected = layer(TARGET, SOURCE, encoder_padding_mask=mask)
    cache = layer.make_cache(SOURCE, 6)
    for start, stop in ((0, 2), (2, 3), (3, 4)):
        outputs, cache = layer(
            TARGET[:, start:stop],
            encoder_padding_mask=mask,
            cache=cache,
            cache_index=start,
        )
        assert_close(outputs, expected[:, start:stop], atol=1e-6)


def test_caches_have_the_shapes_of_heads():
    cache = decoder_layer(key_dim=3, value_dim=5).make_cache(SOURCE, 6)
    shapes = {name: [tuple(x.shape) for x in pair] for name, pair in cache.items()}
    assert shapes == {
        "self": [(2, 2, 3, 6), (2, 2, 6, 5)],
        "cross": [(2, 2, 3, 5), (2, 2, 5, 5)],
    }


def test_a_step_leaves_the_given_cache_as_it_was():
    # A search may go on from the same cache more than once.
    layer = decoder_layer()
    cache = layer.make_cache(SOURCE, 4)
    first, _ = layer(TARGET[:, :1], cache=cache, cache_index=0)
    again, _ = layer(TARGET[:, :1], cache=cache, cache_index=0)
    assert not to_numpy(cache["self"][0]).any()
    assert_close(again, first, atol=0)


def test_a_call_without_encoder_sequence_or_cache_is_refused():
    with pytest.raises((ValueError, TypeError), match="encoder_sequence"):
        decoder_layer()(TARGET)


# In a functional graph


def shapes(outputs):
    return keras.tree.map_structure(lambda x: tuple(x.shape), outputs)


def test_attention_scores_in_a_functional_graph():
    layer, target, source = decoder_layer(), keras.Input((4, 8)), keras.Input((None, 8))
    outputs = layer(target, source, return_attention_scores=True)
    assert shapes(outputs) == ((None, 4, 8), (None, 2, 4, None))
    expected = layer(TARGET, SOURCE, return_attention_scores=True)
    for actual, other in zip(keras.Model([target, source], outputs)([TARGET, SOURCE]), expected):
        assert_close(actual, other, atol=1e-6)


@pytest.mark.parametrize("layer", [decoder_layer(), TransformerDecoderLayer(16, 2, dropout=0)])
def test_a_step_as_a_functional_graph(layer):
    target, index = keras.Input((1, 8)), keras.Input(batch_shape=(), dtype="int32")
    keys, values = keras.Input((2, 4, None)), keras.Input((2, None, 4))
    cache = {"self": (keys, values), "cross": (keras.Input((2, 4, 5)), keras.Input((2, 5, 4)))}
    options = {"cache_index": index, "return_attention_scores": True}
    outputs = layer(target, cache=cache, **options)
    assert shapes(outputs) == ((None, 1, 8), shapes(cache), (None, 2, 1, 5))

    model = keras.Model([target, cache, index], outputs)
    source, first = (keras.ops.convert_to_tensor(x) for x in (SOURCE, TARGET[:, :1]))
    arrays = layer.make_cache(source, 3)
    expected = layer(first, cache=arrays, cache_index=1, return_attention_scores=True)
    actual = model([first, arrays, keras.ops.convert_to_tensor(1, "int32")])
    keras.tree.map_structure(lambda a, b: assert_close(a, b, atol=1e-6), actual, expected)


# Masks that Keras keeps with tensors


@pytest.mark.filterwarnings("error:.*does not support masking")
def test_the_masks_of_embeddings_are_the_padding_masks():
    # With padding on the left too, where no causal mask hides it.
    target_ids, source_ids = np.array([[0, 0, 4, 1]]), np.array([[3, 5, 1, 0, 0]])
    embedding, layer = keras.layers.Embedding(6, 8, mask_zero=True), decoder_layer()
    target, source = embedding(target_ids), embedding(source_ids)
    expected = layer(to_numpy(target)[:, 2:], to_numpy(source)[:, :3])
    assert_close(layer(target, source)[:, 2:], expected, atol=1e-6)
    assert np.isfinite(to_numpy(layer(target, source, training=True))).all()
    mask = np.array([[True, True, True, True, False]])
    expected = layer(to_numpy(target)[:, 2:], to_numpy(source)[:, :4])
    actual = layer(target, source, encoder_padding_mask=mask)[:, 2:]
    assert_close(actual, expected, atol=1e-6)
