"""What a thread sees besides its arguments, for other threads that work for it."""

import contextlib

import keras


def surroundings(model):
    """Note what the calling thread sees of a model and of its backend's settings.

    That is the values that a `keras.StatelessScope` gives the model's variables; on JAX the
    precision of matrix products and the default device; on TensorFlow the device of `tf.device`.

    Args:
        model: a Keras model.

    Returns:
        A function without arguments, whose context manager another thread enters to see the same.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        return _surroundings_jax(model)
    if backend == "tensorflow":
        return _surroundings_tensorflow(model)
    return contextlib.nullcontext


def _surroundings_jax(model):
    import jax

    values = [(variable, variable.value) for variable in model.variables]
    precision, device = jax.config.jax_default_matmul_precision, jax.config.jax_default_device

    @contextlib.contextmanager
    def enter():
        with (
            keras.StatelessScope(state_mapping=values),
            jax.default_matmul_precision(precision),
            jax.default_device(device),
        ):
            yield

    return enter


def _surroundings_tensorflow(model):
    import tensorflow as tf

    values = [(variable, variable.value) for variable in model.variables]
    is_scope = not all(isinstance(value, tf.Variable) for _, value in values)
    device = tf.zeros(()).device  # where operations of this thread go

    @contextlib.contextmanager
    def enter():
        with contextlib.ExitStack() as stack:
            if is_scope:
                stack.enter_context(keras.StatelessScope(state_mapping=values))
            # A program is traced anew for a device that is named.
            if tf.zeros(()).device != device:
                stack.enter_context(tf.device(device))
            yield

    return enter
