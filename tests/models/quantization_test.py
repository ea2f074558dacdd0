"""Weights of 8 bits: how they round, that nothing reads them as floats, and how they are saved."""

import gc
import warnings

import keras
import numpy as np
import pytest

from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import TokenAccuracy
from keras_transformer.models.transformer import Transformer
from tests.decoding.search_functions import greedy_search
from tests.helpers import assert_close, to_numpy
from tests.models.transformer_test import INPUTS, SOURCE, copy_task, new_model

INT8 = "int8"


def quantized_model(filters=None, **options):
    model = new_model(num_layers=1, **options)
    model.quantize(INT8, filters=filters)
    return model


def test_logits_are_near_the_float_logits():
    model = new_model(num_layers=1)
    expected = to_numpy(model(INPUTS)).copy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.quantize(INT8)
    assert not [each for each in caught if "quantize" in str(each.message)]
    logits = to_numpy(model(INPUTS))
    assert logits.dtype == "float32"
    assert 0 < np.abs(logits - expected).max() < 0.1 * expected.std()
    # The embedding, and the matrices of 3 attentions and 2 feed-forward networks.
    matrices = [weight for weight in model.weights if len(weight.shape) == 2]
    assert len(matrices) == 1 + 3 * 4 + 2 * 2
    assert {keras.backend.standardize_dtype(x.dtype) for x in matrices} == {INT8}
    assert model.trainable_weights == []


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_frozen")
def test_quantizing_collects_no_garbage_of_the_rest_of_the_process(monkeypatch):
    # Keras collects once a layer: 0.3 s each time, if all objects of the backend were looked at.
    frozen, collect = [], gc.collect
    monkeypatch.setattr(gc, "collect", lambda: frozen.append(gc.get_freeze_count()) or collect())
    quantized_model()
    assert len(frozen) > 10 and min(frozen) > 10_000
    assert gc.get_freeze_count() == 0


def test_a_notice_says_where_integer_products_are_slow(caplog):
    with caplog.at_level("INFO", "keras_transformer"):
        quantized_model()
    assert ("not faster with" in caplog.text) == (keras.backend.backend() != "jax")


@pytest.mark.slow
def test_embeddings_are_rounded_row_by_row():
    model = new_model(num_layers=1)
    expected = to_numpy(model.token_embedding.embeddings).copy()
    model.quantize(INT8)
    units = np.abs(expected).max(axis=1, keepdims=True) / 127
    embeddings = to_numpy(model.token_embedding(np.arange(len(expected))))
    assert_close(embeddings / units, np.round(expected / units), atol=1e-3)


@pytest.mark.slow
def test_a_search_uses_the_quantized_model():
    # TensorFlow has compiled a search of the model in floats.
    model = new_model(num_layers=1)
    options = {"extra_length": 1}
    greedy_search(model, SOURCE, **options)
    model.quantize(INT8)
    token_ids, scores = map(to_numpy, greedy_search(model, SOURCE, **options))
    for row in range(len(SOURCE)):
        tokens = token_ids[row][token_ids[row] != 0]
        target = np.array([[1, *tokens[:-1]]], "int32")
        inputs = {"encoder_token_ids": SOURCE[row : row + 1], "decoder_token_ids": target}
        log_probs = to_numpy(keras.ops.log_softmax(model(inputs)))[0]
        assert_close(scores[row], log_probs[np.arange(len(tokens)), tokens].sum(), atol=1e-4)


@pytest.mark.slow
def test_evaluation_is_close_to_floats():
    model = new_model(num_layers=1)
    x, y = copy_task(32)
    results = []
    for _ in range(2):
        model.compile("sgd", LabelSmoothedCrossentropy(), metrics=[TokenAccuracy()])
        results.append(model.evaluate(x, y, verbose=0, return_dict=True))
        if not results[1:]:
            model.quantize(INT8)
    assert results[1]["loss"] == pytest.approx(results[0]["loss"], rel=0.02)
    assert results[1]["loss"] != results[0]["loss"]


# Saving


# A preset is saved and loaded on every backend: see `tests/presets/storage_test.py`.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("filters", "dtype"),
    [
        (None, None),
        (["query", "value"], None),
        (None, "mixed_bfloat16"),
        ("token_embedding", "mixed_bfloat16"),
    ],
)
def test_a_quantized_model_is_saved_and_loaded(filters, dtype, tmp_path):
    model = quantized_model(filters, dtype=dtype)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    other = Transformer.from_config(model.get_config())
    other.load_weights(tmp_path / "model.weights.h5")
    for copy in (loaded, other):
        assert copy.get_config() == model.get_config()
        dtypes = [[weight.dtype for weight in x.weights] for x in (copy, model)]
        assert dtypes[0] == dtypes[1]
        assert_close(copy(INPUTS), model(INPUTS), atol=0)


@pytest.mark.slow
@pytest.mark.once
def test_a_model_made_with_an_int8_dtype_has_the_weights_of_a_quantized_one():
    model = Transformer(12, 1, 8, 16, 2, dtype="int8_from_mixed_bfloat16")
    assert model.dtype_policy.name == "mixed_bfloat16"
    dtypes = [[weight.dtype for weight in x.weights] for x in (model, quantized_model())]
    assert dtypes[0] == dtypes[1]


# Errors


@pytest.mark.once
@pytest.mark.parametrize("mode", ["int4", "float8"])
def test_modes_other_than_int8_are_refused(mode):
    with pytest.raises(ValueError, match=f"quantized to 'int8'.*mode='{mode}'"):
        new_model(num_layers=1).quantize(mode)


@pytest.mark.slow
@pytest.mark.once
def test_a_config_that_saved_models_cannot_hold_is_refused():
    config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    with pytest.raises(ValueError, match="saved models do not contain another"):
        new_model(num_layers=1).quantize(config=config)
    new_model(num_layers=1).quantize(config=keras.quantizers.Int8QuantizationConfig())


@pytest.mark.slow
@pytest.mark.once
def test_a_quantized_model_cannot_be_quantized_again():
    with pytest.raises(ValueError, match="quantized already"):
        quantized_model().quantize(INT8)


@pytest.mark.once
def test_other_policies_of_layers_are_refused():
    dtype = keras.dtype_policies.DTypePolicyMap("float32")
    dtype["encoder_layer_0/.*"] = "bfloat16"
    with pytest.raises(ValueError, match="of 'int8'.*'bfloat16'"):
        new_model(num_layers=1, dtype=dtype)
