import numpy as np
import pytest

from keras_transformer.layers import FeedForward
from tests.helpers import assert_close, normal, randomize, to_numpy


def feed_forward(*args, hidden_dim=4, **kwargs):
    layer = FeedForward(*args, **kwargs)
    layer.build((None, None, hidden_dim))
    return randomize(layer)


@pytest.mark.each_backend
def test_outputs_equal_values_worked_out_by_hand():
    layer = feed_forward(2, hidden_dim=1)
    layer.intermediate_dense.kernel.assign([[1, -2]])
    layer.intermediate_dense.bias.assign([1, 3])
    layer.output_dense.kernel.assign([[10], [1]])
    layer.output_dense.bias.assign([0.5])
    # x = 1:  relu(2, 1)  -> 20 + 1 + 0.5;  x = 2: relu(3, -1) -> 30 + 0 + 0.5;
    # x = -2: relu(-1, 7) -> 0 + 7 + 0.5
    assert_close(layer(np.array([[[1.0], [2.0], [-2.0]]])), [[[21.5], [30.5], [7.5]]])


def test_positions_do_not_affect_each_other():
    layer, x = feed_forward(8), normal(2, 3, 4)
    assert_close(layer(x)[:, 1:2], layer(x[:, 1:2]), atol=1e-6)


def test_parameter_count_is_two_kernels_and_two_biases():
    assert feed_forward(8).count_params() == 4 * 8 + 8 + 8 * 4 + 4


def test_another_activation_changes_outputs_and_is_in_the_config():
    layer = feed_forward(8, activation="gelu")
    outputs, relu_outputs = (to_numpy(each(normal(1, 2, 4))) for each in (layer, feed_forward(8)))
    assert not np.allclose(outputs, relu_outputs)
    assert layer.get_config()["activation"] == "gelu"
