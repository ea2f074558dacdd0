import keras
import numpy as np
import pytest

from keras_transformer.convert import SSRU
from keras_transformer.layers.multi_head_attention import recorded_attention
from tests.helpers import assert_close, normal, randomize, to_numpy

INPUTS = normal(2, 7, 6)


def ssru():
    layer = SSRU()
    layer.build((None, None, 6))
    return randomize(layer)


def states(layer, inputs):
    """The formulas, one position after the other."""
    kernel, gate, bias = map(
        to_numpy, (layer.input_dense.kernel, layer.forget_dense.kernel, layer.forget_dense.bias)
    )
    state, outputs = np.zeros_like(inputs[:, 0]), []
    for x in inputs.swapaxes(0, 1):
        forget = 1 / (1 + np.exp(-(x @ gate + bias)))
        state = forget * state + (1 - forget) * (x @ kernel)
        outputs.append(state)
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("length", [1, 2, pytest.param(7, marks=pytest.mark.each_backend)])
def test_all_positions_follow_the_recurrence(length):
    layer, inputs = ssru(), INPUTS[:, :length]
    assert_close(layer(inputs), np.maximum(states(layer, inputs), 0), atol=1e-5)


@pytest.mark.each_backend
def test_the_length_may_be_unknown_when_the_program_is_made():
    layer = ssru()
    model = keras.Sequential([keras.Input((None, 6)), layer])
    expected = np.maximum(states(layer, INPUTS), 0)
    assert_close(model.predict(INPUTS, verbose=0), expected, atol=1e-5)


@pytest.mark.each_backend
def test_step_by_step_equals_all_at_once():
    layer = ssru()
    expected, cache = layer(INPUTS), layer.empty_cache(2, 9)
    for start, stop in ((0, 3), (3, 4), (4, 7)):
        outputs, cache = layer(INPUTS[:, start:stop], cache=cache, cache_index=start)
        assert_close(outputs, expected[:, start:stop], atol=1e-5)


@pytest.mark.each_backend
def test_each_hypothesis_continues_the_last_position_that_its_mask_allows():
    layer, cache = ssru(), None
    cache = layer.empty_cache(1, 6)
    steps = INPUTS[:1, :6].reshape(1, 3, 2, 6)  # three steps of two hypotheses
    # The second hypothesis of step 1 continues the first of step 0, and so on.
    parents = [[0, 0], [1, 0]]
    mask = np.zeros((1, 2, 6), bool)
    for step in range(3):
        if step:
            mask = mask[:, parents[step - 1]]
        mask[0, [0, 1], [2 * step, 2 * step + 1]] = True
        outputs, cache = layer(
            steps[:, step], cache=cache, cache_index=2 * step, attention_mask=mask
        )
    paths = [[steps[0, 0, 0], steps[0, 1, 1], steps[0, 2, 0]]]
    paths += [[steps[0, 0, 0], steps[0, 1, 0], steps[0, 2, 1]]]
    expected = np.maximum(states(layer, np.array(paths)), 0)[:, -1]
    assert_close(outputs[0], expected, atol=1e-5)


def test_recorded_weights_give_the_state_of_each_channel_on_average():
    layer = ssru()
    layer.forget_dense.kernel.assign(np.zeros((6, 6)))
    layer.forget_dense.bias.assign(np.zeros(6))  # all gates are 1/2
    with recorded_attention([layer]) as recorded:
        layer(INPUTS[:, :3])
    (weights,) = recorded[layer]
    expected = [[0.5, 0, 0], [0.25, 0.5, 0], [0.125, 0.25, 0.5]]
    assert_close(weights, np.broadcast_to(expected, (2, 1, 3, 3)), atol=1e-6)
