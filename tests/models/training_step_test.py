"""Every row of Table 3 trains, at a sixteenth of its widths; the fused step is the plain one."""

import re

import keras
import numpy as np
import pytest

from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import Perplexity, TokenAccuracy
from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import get_variant, scaled, variants
from tests.helpers import class_for


@pytest.mark.once  # under PyTorch, which need not compile each row
@pytest.mark.parametrize(
    "name",
    [x if x in ("base", "heads_32") else pytest.param(x, marks=pytest.mark.slow) for x in variants],
)
def test_every_variant_takes_a_training_step(name):
    hyperparameters = scaled(get_variant(name), 1 / 16)
    smoothing = hyperparameters.pop("label_smoothing")
    model = Transformer(50, **hyperparameters)
    model.compile("sgd", loss=LabelSmoothedCrossentropy(smoothing))
    token_ids = np.random.default_rng(0).integers(4, 50, (3, 6))
    before = model.get_weights()
    inputs = {"encoder_token_ids": token_ids, "decoder_token_ids": token_ids}
    assert 2 < model.train_on_batch(inputs, token_ids) < 8  # about log(50)
    after = model.get_weights()
    assert all((x != y).any() for x, y in zip(before, after) if x.ndim > 1)


SOURCE = np.random.default_rng(0).integers(4, 50, (6, 7))
TARGET = np.random.default_rng(1).integers(4, 50, (6, 9))
TARGET[2, 4:] = TARGET[5, 1:] = 0
INPUTS = {"encoder_token_ids": SOURCE, "decoder_token_ids": TARGET}
TOKEN_WEIGHTS = np.random.default_rng(2).random((6, 9)).astype("float32") * (TARGET != 0)
ROW_WEIGHTS = np.arange(6, dtype="float32")[:, None]


def trained(fused, weights, reduction, metrics, **options):
    keras.utils.set_random_seed(3)
    model = class_for(options)(50, 1, 16, 32, 2, dropout=0.1, **options)
    model.compile(
        keras.optimizers.SGD(0.002 if reduction == "sum" else 0.1),
        loss=LabelSmoothedCrossentropy(0.1, reduction),
        fused=fused,
        **{name: [TokenAccuracy(), Perplexity()] for name in metrics},
    )
    logs = [
        model.train_on_batch(INPUTS, TARGET, sample_weight=weights, return_dict=True)
        for _ in range(3)
    ]
    return model, logs


@pytest.mark.parametrize(
    ("weights", "reduction", "metrics"),
    [
        (None, "mean_with_sample_weight", ["metrics"]),
        (TOKEN_WEIGHTS, "sum", ["weighted_metrics"]),
        (ROW_WEIGHTS, "mean_with_sample_weight", ["weighted_metrics"]),
        (TOKEN_WEIGHTS, "mean_with_sample_weight", ["metrics"]),
        (None, "sum", []),
    ],
)
def test_a_fused_step_equals_the_plain_one(weights, reduction, metrics):
    assert_steps_are_equal(weights, reduction, metrics)


def test_fused_step_has_the_gradients_of_a_projection_with_bias():
    assert_steps_are_equal(None, "mean_with_sample_weight", [], tie_weights=False, output_bias=True)


# A tagger: see `Transformer`.
LEAVES = {"word_start_ids": list(range(4, 40)), "leaf_ids": [7, 9, 20, 33, 40]}


def test_a_tagger_next_to_the_decoder_adds_its_loss():
    plain, beside = small(options=LEAVES), small(options={**LEAVES, "tag_loss_weight": 0.5})
    beside.set_weights(plain.get_weights())
    # From the definition: the mean over all tokens, of which leaves have a tag.
    log_probs = keras.ops.convert_to_numpy(beside.tag(SOURCE))
    is_leaf = np.isin(TARGET, LEAVES["leaf_ids"])
    words = np.cumsum(is_leaf, axis=1)  # of the decoder's inputs, which are the targets here
    added = [
        log_probs[row, words[row, column], LEAVES["leaf_ids"].index(TARGET[row, column])]
        for row, column in zip(*np.nonzero(is_leaf))
        if words[row, column] < SOURCE.shape[1]
    ]
    assert len(added) == is_leaf.sum() > 3
    expected = plain.test_on_batch(INPUTS, TARGET) - 0.5 * sum(added) / (TARGET != 0).sum()
    assert beside.test_on_batch(INPUTS, TARGET) == pytest.approx(expected, rel=1e-5)
    assert beside.train_on_batch(INPUTS, TARGET) == pytest.approx(expected, rel=1e-5)
    plain.train_on_batch(INPUTS, TARGET)
    assert any((x != y).any() for x, y in zip(plain.get_weights(), beside.get_weights()))


