"""Every row of Table 3 trains, at a sixteenth of its widths; the fused step is the plain one."""

import keras
import numpy as np
import pytest

from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import get_variant, scaled, variants
from keras_transformer.training.losses import LabelSmoothedCrossentropy
from keras_transformer.training.metrics import Perplexity, TokenAccuracy

compiles = pytest.mark.compiles


@pytest.mark.once  # under PyTorch, which need not compile each row
@pytest.mark.parametrize("name", variants)
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


class Plain(Transformer):
    """Without the fused step."""

    def _is_fused(self):
        return False


def trained(model_class, weights, reduction, metrics):
    keras.utils.set_random_seed(3)
    model = model_class(50, 1, 16, 32, 2, dropout=0.1)
    model.compile(
        keras.optimizers.SGD(0.002 if reduction == "sum" else 0.1),
        loss=LabelSmoothedCrossentropy(0.1, reduction),
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
        pytest.param(ROW_WEIGHTS, "mean_with_sample_weight", ["weighted_metrics"], marks=compiles),
        pytest.param(TOKEN_WEIGHTS, "mean_with_sample_weight", ["metrics"], marks=compiles),
        pytest.param(None, "sum", [], marks=compiles),
    ],
)
def test_fused_step_is_the_plain_one(weights, reduction, metrics):
    (plain, plain_logs), (fused, fused_logs) = (
        trained(model_class, weights, reduction, metrics) for model_class in (Plain, Transformer)
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
        pytest.param(
            {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}, marks=compiles
        ),
        pytest.param(
            {"loss": LabelSmoothedCrossentropy(), "metrics": ["sparse_categorical_accuracy"]},
            marks=compiles,
        ),
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
