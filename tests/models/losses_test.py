import math
import re

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.models.losses import LabelSmoothedCrossentropy
from tests.helpers import gradient, normal, to_numpy

LOGITS = 3 * normal(2, 4, 7)
TARGETS = np.array([[3, 1, 6, 2], [5, 4, 0, 0]], "int32")
SMOOTHINGS = pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.4])


def value(loss, *args):
    return float(to_numpy(loss(*args)))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_no_knowledge_costs_log_of_the_vocabulary(label_smoothing):
    loss = LabelSmoothedCrossentropy(label_smoothing)
    assert value(loss, TARGETS, np.zeros((2, 4, 7))) == pytest.approx(math.log(7))


@pytest.mark.each_backend
def test_smoothed_loss_equals_a_value_worked_out_by_hand():
    # Three tokens, ε = 0.3: the true one has weight 0.7 + 0.1, each other one 0.1.
    # Logits log 6, log 3, log 1: the probabilities are 0.6, 0.3, 0.1.
    logits = np.log([[[6.0, 3.0, 1.0]]])
    expected = -0.1 * math.log(0.6) - 0.8 * math.log(0.3) - 0.1 * math.log(0.1)
    loss = LabelSmoothedCrossentropy(0.3)
    assert value(loss, np.array([[1]]), logits) == pytest.approx(expected, rel=1e-6)


def torch_loss(logits, label_smoothing, reduction="mean"):
    torch = pytest.importorskip("torch")
    logits = torch.tensor(logits, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1),
        torch.tensor(TARGETS, dtype=torch.int64).flatten(),
        label_smoothing=label_smoothing,
        ignore_index=0,
        reduction=reduction,
    )
    return logits, loss


@SMOOTHINGS
@pytest.mark.parametrize(
    ("reduction", "torch_reduction"),
    [
        pytest.param("mean_with_sample_weight", "mean", marks=pytest.mark.each_backend),
        ("sum", "sum"),
    ],
)
def test_value_and_gradient_equal_torch(label_smoothing, reduction, torch_reduction):
    logits, expected = torch_loss(LOGITS, label_smoothing, torch_reduction)
    expected.backward()
    loss = LabelSmoothedCrossentropy(label_smoothing, reduction)
    assert value(loss, TARGETS, LOGITS) == pytest.approx(float(expected.detach()), rel=1e-5)
    actual = gradient(lambda x: loss(TARGETS, x), LOGITS)
    np.testing.assert_allclose(actual, logits.grad.numpy(), atol=1e-6)
    assert not actual[1, 2:].any()  # padding


@SMOOTHINGS
def test_weights_equal_torch(label_smoothing):
    weights = np.array([[1.0, 0.5, 0.0, 2.0], [1.0, 0.0, 3.0, 0.0]], "float32")
    torch = pytest.importorskip("torch")
    tokens = torch.nn.functional.cross_entropy(
        torch.tensor(LOGITS).flatten(0, 1),
        torch.tensor(TARGETS, dtype=torch.int64).flatten(),
        label_smoothing=label_smoothing,
        reduction="none",
    )
    of_tokens = weights * (TARGETS != 0)  # not the 3.0 of padding
    weighted = float((tokens * torch.tensor(of_tokens).flatten()).sum())
    loss = LabelSmoothedCrossentropy(label_smoothing)
    assert value(loss, TARGETS, LOGITS, weights) == pytest.approx(weighted / 4.5, rel=1e-5)
    loss = LabelSmoothedCrossentropy(label_smoothing, reduction="sum")
    assert value(loss, TARGETS, LOGITS, weights) == pytest.approx(weighted, rel=1e-5)


def test_padding_is_left_out_without_weights():
    loss = LabelSmoothedCrossentropy()
    padded = LOGITS.copy()
    padded[1, 2:] = normal(2, 7, seed=5)
    expected = value(loss, TARGETS, LOGITS)
    assert value(loss, TARGETS, padded) == pytest.approx(expected, rel=1e-6)
    assert value(loss, TARGETS, LOGITS, np.float32(TARGETS != 0)) == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(), (4,), (4, 1), (4, 4), (4, 4, 1)], ids=str)
def test_weights_of_any_rank_multiply_the_mask(shape):
    # As many rows as positions: weights of rank 1 are of rows all the same.
    targets, logits = np.array([*TARGETS, *TARGETS[::-1]]), 3 * normal(4, 4, 7, seed=6)
    weights = np.random.default_rng(7).random(shape).astype("float32")
    of_tokens = weights[:, None] if len(shape) == 1 else weights
    of_tokens = np.broadcast_to(of_tokens[..., 0] if len(shape) == 3 else of_tokens, (4, 4))
    tokens = [
        value(
            LabelSmoothedCrossentropy(), targets[i : i + 1, j : j + 1], logits[i : i + 1, j:][:, :1]
        )
        for i, j in np.ndindex(4, 4)
    ]
    expected = np.average(np.reshape(tokens, (4, 4)), weights=of_tokens * (targets != 0))
    loss = LabelSmoothedCrossentropy()
    assert value(loss, targets, logits, weights) == pytest.approx(expected, rel=1e-5)


