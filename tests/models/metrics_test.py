import math

import keras
import numpy as np
import pytest

from keras_transformer.models.metrics import Perplexity, TokenAccuracy
from tests.helpers import normal, to_numpy

# Two sentences of three tokens and one of one, with padding.
TARGETS = np.array([[1, 2, 3], [2, 0, 0]], "int32")
PREDICTIONS = np.array([[1, 2, 1], [3, 0, 0]])  # two of four are right
PROBABILITIES = np.array([[1 / 2, 1 / 4, 1 / 8], [1 / 16, 1, 1]])  # of the true tokens


def result(metric):
    return float(to_numpy(metric.result()))


def logits_that_predict(token_ids, vocabulary_size=4):
    return 2 * np.eye(vocabulary_size, dtype="float32")[token_ids]


def logits_with_probabilities(targets, probabilities, vocabulary_size=4):
    others = (1 - probabilities[..., None]) / (vocabulary_size - 1) + 1e-30
    is_target = np.arange(vocabulary_size) == targets[..., None]
    # Any constant may be added to logits.
    return np.log(np.where(is_target, probabilities[..., None], others)).astype("float32") + 5


@pytest.mark.each_backend
def test_accuracy_by_hand():
    metric = TokenAccuracy()
    metric.update_state(TARGETS, logits_that_predict(PREDICTIONS))
    assert result(metric) == pytest.approx(2 / 4)


@pytest.mark.each_backend
def test_perplexity_by_hand():
    metric = Perplexity()
    metric.update_state(TARGETS, logits_with_probabilities(TARGETS, PROBABILITIES))
    # The mean of 1, 2, 3 and 4 bits.
    assert result(metric) == pytest.approx(2**2.5, rel=1e-5)


def test_perplexity_of_no_knowledge_is_the_vocabulary_size():
    metric = Perplexity()
    metric.update_state(TARGETS, np.zeros((2, 3, 50)))
    assert result(metric) == pytest.approx(50, rel=1e-5)


@pytest.mark.parametrize("metric_class", [TokenAccuracy, Perplexity])
def test_padding_is_left_out(metric_class):
    results = []
    for width in (0, 5):
        metric = metric_class()
        logits = np.pad(logits_that_predict(PREDICTIONS), [(0, 0), (0, width), (0, 0)])
        metric.update_state(np.pad(TARGETS, [(0, 0), (0, width)]), logits)
        results.append(result(metric))
    assert results[0] == pytest.approx(results[1], rel=1e-6)


@pytest.mark.parametrize("metric_class", [TokenAccuracy, Perplexity])
def test_negative_targets_are_padding(metric_class):
    results = []
    for padding in (0, -1, -100):
        metric = metric_class()
        metric.update_state(np.where(TARGETS, TARGETS, padding), logits_that_predict(PREDICTIONS))
        results.append(result(metric))
    assert results == pytest.approx(results[:1] * 3, rel=1e-6)


@pytest.mark.each_backend
@pytest.mark.parametrize("metric_class", [TokenAccuracy, Perplexity])
def test_an_id_outside_the_vocabulary_gives_nan(metric_class):
    metric = metric_class()
    metric.update_state(TARGETS + 3 * (TARGETS == 3), logits_that_predict(PREDICTIONS))
    assert math.isnan(result(metric))


@pytest.mark.parametrize("metric_class", [TokenAccuracy, Perplexity])
def test_targets_of_another_shape_are_refused(metric_class):
    with pytest.raises(ValueError, match=r"Expected: .*\(2, 3\). Received: .*\(2, 1\)"):
        metric_class().update_state(TARGETS[:, :1], logits_that_predict(PREDICTIONS))


def test_weights_are_honoured():
    weights = np.array([[1.0, 0.0, 0.5], [2.0, 0.0, 0.5]])
    accuracy = TokenAccuracy()
    accuracy.update_state(TARGETS, logits_that_predict(PREDICTIONS), weights)
    assert result(accuracy) == pytest.approx(1 / 3.5)  # without the 0.5 of padding
    perplexity = Perplexity()
    logits = logits_with_probabilities(TARGETS, PROBABILITIES)
    perplexity.update_state(TARGETS, logits, weights)
    assert result(perplexity) == pytest.approx(2 ** ((1 + 0.5 * 3 + 2 * 4) / 3.5), rel=1e-5)


@pytest.mark.parametrize("metric_class", [TokenAccuracy, Perplexity])
@pytest.mark.parametrize("lengths", [(3, 3), (2, 9)])
def test_mean_is_over_the_tokens_of_all_batches(metric_class, lengths):
    # Batches of few and of many tokens, padded to equal or different lengths: every token counts
    # the same.
    batches = []
    for seed, (length, real) in enumerate(zip(lengths, (1, 3))):
        targets = np.zeros((2, length), "int32")
        targets[:, :real] = np.random.default_rng(seed).integers(1, 4, (2, real))
        batches.append((targets, normal(2, length, 4, seed=seed)))
    metric = metric_class()
    for batch in batches:
        metric.update_state(*batch)
    targets = np.concatenate([targets[targets != 0] for targets, _ in batches])
    logits = np.concatenate([logits[targets != 0] for targets, logits in batches])
    if metric_class is TokenAccuracy:
        expected = np.mean(logits.argmax(-1) == targets)
    else:
        log_normalizers = np.log(np.exp(logits).sum(-1))
        expected = np.exp(np.mean(log_normalizers - logits[np.arange(len(targets)), targets]))
    assert result(metric) == pytest.approx(expected, rel=1e-5)


def test_of_equal_logits_the_first_is_predicted():
    # Tokens 1 and 3 have the largest logit, as rounding to bfloat16 makes of nearly equal ones.
    logits = keras.ops.cast([[[0.0, 2.001, 1.0, 2.002]] * 3], "bfloat16")
    metric = TokenAccuracy()
    metric.update_state(np.array([[1, 3, 2]]), logits)
    assert result(metric) == pytest.approx(1 / 3)
    metric.reset_state()
    metric.update_state(np.array([[1, 3]]), np.full((1, 2, 4), np.nan))
    assert result(metric) == 0


def test_perplexity_forgets_earlier_batches_when_it_is_reset():
    metric = Perplexity()
    metric.update_state(TARGETS, normal(2, 3, 4))
    metric.reset_state()
    metric.update_state(TARGETS, np.zeros((2, 3, 4)))
    assert result(metric) == pytest.approx(4, rel=1e-5)


def test_low_precision_logits():
    logits = keras.ops.cast(normal(2, 3, 4), "bfloat16")
    results = []
    for dtype in ("bfloat16", "float32"):
        metric = Perplexity()
        metric.update_state(TARGETS, keras.ops.cast(logits, dtype))
        results.append(math.log(result(metric)))
    assert results[0] == pytest.approx(results[1], rel=1e-6)


@pytest.mark.parametrize("metric_class", [TokenAccuracy, Perplexity])
def test_a_config_restores_the_object(metric_class):
    metric = metric_class(name="mine")
    copy = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(copy) is metric_class
    assert copy.get_config() == metric.get_config()
