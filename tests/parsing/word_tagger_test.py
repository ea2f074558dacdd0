"""The tagger's log-probabilities and losses, worked out by hand."""

import keras
import numpy as np
import pytest

from keras_transformer.parsing import WordTagger
from tests.helpers import assert_close, normal

LEAVES, SIZE = [3, 5, 6], 8
LOGITS = normal(2, 4, SIZE, seed=1)


def log_probs():
    exponentials = np.exp(LOGITS[..., LEAVES].astype("float64"))
    return np.log(exponentials / exponentials.sum(-1, keepdims=True))


@pytest.mark.each_backend
def test_tags_are_a_softmax_over_the_leaves():
    tagger = WordTagger([6, 3, 5])
    assert_close(tagger(LOGITS), log_probs())
    assert not tagger.weights
    assert tagger.compute_output_shape(LOGITS.shape) == (2, 4, 3)


def test_only_leaves_have_a_loss():
    tagger = WordTagger(LEAVES, loss_weight=0.5)
    y_true = np.array([[1, 3, 6, 0], [5, 5, 2, 4]])
    expected = np.zeros((2, 4))
    for place, tag in (((0, 1), 0), ((0, 2), 2), ((1, 0), 1), ((1, 1), 1)):
        expected[place] = -0.5 * log_probs()[place][tag]
    assert_close(tagger.losses(tagger(LOGITS), y_true), expected)


@pytest.mark.once
def test_a_tagger_survives_serialization():
    layer = WordTagger(LEAVES, 0.5, name="mine")
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    assert copy.get_config() == layer.get_config() and copy.loss_weight == 0.5


@pytest.mark.once
def test_a_loss_weight_of_0_is_an_error():
    with pytest.raises(ValueError, match="`loss_weight` must be a positive number.*loss_weight=0"):
        WordTagger(LEAVES, loss_weight=0)
