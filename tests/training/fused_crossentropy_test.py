"""Held to `LabelSmoothedCrossentropy` of whole logits."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.models.training_step import Reduction
from keras_transformer.training.fused_crossentropy import fused_crossentropy
from keras_transformer.training.losses import LabelSmoothedCrossentropy, logit_of
from tests.helpers import assert_close, gradient, normal, to_numpy

SEQUENCE, EMBEDDINGS = normal(3, 5, 4), normal(11, 4, seed=1)
TARGETS = np.random.default_rng(2).integers(1, 11, (3, 5)).astype("int32")
TARGETS[1, 3:] = 0
WEIGHTS = np.random.default_rng(3).random((3, 5)).astype("float32") * (TARGETS != 0)


def scores(sequence=SEQUENCE, embeddings=EMBEDDINGS, weights=WEIGHTS, smoothing=0.1, rows=3):
    tensors = [ops.convert_to_tensor(x) for x in (sequence, embeddings, TARGETS, weights)]
    return fused_crossentropy(
        *(tensors[0][:rows], tensors[1]), *(x[:rows] for x in tensors[2:]), smoothing
    )


def logits_of(sequence, embeddings):
    return ops.matmul(ops.convert_to_tensor(sequence), ops.transpose(embeddings))


@pytest.mark.parametrize("rows", [1, 2, 3])  # 5 to 15 tokens in 8 parts
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_scores(rows, smoothing):
    actual = scores(smoothing=smoothing, rows=rows)
    targets, logits = TARGETS[:rows], logits_of(SEQUENCE[:rows], EMBEDDINGS)
    log_probs = ops.log_softmax(logits)
    true = logit_of(targets, log_probs)
    expected = -(1 - smoothing) * true - smoothing * ops.mean(log_probs, axis=-1)
    assert_close(actual.losses, expected)
    assert_close(actual.log_probs, true)
    assert (to_numpy(actual.is_largest) == (to_numpy(logits).argmax(-1) == targets)).all()


@pytest.mark.parametrize(
    "factor",
    [
        1,
        pytest.param(1e-6, marks=pytest.mark.compiles),
        pytest.param(0, marks=pytest.mark.compiles),
    ],
)
@pytest.mark.parametrize("reduction", ["sum", "mean_with_sample_weight"])
def test_gradients(reduction, factor):
    weights = np.float32(factor) * WEIGHTS
    whole = LabelSmoothedCrossentropy(0.1, reduction)

    def fused_loss(sequence, embeddings):
        losses = scores(sequence, embeddings, weights).losses
        return 3 * Reduction(reduction=reduction)(TARGETS, losses, weights)

    def whole_loss(sequence, embeddings):
        return 3 * whole(TARGETS, logits_of(sequence, embeddings), weights)

    def gradients(loss):
        yield gradient(lambda x: loss(x, EMBEDDINGS), SEQUENCE)
        yield gradient(lambda x: loss(SEQUENCE, x), EMBEDDINGS)

    for actual, expected in zip(gradients(fused_loss), gradients(whole_loss), strict=True):
        scale = np.abs(expected).max() or 1
        assert_close(actual / scale, expected / scale, 1e-6)


def test_padding_has_no_gradient():
    actual = gradient(
        lambda x: ops.sum(scores(x).losses * ops.convert_to_tensor(WEIGHTS)), SEQUENCE
    )
    assert not actual[1, 3:].any() and actual[1, :3].all()


def test_small_weights_in_float16():
    # A token's share of 25,000: its gradient is below what float16 can hold, the scaled loss's not.
    weights = np.full_like(WEIGHTS, 1 / 25_000)
    sequence = ops.cast(SEQUENCE, "float16")

    def loss(embeddings):
        return 2**15 * ops.sum(scores(sequence, embeddings, weights).losses) / 25_000

    expected = gradient(
        lambda x: (
            2**15
            / 25_000
            * ops.sum(
                LabelSmoothedCrossentropy(0.1, "sum")(
                    TARGETS, logits_of(SEQUENCE, x), np.ones((3, 5))
                )
            )
        ),
        EMBEDDINGS,
    )
    actual = gradient(loss, EMBEDDINGS)
    np.testing.assert_allclose(actual, expected, rtol=0.02, atol=0.01 * np.abs(expected).max())