def test_mean_is_over_tokens_not_sentences():
    loss = LabelSmoothedCrossentropy()
    sentences = [
        value(loss, TARGETS[:1], LOGITS[:1]),  # 4 tokens
        value(loss, TARGETS[1:], LOGITS[1:]),  # 2 tokens
    ]
    expected = (4 * sentences[0] + 2 * sentences[1]) / 6
    assert value(loss, TARGETS, LOGITS) == pytest.approx(expected, rel=1e-5)


def test_parts_of_a_batch_add_up():
    # What replicas do: weights over the whole batch sum to 1, and the parts are added.
    weights = np.float32(TARGETS != 0) / 6
    loss = LabelSmoothedCrossentropy(reduction="sum")
    parts = [value(loss, TARGETS[i : i + 1], LOGITS[i : i + 1], weights[i : i + 1]) for i in (0, 1)]
    expected = value(LabelSmoothedCrossentropy(), TARGETS, LOGITS)
    assert sum(parts) == pytest.approx(expected, rel=1e-5)


def test_a_batch_of_padding_has_loss_0():
    loss, padding = LabelSmoothedCrossentropy(), np.zeros((2, 4), "int32")
    assert value(loss, padding, LOGITS) == 0
    assert not gradient(lambda x: loss(padding, x), LOGITS).any()


@pytest.mark.each_backend
@pytest.mark.parametrize("ignored", [-100, -1, 0])
def test_negative_targets_are_padding(ignored):
    # The ids in their places would be those of tokens: 100 is the sure one.
    logits = np.zeros((1, 3, 200), "float32")
    logits[0, 2, 100] = 10
    loss = LabelSmoothedCrossentropy(0.0)
    assert value(loss, np.array([[5, 6, ignored]]), logits) == pytest.approx(math.log(200))
    weights = np.array([[1.0, 3.0, 5.0]])
    assert value(loss, np.array([[5, 6, ignored]]), logits, weights) == pytest.approx(math.log(200))


@pytest.mark.each_backend
def test_the_loss_of_an_id_outside_the_vocabulary_is_nan():
    for token_id in (7, 100):
        targets = TARGETS.copy()
        targets[0, 1] = token_id
        assert math.isnan(value(LabelSmoothedCrossentropy(), targets, LOGITS))


@pytest.mark.parametrize(
    "shape", [(2, 3), (2, 1), (1, 4), (2,), (8,), (2, 4, 1), (2, 4, 7)], ids=str
)
def test_targets_of_another_shape_are_refused(shape):
    words = re.escape(f"Expected: targets of shape (2, 4). Received: targets of shape {shape}")
    with pytest.raises(ValueError, match=words):
        LabelSmoothedCrossentropy()(np.ones(shape, "int32"), LOGITS)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="other shapes are all known")
@pytest.mark.each_backend
@pytest.mark.parametrize("jit_compile", [False, True])
def test_targets_of_another_dynamic_shape_are_refused(jit_compile):
    import tensorflow as tf

    loss = LabelSmoothedCrossentropy()
    signature = [tf.TensorSpec((None, None), "int32"), tf.TensorSpec((None, None, 7), "float32")]
    program = tf.function(loss, jit_compile=jit_compile, input_signature=signature)
    expected = value(loss, TARGETS, LOGITS)
    assert float(program(TARGETS, LOGITS)) == pytest.approx(expected, rel=1e-6)
    for shape in ((2, 3), (2, 1), (1, 4), (4, 2)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="targets_of_another_shape"):
            program(np.ones(shape, "int32"), LOGITS)


def test_a_mask_of_the_logits_changes_nothing():
    # The weights of targets tell what is padding.
    logits = ops.convert_to_tensor(LOGITS)
    keras.src.backend.set_keras_mask(logits, ops.convert_to_tensor(np.eye(2, 4, dtype="bool")))
    expected = value(LabelSmoothedCrossentropy(), TARGETS, LOGITS)
    assert value(LabelSmoothedCrossentropy(), TARGETS, logits) == pytest.approx(expected, rel=1e-6)


def test_large_logits_give_finite_losses():
    logits = np.array([[[0.0, 1e4, -1e4]]], "float32")
    loss = LabelSmoothedCrossentropy(0.0)
    assert value(loss, np.array([[1]]), logits) == 0
    assert value(loss, np.array([[2]]), logits) == pytest.approx(2e4)


def test_low_precision_logits_are_computed_in_float32():
    logits = ops.cast(LOGITS, "bfloat16")
    loss = LabelSmoothedCrossentropy()
    assert keras.backend.standardize_dtype(loss(TARGETS, logits).dtype) == "float32"
    expected = value(loss, TARGETS, ops.cast(logits, "float32"))
    assert value(loss, TARGETS, logits) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("label_smoothing", [-0.1, 1, 1.5, float("nan")])
def test_label_smoothing_outside_its_range_is_refused(label_smoothing):
    with pytest.raises(ValueError, match=f"`label_smoothing` must .*={label_smoothing}"):
        LabelSmoothedCrossentropy(label_smoothing)


def test_a_config_restores_the_object():
    loss = LabelSmoothedCrossentropy(0.25, reduction="sum", name="loss")
    copy = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(copy) is LabelSmoothedCrossentropy
    assert copy.get_config() == loss.get_config()
    assert value(copy, TARGETS, LOGITS) == value(loss, TARGETS, LOGITS)
