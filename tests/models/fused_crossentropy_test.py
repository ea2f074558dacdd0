"""Held to `LabelSmoothedCrossentropy` of whole logits."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.models.fused_crossentropy import fused_crossentropy, score_tokens
from keras_transformer.models.losses import LabelSmoothedCrossentropy, true_logits
from tests.helpers import assert_close, gradient, normal, to_numpy
from tests.training.distribution_test import run_together

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
def test_fused_losses_and_log_probabilities_equal_the_plain_ones(rows, smoothing):
    actual = scores(smoothing=smoothing, rows=rows)
    targets, logits = TARGETS[:rows], logits_of(SEQUENCE[:rows], EMBEDDINGS)
    log_probs = ops.log_softmax(logits)
    true = true_logits(targets, log_probs)
    expected = -(1 - smoothing) * true - smoothing * ops.mean(log_probs, axis=-1)
    assert_close(actual.losses, expected)
    assert_close(actual.log_probs, true)
    assert (to_numpy(actual.is_predicted) == (to_numpy(logits).argmax(-1) == targets)).all()


@pytest.mark.parametrize(
    "factor",
    [pytest.param(1, marks=pytest.mark.each_backend), 1e-6, 0],
)
@pytest.mark.parametrize("reduction", ["sum", "mean_with_sample_weight"])
def test_fused_gradients_equal_the_gradients_of_the_whole_loss(reduction, factor):
    weights = np.float32(factor) * WEIGHTS
    whole = LabelSmoothedCrossentropy(0.1, reduction)

    def fused_loss(sequence, embeddings):
        return 3 * whole(TARGETS, scores(sequence, embeddings, weights), weights)

    def whole_loss(sequence, embeddings):
        return 3 * whole(TARGETS, logits_of(sequence, embeddings), weights)

    def gradients(loss):
        yield gradient(lambda x: loss(x, EMBEDDINGS), SEQUENCE)
        yield gradient(lambda x: loss(SEQUENCE, x), EMBEDDINGS)

    for actual, expected in zip(gradients(fused_loss), gradients(whole_loss), strict=True):
        scale = np.abs(expected).max() or 1
        assert_close(actual / scale, expected / scale, 1e-6)


@pytest.mark.parametrize("rows", [1, 3])
def test_scores_without_gradients_are_the_same(rows):
    expected = scores(rows=rows)
    tensors = (ops.convert_to_tensor(x) for x in (SEQUENCE[:rows], EMBEDDINGS, TARGETS[:rows]))
    actual = score_tokens(*tensors, 0.1)
    assert_close(actual.losses, expected.losses, 1e-6)
    assert_close(actual.log_probs, expected.log_probs, 1e-6)
    assert (to_numpy(actual.is_predicted) == to_numpy(expected.is_predicted)).all()


def test_of_equal_logits_the_first_is_predicted():
    embeddings = EMBEDDINGS[[0, 1, 2, 1, 4]]  # tokens 1 and 3 are alike
    sequence, targets = np.tile(EMBEDDINGS[1], (1, 2, 1)), np.array([[1, 3]])
    largest = 9 * ops.convert_to_tensor(sequence)
    actual = score_tokens(largest, ops.convert_to_tensor(embeddings), targets, 0.1)
    assert to_numpy(actual.is_predicted).tolist() == [[True, False]]


def test_weights_of_both_signs_have_gradients():
    # As those of a policy gradient; here their sum is 0.
    weights = np.float32([[1, -2, 0.5, 0.5, 0], [0, 0, 0, 0, 0], [-1, 0, 0, 0, 1]])
    assert weights.sum() == 0
    whole = LabelSmoothedCrossentropy(0.1, "sum")
    actual = gradient(lambda x: whole(TARGETS, scores(x, weights=weights), weights), SEQUENCE)
    expected = gradient(lambda x: whole(TARGETS, logits_of(x, EMBEDDINGS), weights), SEQUENCE)
    assert np.abs(expected).max() > 0.5
    assert_close(actual, expected, 1e-5)


def test_padding_has_no_gradient():
    actual = gradient(
        lambda x: ops.sum(scores(x).losses * ops.convert_to_tensor(WEIGHTS)), SEQUENCE
    )
    assert not actual[1, 3:].any() and actual[1, :3].all()


def test_small_weights_in_float16():
    # A token's share of 25,000: its gradient is below what float16 can hold, the scaled loss's not.
    weights = np.float32(TARGETS != 0) / 25_000
    sequence, whole = ops.cast(SEQUENCE, "float16"), LabelSmoothedCrossentropy(0.1, "sum")

    def loss(embeddings):
        return 2**15 * whole(TARGETS, scores(sequence, embeddings, weights), weights)

    expected = gradient(
        lambda x: 2**15 / 25_000 * whole(TARGETS, logits_of(SEQUENCE, x)), EMBEDDINGS
    )
    actual = gradient(loss, EMBEDDINGS)
    np.testing.assert_allclose(actual, expected, rtol=0.02, atol=0.01 * np.abs(expected).max())


# In a process of its own, since the devices can only be chosen before JAX starts.
FOUR_DEVICES = """
import re
import jax
import keras
import numpy as np
from keras_transformer.training.distribution import choose_devices

choose_devices(4)

from keras_transformer.models.losses import LabelSmoothedCrossentropy
from tests.models.fused_crossentropy_test import fused_crossentropy, logits_of, normal

SEQUENCE, EMBEDDINGS = normal(8, 3, 6), normal(50, 6, seed=1)
TARGETS = np.random.default_rng(2).integers(0, 50, (8, 3)).astype("int32")
WEIGHTS = np.random.default_rng(3).random((8, 3)).astype("float32") * (TARGETS != 0)
distribution = keras.distribution.distribution()
whole = LabelSmoothedCrossentropy()

def loss(sequence, embeddings, targets, weights):
    return whole(targets, fused_crossentropy(sequence, embeddings, targets, weights, 0.1), weights)

def loss_of_logits(sequence, embeddings, targets, weights):
    return whole(targets, logits_of(sequence, embeddings), weights)

layouts = [distribution.get_data_layout(x.shape) for x in (SEQUENCE, TARGETS, WEIGHTS)]
sequence, targets, weights = (
    jax.device_put(x, layout.backend_layout)
    for x, layout in zip((SEQUENCE, TARGETS, WEIGHTS), layouts)
)
embeddings = keras.Variable(EMBEDDINGS).value  # on all devices
arguments = sequence, embeddings, targets, weights
program = jax.jit(jax.grad(loss, (0, 1))).lower(*arguments).compile()
for actual, expected in zip(program(*arguments), jax.grad(loss_of_logits, (0, 1))(*arguments)):
    np.testing.assert_allclose(actual, expected, atol=1e-6)

lines = program.as_text().splitlines()
communicates = r"(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(-start)?[(]"
# What is outside of a loop is in the program's entry computation, which is the last.
entry = next(i for i, line in enumerate(lines) if line.startswith("ENTRY"))
assert any(" while(" in line for line in lines[entry:])
assert not [line for line in lines[:entry] if re.search(communicates, line)]
reductions = [line for line in lines[entry:] if re.search(communicates, line)]
assert sum("f32[50,6]" in line for line in reductions) == 1, reductions
"""


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="a matter of JAX")
def test_devices_add_up_the_gradient_of_the_table_once(tmp_path):
    run_together(tmp_path / "log", ["-c", FOUR_DEVICES])
