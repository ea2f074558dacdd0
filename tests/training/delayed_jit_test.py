"""Training on TensorFlow that XLA compiles from some batch on."""

import keras
import numpy as np
import pytest

from keras_transformer.training.callbacks import CompileLater, first_compiled_batch, xla_pays

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="JAX compiles from the beginning"
)


@pytest.mark.once
def test_as_much_is_left_to_gain_as_was_lost():
    assert first_compiled_batch(12, 7500) == 2400
    assert first_compiled_batch(12, 4800) == 2400
    assert first_compiled_batch(12, 4799) is None


@on_tensorflow
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_cpu_has_instructions_for_bfloat16_that_xla_does_not_use(dtype):
    import tensorflow as tf

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.dtype_policy = keras.DTypePolicy(dtype)
    on_cpu = not tf.config.list_logical_devices("GPU")
    assert xla_pays(model) == (not on_cpu or dtype != "mixed_bfloat16")


class Watch(keras.callbacks.Callback):
    """Notes, at each batch, whether its program is XLA's, and the loss."""

    def __init__(self):
        super().__init__()
        self.compiled, self.functions, self.losses = [], [], []

    def on_train_batch_begin(self, batch, logs=None):
        self.compiled.append(self.model.jit_compile)
        self.functions.append(self.model.train_function)

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


def train(*callbacks, **options):
    """Six batches in two calls of `fit`."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse", **{"jit_compile": False, **options})
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    watch = Watch()
    for first in (0, 6):
        rows = x[first : first + 6]
        model.fit(
            rows,
            rows.sum(axis=1),
            batch_size=2,
            shuffle=False,
            verbose=0,
            callbacks=[*callbacks, watch],
        )
    return watch


@pytest.mark.each_backend
@on_tensorflow
@pytest.mark.parametrize(("first", "done", "expected"), [(4, 0, 4), (4, 3, 1), (4, 7, 0)])
def test_compiled_from_the_batch_on(first, done, expected):
    plain, watch = train(), train(CompileLater(first, done))
    assert watch.compiled == [False] * expected + [True] * (6 - expected)
    assert len({id(function) for function in watch.functions[expected:]}) == 1
    assert watch.losses == pytest.approx(plain.losses, rel=1e-5)


@on_tensorflow
def test_batches_of_an_execution_go_together():
    assert train(CompileLater(3), steps_per_execution=3).compiled == [False, True]
