"""The next word's vector, and the tags of words, worked out by hand."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.parsing import DeterministicAttention, WordTagger
from tests.helpers import assert_close, gradient, normal, to_numpy

# 5 and 6 begin words, 7 and 8 continue them. 3 and 4 are leaves.
LAYER = {"word_start_ids": [6, 5], "leaf_ids": [3, 4]}
SOURCE = np.array([[5, 7, 8, 6, 2, 0, 0], [7, 5, 6, 8, 5, 7, 2]], "int32")
TARGET = np.array([[1, 9, 3, 9, 4, 10], [1, 3, 4, 3, 3, 9]], "int32")
WORDS = [
    [[0, 1, 2], [3], [4]],  # the words' tokens, then the end token
    [[1], [2, 3], [4, 5], [6]],
]
NEXT = [[0, 0, 1, 1, 2, 2], [0, 1, 2, 3, 4, 4]]


def expected(sequence):
    result = np.zeros((2, 6, 4))
    for row in range(2):
        for position, word in enumerate(NEXT[row]):
            if word < len(WORDS[row]):
                result[row, position] = sequence[row, WORDS[row][word]].mean(axis=0)
    return result


@pytest.mark.each_backend
def test_output_is_the_mean_over_the_tokens_of_the_next_word():
    sequence = normal(2, 7, 4)
    layer = DeterministicAttention(**LAYER)
    assert_close(layer(sequence, SOURCE, TARGET), expected(sequence))
    assert_close(layer.next_words(TARGET), NEXT)
    assert not layer.weights


@pytest.mark.each_backend
def test_steps_equal_the_whole_target():
    sequence, layer = normal(2, 7, 4), DeterministicAttention(**LAYER)
    words = layer.word_vectors(sequence, SOURCE)
    steps = [layer.vectors_at(words, np.array(NEXT)[:, i : i + 1]) for i in range(6)]
    assert_close(ops.concatenate(steps, axis=1), layer(sequence, SOURCE, TARGET), atol=0)


def test_ids_above_all_given_ids_are_not_leaves():
    layer = DeterministicAttention(**LAYER)
    assert to_numpy(layer.is_leaf(np.array([[2, 3, 4, 5, 99_999]]))).tolist() == [
        [False, True, True, False, False]
    ]


def test_padding_has_zero_vectors():
    layer = DeterministicAttention(**LAYER)
    nothing = layer(normal(2, 7, 4), np.zeros_like(SOURCE), TARGET)
    assert_close(nothing, np.zeros((2, 6, 4)), atol=0)


def test_the_vector_after_the_last_word_is_zero():
    # As many words as tokens, and more leaves than words.
    source, target = np.array([[5, 6]], "int32"), np.array([[1, 3, 3, 3, 4]], "int32")
    sequence, zeros = normal(1, 2, 4), np.zeros(4)
    vectors = to_numpy(DeterministicAttention(**LAYER)(sequence, source, target))
    assert_close(vectors[0], [*sequence[0], zeros, zeros, zeros])


def test_gradient_equals_the_one_worked_out_by_hand():
    layer, weights = DeterministicAttention(**LAYER), normal(2, 6, 4, seed=1)

    def total(x):
        return ops.sum(layer(x, SOURCE, TARGET) * ops.convert_to_tensor(weights))

    by_hand = np.zeros((2, 7, 4))
    for row in range(2):
        for position, word in enumerate(NEXT[row]):
            if word < len(WORDS[row]):
                tokens = WORDS[row][word]
                by_hand[row, tokens] += weights[row, position] / len(tokens)
    assert_close(gradient(total, normal(2, 7, 4)), by_hand)


@pytest.mark.once
def test_a_layer_survives_serialization():
    layer = DeterministicAttention(**LAYER, end_id=9, dtype="bfloat16", name="mine")
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    assert copy.get_config() == layer.get_config()
    assert copy.word_start_ids == [5, 6] and copy.end_id == 9


@pytest.mark.once
@pytest.mark.parametrize("name", ["word_start_ids", "leaf_ids"])
@pytest.mark.parametrize("wrong", [[], [-1], [0.5]])
def test_invalid_ids_are_errors(name, wrong):
    with pytest.raises(ValueError, match=f"`{name}` must be one or more token ids"):
        DeterministicAttention(**{**LAYER, name: wrong})


# The tagger

TAGS, SIZE = [3, 5, 6], 8
LOGITS = normal(2, 4, SIZE, seed=1)


def log_probs():
    exponentials = np.exp(LOGITS[..., TAGS].astype("float64"))
    return np.log(exponentials / exponentials.sum(-1, keepdims=True))


@pytest.mark.each_backend
def test_tags_are_a_softmax_over_the_leaves():
    tagger = WordTagger([6, 3, 5])
    assert_close(tagger(LOGITS), log_probs())
    assert not tagger.weights
    assert tagger.compute_output_shape(LOGITS.shape) == (2, 4, 3)


def test_only_leaves_have_a_loss():
    tagger = WordTagger(TAGS, loss_weight=0.5)
    y_true = np.array([[1, 3, 6, 0], [5, 5, 2, 4]])
    expected = np.zeros((2, 4))
    for place, tag in (((0, 1), 0), ((0, 2), 2), ((1, 0), 1), ((1, 1), 1)):
        expected[place] = -0.5 * log_probs()[place][tag]
    assert_close(tagger.losses(tagger(LOGITS), y_true), expected)


@pytest.mark.once
def test_a_tagger_survives_serialization():
    layer = WordTagger(TAGS, 0.5, name="mine")
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    assert copy.get_config() == layer.get_config() and copy.loss_weight == 0.5


@pytest.mark.once
def test_a_loss_weight_of_0_is_an_error():
    with pytest.raises(ValueError, match="`loss_weight` must be a positive number.*loss_weight=0"):
        WordTagger(TAGS, loss_weight=0)
