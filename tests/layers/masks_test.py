"""The padding mask of the model's outputs, as Keras's own losses, metrics and layers read it."""

import warnings

import keras
import numpy as np
import pytest

from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import Perplexity, TokenAccuracy
from keras_transformer.models.transformer import Transformer
from tests.helpers import assert_close, to_numpy
from tests.models.transformer_test import COUNTED, INPUTS, OTHER_MATRICES, SOURCE, TARGET, new_model

# The tokens that follow those of `TARGET`: 3 and 5.
TARGETS = np.array([[6, 6, 2, 0, 0], [3, 11, 4, 5, 2]])
KERAS = {
    "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    "weighted_metrics": ["accuracy"],
}
OURS = {"loss": LabelSmoothedCrossentropy(0.0), "weighted_metrics": [TokenAccuracy()]}


def compiled(options, **compiled_with):
    model = new_model(dropout=0.0, num_layers=1, **options)
    model.compile(keras.optimizers.SGD(0.1), **compiled_with)
    return model


@pytest.mark.parametrize(
    "method", ["test_on_batch", pytest.param("train_on_batch", marks=pytest.mark.each_backend)]
)
def test_targets_at_padding_change_no_loss_or_metric_of_keras(method):
    model = compiled({}, **KERAS)
    model.optimizer.learning_rate = 0.0
    others = np.where(TARGETS, TARGETS, 7), np.where(TARGETS == 3, 7, TARGETS)
    expected, same, different = (getattr(model, method)(INPUTS, y) for y in (TARGETS, *others))
    assert same == pytest.approx(expected, rel=1e-6)
    assert different != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("options", [{}, OTHER_MATRICES, COUNTED], ids=str)
def test_losses_and_metrics_of_keras_leave_padding_out(options):
    models = [compiled(options, **functions) for functions in (KERAS, OURS)]
    for method in ("test_on_batch", "train_on_batch"):
        actual, expected = (getattr(x, method)(INPUTS, TARGETS, return_dict=True) for x in models)
        assert actual == pytest.approx(expected, rel=1e-5)
    for actual, expected in zip(*(x.get_weights() for x in models), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_weights_of_rows_weigh_their_tokens():
    # Also with one-hot targets, which have an axis more.
    sparse = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    one_hot = keras.losses.CategoricalCrossentropy(from_logits=True)
    model, other = compiled({}, loss=sparse), compiled({}, loss=one_hot)
    unweighted = model.test_on_batch(INPUTS, TARGETS)
    losses = [
        model.test_on_batch(INPUTS, TARGETS, sample_weight=np.array(weights))
        for weights in ([1.0, 0.0], [0.0, 1.0], [2.0, 3.0])
    ]
    assert losses[0] + losses[1] == pytest.approx(unweighted, rel=1e-5)
    assert losses[2] == pytest.approx(2 * losses[0] + 3 * losses[1], rel=1e-5)
    column = np.array([[2.0], [3.0]])
    actual = other.test_on_batch(INPUTS, np.eye(12)[TARGETS], sample_weight=column)
    assert actual == pytest.approx(losses[2], rel=1e-5)


def test_a_loaded_model_leaves_padding_out(tmp_path):
    model = compiled({}, **KERAS)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = compiled({}, **OURS).evaluate(INPUTS, TARGETS, verbose=0)
    assert loaded.evaluate(INPUTS, TARGETS, verbose=0) == pytest.approx(expected, rel=1e-5)


def pooled_and_expected(classifier):
    encoded, pooled = classifier.predict_on_batch(SOURCE)
    return pooled, [row[ids != 0].mean(axis=0) for row, ids in zip(encoded, SOURCE)]


@pytest.mark.each_backend
def test_pooling_leaves_padding_out(tmp_path):
    token_ids = keras.Input((None,), dtype="int32")
    encoded = new_model(num_layers=1).encode(token_ids)
    classifier = keras.Model(token_ids, [encoded, keras.layers.GlobalAveragePooling1D()(encoded)])
    assert_close(*pooled_and_expected(classifier))
    if keras.backend.backend() == "torch":
        classifier.save(tmp_path / "classifier.keras")
        classifier = keras.models.load_model(tmp_path / "classifier.keras")
        assert_close(*pooled_and_expected(classifier))


def test_pooling_of_whole_targets_leaves_padding_out():
    model = new_model()
    logits = model.decode(TARGET, SOURCE, model.encode(SOURCE))
    expected = [row[ids != 0].mean(axis=0) for row, ids in zip(to_numpy(logits), TARGET)]
    assert_close(keras.layers.GlobalAveragePooling1D()(logits), expected)


class Halved(LabelSmoothedCrossentropy):
    def call(self, y_true, y_pred):
        return super().call(y_true, y_pred) / 2


class Unmasked(keras.losses.Loss):
    def __call__(self, y_true, y_pred, sample_weight=None):
        return keras.ops.mean(y_pred)


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"loss": Unmasked()}, "loss 'unmasked'"),
        ({"loss": "mse", "metrics": ["accuracy", keras.metrics.F1Score()]}, "metric 'f1_score'"),
        ({"weighted_metrics": [keras.metrics.AUC(name="area")]}, "metric 'area'"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_compile_warns_of_losses_that_count_padding(options, name):
    with pytest.warns(UserWarning, match=f"The {name} .* does not read the padding mask"):
        Transformer(50, 1, 8, 16, 2).compile("sgd", **options)


@pytest.mark.once
@pytest.mark.parametrize(
    "options",
    [
        {**KERAS, "metrics": [keras.metrics.SparseTopKCategoricalAccuracy()]},
        {**OURS, "metrics": [Perplexity()]},
        {"loss": Halved(), "metrics": [keras.losses.sparse_categorical_crossentropy]},
        {"loss": keras.losses.sparse_categorical_crossentropy},
        {},
    ],
)
def test_compile_is_silent_where_padding_is_left_out(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Transformer(50, 1, 8, 16, 2).compile("sgd", **options)