@pytest.mark.once
def test_a_tagger_next_to_the_decoder_needs_fused_steps():
    options = {**LEAVES, "tag_loss_weight": 0.5}
    for compiled in ({"fused": False}, {"loss": Doubled()}, {"metrics": ["accuracy"]}):
        with pytest.raises(ValueError, match="loss of the tagger requires fused steps"):
            small(options=options, **compiled)


def assert_steps_are_equal(weights, reduction, metrics, **options):
    (plain, plain_logs), (fused, fused_logs) = (
        trained(fused, weights, reduction, metrics, **options) for fused in (False, True)
    )
    for before, after in zip(plain_logs, fused_logs, strict=True):
        assert after == pytest.approx(before, rel=1e-4)
    for before, after in zip(plain.get_weights(), fused.get_weights(), strict=True):
        np.testing.assert_allclose(after, before, atol=2e-5)


class Doubled(LabelSmoothedCrossentropy):
    def call(self, y_true, y_pred):
        assert y_pred.shape[-1] == 50  # logits
        return 2 * super().call(y_true, y_pred)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        {"loss": LabelSmoothedCrossentropy(), "metrics": ["sparse_categorical_accuracy"]},
        {"loss": Doubled()},
    ],
    ids=["other loss", "other metric", "derived loss"],
)
def test_other_losses_and_metrics_get_logits(options):
    model = Transformer(50, 1, 16, 32, 2)
    model.compile("sgd", **options)
    logs = model.train_on_batch(INPUTS, TARGET, return_dict=True)
    factor = 2 if isinstance(options["loss"], Doubled) else 1
    assert 2 < logs["loss"] / factor < 8 and len(logs) == 1 + ("metrics" in options)


class Distilled(Transformer):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        assert y_pred.shape[-1] == 50  # logits, of which a teacher's would be the target
        return super().compute_loss(x, y, y_pred, sample_weight, training)


class Called(Transformer):
    def call(self, inputs, training=None, mask=None):
        logits = super().call(inputs, training=training, mask=mask)
        assert logits.shape[-1] == 50  # as a consistency loss would compare them
        return logits


def small(model_class=None, options=None, **compiled):
    model_class = model_class or class_for(options or {})
    model = model_class(50, 1, 8, 16, 2, dropout=0.0, **(options or {}))
    model.compile(keras.optimizers.SGD(0.1), **{"loss": LabelSmoothedCrossentropy(), **compiled})
    return model


@pytest.mark.parametrize("model_class", [Distilled, Called])
def test_a_class_that_overrides_a_method_gets_logits(model_class):
    model = small(model_class)
    assert 2 < model.train_on_batch(INPUTS, TARGET) < 8
    assert 2 < model.test_on_batch(INPUTS, TARGET) < 8
    method = "compute_loss" if model_class is Distilled else "call"
    with pytest.raises(ValueError, match=f"`fused=True`.*{model_class.__name__}.*`{method}`"):
        small(model_class, fused=True)


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fused": "always"}, "`fused` must be .*'always'"),
        ({"fused": True, "loss": Doubled()}, "`fused=True`.*`loss`.*Doubled"),
        ({"fused": True, "loss": "mse"}, "`fused=True`.*`loss`.*'mse'"),
        ({"fused": True, "metrics": ["accuracy"]}, "`metrics`.*'accuracy'"),
        ({"fused": True, "weighted_metrics": {"a": []}}, "`weighted_metrics` is not a list"),
    ],
)
def test_fusing_is_refused_where_logits_are_needed(options, words):
    with pytest.raises(ValueError, match=words):
        small(**options)


@pytest.mark.once
@pytest.mark.slow
def test_fusing_is_refused_for_quantized_embeddings():
    model = Transformer(50, 1, 8, 16, 2)
    model.quantize("int8")
    loss = LabelSmoothedCrossentropy()
    with pytest.raises(
        ValueError, match="`fused=True` is not possible: the embedding is quantized"
    ):
        model.compile("sgd", loss, fused=True)
    model.compile("sgd", loss)
    assert 2 < model.test_on_batch(INPUTS, TARGET) < 8


@pytest.mark.once
@pytest.mark.slow
def test_quantizing_a_fused_model_is_an_error_of_the_next_step(tmp_path):
    model = small(fused=True)
    model.quantize("int8")
    with pytest.raises(
        ValueError, match="`fused=True` is not possible: the embedding is quantized"
    ):
        model.test_on_batch(INPUTS, TARGET)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert 2 < loaded.test_on_batch(INPUTS, TARGET) < 8


