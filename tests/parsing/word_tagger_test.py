"""Logits of trees and tags together, worked out by hand."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.parsing import WordTagger
from tests.helpers import assert_close, gradient, normal, to_numpy

LEAVES, UNTAGGED, SIZE = [3, 5, 6], 5, 8
LOGITS, OF_WORDS = normal(2, 4, SIZE), normal(2, 4, SIZE, seed=1)


def softmax(x):
    exponentials = np.exp(x.astype("float64"))
    return exponentials / exponentials.sum(-1, keepdims=True)


def tags():
    """The probabilities of the leaves as tags."""
    return softmax(OF_WORDS[..., LEAVES])


@pytest.mark.each_backend
def test_a_token_is_a_leaf_times_its_tag():
    # What the decoder has to choose from: all tokens but the leaves, and the one for all leaves.
    others = [0, 1, 2, 4, 7]
    of_decoder = softmax(LOGITS[..., [*others, UNTAGGED]])
    expected = np.zeros((2, 4, SIZE))
    expected[..., others] = of_decoder[..., :-1]
    expected[..., LEAVES] = of_decoder[..., -1:] * tags()
    tagger = WordTagger(LEAVES, UNTAGGED)
    logits = tagger(LOGITS, tagger.log_probs(OF_WORDS))
    assert_close(softmax(to_numpy(logits)), expected)
    assert_close(softmax(to_numpy(tagger.without_tags(LOGITS)))[..., UNTAGGED], of_decoder[..., -1])
    assert not tagger.weights


def test_factors_are_of_the_same_logits():
    sequence, embeddings = normal(2, 4, 3), normal(SIZE, 3, seed=1)
    tagger = WordTagger(LEAVES, UNTAGGED, loss_weight=0.5)
    log_probs = tagger.log_probs(OF_WORDS)
    left, right = tagger.factors(*map(ops.convert_to_tensor, (sequence, embeddings)), log_probs)
    expected = tagger(sequence @ embeddings.T, log_probs)
    assert_close(to_numpy(left) @ to_numpy(right).T, expected)


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_the_weight_is_that_of_the_gradient(weight):
    """Of the cross-entropy of the true leaf 6, the gradient with respect to its word's logits."""
    tagger = WordTagger(LEAVES, UNTAGGED, loss_weight=weight)

    def loss(of_words):
        logits = tagger(ops.convert_to_tensor(LOGITS), tagger.log_probs(of_words))
        return -ops.sum(ops.log_softmax(logits, axis=-1)[..., 6])

    expected = np.zeros_like(OF_WORDS)
    expected[..., LEAVES] = weight * (tags() - [0, 0, 1])
    assert_close(gradient(loss, OF_WORDS), expected)
    assert_close(loss(OF_WORDS), gradientless_loss(), atol=1e-4)


def gradientless_loss():
    decoder = softmax(LOGITS[..., [0, 1, 2, 4, 7, UNTAGGED]])[..., -1]
    return -(np.log(decoder) + np.log(tags()[..., 2])).sum()


def test_a_token_that_is_no_leaf_tells_nothing_of_tags():
    tagger = WordTagger(LEAVES, UNTAGGED)

    def loss(of_words):
        logits = tagger(ops.convert_to_tensor(LOGITS), tagger.log_probs(of_words))
        return -ops.sum(ops.log_softmax(logits, axis=-1)[..., 4])

    assert_close(gradient(loss, OF_WORDS), np.zeros_like(OF_WORDS), atol=1e-6)


def test_losses_are_those_of_leaves():
    tagger = WordTagger(LEAVES, loss_weight=0.5)
    y_true = np.array([[1, 3, 6, 0], [5, 5, 2, 4]])
    expected = np.zeros((2, 4))
    for place, tag in (((0, 1), 0), ((0, 2), 2), ((1, 0), 1), ((1, 1), 1)):
        expected[place] = -0.5 * np.log(tags()[place][tag])
    assert_close(tagger.losses(tagger.log_probs(OF_WORDS), y_true), expected)


def test_the_decoder_reads_one_leaf_for_all():
    token_ids = np.array([[1, 3, 6, 99], [5, 4, 0, 7]], "int32")
    read = to_numpy(WordTagger(LEAVES, UNTAGGED).untagged(token_ids))
    assert read.tolist() == [[1, 5, 5, 99], [5, 4, 0, 7]] and read.dtype == "int32"
    assert WordTagger(LEAVES).untagged(token_ids) is token_ids


@pytest.mark.once
def test_a_tagger_survives_serialization():
    layer = WordTagger(LEAVES, UNTAGGED, 0.5, name="mine")
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    assert copy.get_config() == layer.get_config() and copy.loss_weight == 0.5


@pytest.mark.once
def test_wrong_leaves_and_loss_weights_are_refused():
    with pytest.raises(ValueError, match="one of `leaf_ids`.*untagged_leaf_id=4"):
        WordTagger(LEAVES, 4)
    with pytest.raises(ValueError, match="`loss_weight` must be a positive number.*loss_weight=0"):
        WordTagger(LEAVES, 5, loss_weight=0)