def test_steps_make_no_logits_and_predictions_are_logits(monkeypatch):
    model = small()
    model.train_on_batch(INPUTS, TARGET)  # Keras makes symbolic logits the first time.
    model.test_on_batch(INPUTS, TARGET)
    project = model.token_embedding.call

    def call(inputs, reverse=False):
        if reverse:
            raise AssertionError("logits were made")
        return project(inputs)

    monkeypatch.setattr(model.token_embedding, "call", call)
    inputs = {name: token_ids[:4] for name, token_ids in INPUTS.items()}  # another shape is traced
    assert 2 < model.train_on_batch(inputs, TARGET[:4]) < 8
    assert 2 < model.test_on_batch(inputs, TARGET[:4]) < 8
    with pytest.raises(AssertionError, match="logits were made"):
        model.predict_on_batch(inputs)
    monkeypatch.undo()
    assert model.predict_on_batch(inputs).shape == (4, 9, 50)


def regularized(model):
    # As `add_loss` and regularisers of layers too: one of `model.losses`.
    model.token_embedding.embeddings.regularizer = keras.regularizers.L2(0.01)
    return model


@pytest.mark.parametrize("weights", [None, ROW_WEIGHTS[:, 0]], ids=["unweighted", "rows"])
def test_fused_evaluation_equals_the_plain_one(weights):
    metrics = {"metrics": [TokenAccuracy()], "weighted_metrics": [Perplexity()]}
    logs = []
    for fused in (False, True):
        keras.utils.set_random_seed(0)
        model = regularized(small(fused=fused, loss_weights=0.5, **metrics))
        logs.append(model.test_on_batch(INPUTS, TARGET, sample_weight=weights, return_dict=True))
    assert set(logs[0]) == {"loss", "accuracy", "perplexity"}
    assert logs[1] == pytest.approx(logs[0], rel=1e-5)


@pytest.mark.parametrize("loss_weights", [0.5, [0.5]], ids=str)
def test_loss_weights_and_regularizers_count_in_training(loss_weights):
    plain = small()
    fused = regularized(small(fused=True, loss_weights=loss_weights))
    fused.set_weights(plain.get_weights())
    embeddings = plain.token_embedding.embeddings.numpy()
    expected = plain.test_on_batch(INPUTS, TARGET) / 2 + 0.01 * (embeddings**2).sum()
    assert fused.test_on_batch(INPUTS, TARGET) == pytest.approx(expected, rel=1e-5)
    assert fused.train_on_batch(INPUTS, TARGET) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("fused", ["auto", False])
def test_a_saved_model_continues_training(tmp_path, fused):
    options = {"weighted_metrics": [TokenAccuracy()], "loss_weights": 0.5, "fused": fused}
    model = small(loss=LabelSmoothedCrossentropy(0.2), **options)
    model.train_on_batch(INPUTS, TARGET)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded) is Transformer and loaded.loss.label_smoothing == 0.2
    assert loaded.get_compile_config() == model.get_compile_config()
    assert loaded.get_compile_config().get("fused", "auto") == fused
    assert int(loaded.optimizer.iterations.numpy()) == 1
    model.reset_metrics()
    expected, actual = (x.train_on_batch(INPUTS, TARGET, return_dict=True) for x in (model, loaded))
    assert actual == pytest.approx(expected, rel=1e-6) and set(actual) == {"loss", "accuracy"}
    for before, after in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_allclose(after, before, atol=1e-6)


@pytest.mark.once
def test_a_model_saved_without_being_compiled_is_not_compiled(tmp_path):
    Transformer(50, 1, 8, 16, 2).save(tmp_path / "model.keras")
    assert not keras.saving.load_model(tmp_path / "model.keras").compiled


@pytest.mark.parametrize("fused", ["auto", True])
def test_a_clone_of_a_compiled_model_trains_as_the_model(fused):
    model = small(fused=fused, metrics=[TokenAccuracy()])
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    expected, actual = (x.train_on_batch(INPUTS, TARGET, return_dict=True) for x in (model, clone))
    assert actual == pytest.approx(expected, rel=1e-5) and set(actual) == {"loss", "accuracy"}
    for before, after in zip(model.get_weights(), clone.get_weights(), strict=True):
        np.testing.assert_allclose(after, before, atol=1e-6)


# Of each token of the targets, by its id.
CLASS_WEIGHT = {5: 3.0, 17: 0.0, 30: 0.25}
WEIGHT_OF = np.ones(50, "float32")
WEIGHT_OF[list(CLASS_WEIGHT)] = list(CLASS_WEIGHT.values())


@pytest.mark.parametrize("fused", [True, False])
def test_class_weights_apply_to_tokens(fused):
    model, again = small(fused=fused), small(fused=fused)
    again.set_weights(model.get_weights())
    rows, of_tokens = ROW_WEIGHTS[:, 0], WEIGHT_OF[TARGET]
    # The second `fit` has none, but data of the same form: a program for it exists already.
    for given, explicit in (
        ({"class_weight": CLASS_WEIGHT, "sample_weight": rows}, of_tokens * ROW_WEIGHTS),
        ({"sample_weight": rows}, np.ones_like(of_tokens) * ROW_WEIGHTS),
        ({}, None),
    ):
        actual = model.fit(INPUTS, TARGET, verbose=0, shuffle=False, **given)
        expected = again.fit(INPUTS, TARGET, verbose=0, shuffle=False, sample_weight=explicit)
        assert actual.history["loss"] == pytest.approx(expected.history["loss"], rel=1e-5)
    for actual, expected in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_class_weights_of_one_batch():
    model, again = small(), small()
    again.set_weights(model.get_weights())
    actual = model.train_on_batch(INPUTS, TARGET, class_weight=CLASS_WEIGHT)
    assert actual == pytest.approx(again.train_on_batch(INPUTS, TARGET, WEIGHT_OF[TARGET]))
    assert actual != pytest.approx(small().train_on_batch(INPUTS, TARGET), rel=1e-3)


@pytest.mark.once
@pytest.mark.parametrize("token_id", [-1, "the", 2.5])
def test_invalid_class_weights_are_refused(token_id):
    with pytest.raises(ValueError, match=f"`class_weight` must be .*{token_id!r}"):
        small().fit(INPUTS, TARGET, class_weight={token_id: 2.0})


@pytest.mark.once
def test_missing_targets_are_refused():
    for method in ("fit", "evaluate"):
        with pytest.raises(ValueError, match="There are no targets. Pass the tokens that follow"):
            getattr(small(), method)(INPUTS, verbose=0)


@pytest.mark.each_backend
@pytest.mark.parametrize("fused", [True, False])
def test_targets_of_another_shape_are_refused(fused):
    model = small(fused=fused, metrics=[TokenAccuracy()])
    expected = r"Expected: targets of shape \((6|None), 9\). Received: targets of shape "
    methods = model.fit, model.evaluate, model.train_on_batch, model.test_on_batch
    for targets in (TARGET[:, 1:], TARGET[:, :1], np.eye(50)[TARGET]):
        received = re.escape(", ".join(map(str, targets.shape[1:])))
        for method in methods:
            with pytest.raises(ValueError, match=rf"{expected}\((6|None), {received}\)"):
                method(INPUTS, targets)


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="other shapes are all known")
def test_targets_of_another_shape_in_batches_of_several_shapes():
    def batches():
        for width in (9, 8, 7):
            yield {**INPUTS, "decoder_token_ids": TARGET[:, :width]}, TARGET[:, 1:width]

    model = small()
    with pytest.raises(ValueError, match=r"Targets must be .*Received.*\[6,8\] != .*\[6,9\]"):
        model.fit(batches(), verbose=0)


@pytest.mark.parametrize("fused", [True, False])
def test_negative_targets_are_padding(fused):
    model = small(fused=fused, metrics=[TokenAccuracy(), Perplexity()])
    weights = {"sample_weight": ROW_WEIGHTS[:, 0]}
    expected = model.test_on_batch(INPUTS, TARGET, **weights, return_dict=True)
    before = model.get_weights()
    model.train_on_batch(INPUTS, TARGET, class_weight=CLASS_WEIGHT)
    trained, ignored = model.get_weights(), np.where(TARGET, TARGET, -100)
    model.set_weights(before)
    actual = model.test_on_batch(INPUTS, ignored, **weights, return_dict=True)
    assert actual == pytest.approx(expected, rel=1e-6)
    model.train_on_batch(INPUTS, ignored, class_weight=CLASS_WEIGHT)
    for x, y in zip(model.get_weights(), trained, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)


@pytest.mark.parametrize("fused", [True, False])
def test_targets_outside_the_vocabulary_are_refused(fused):
    model = small(fused=fused, metrics=[TokenAccuracy(), Perplexity()])
    for token_id in (50, 70):
        targets = np.where(TARGET == TARGET[0, 0], token_id, TARGET)
        assert np.isnan(model.test_on_batch(INPUTS, targets)).all()
        for method in (model.fit, model.train_on_batch):
            with pytest.raises(ValueError, match=f"below 50.*Received: the id {token_id}"):
                method(INPUTS, targets)


def test_row_weights_with_equal_numbers_of_rows_and_positions():
    inputs = {"encoder_token_ids": SOURCE, "decoder_token_ids": TARGET[:, :6]}
    models = [small() for _ in range(3)]
    rows = ROW_WEIGHTS[:, 0]
    losses = []
    for model, weights in zip(models, (rows, ROW_WEIGHTS, np.tile(ROW_WEIGHTS, (1, 6)))):
        model.set_weights(models[0].get_weights())
        losses.append(model.test_on_batch(inputs, TARGET[:, :6], weights))
    assert losses == pytest.approx(losses[:1] * 3)
