"""Compile a function of (model, tensors) once, with the backend's own compiler."""

import functools
import threading
import weakref

import keras

_compiled = (
    weakref.WeakKeyDictionary()
)  # model -> {(function, number of tensors, options): program}
_lock = threading.Lock()  # so that threads that come at the same time share a program


def run_compiled(function, model, *tensors, **options):
    """Call `function(model, *tensors, **options)` as one compiled program.

    Compiled programs are kept as long as the model lives. TensorFlow traces one graph for all
    shapes; JAX compiles one program for each combination of shapes; PyTorch runs as it is, without
    gradients. Weights that change between calls are seen.

    Args:
        function: function of a model and tensors, in `keras.ops`.
        model: a built Keras model.
        *tensors: int32 arrays or tensors; on JAX and PyTorch also structures of any tensors.
        **options: hashable Python values, compiled in.

    Returns:
        What `function` returns.
    """
    key = (function, len(tensors), tuple(sorted(options.items())))
    with _lock:
        programs = _compiled.setdefault(model, {})
        if key not in programs:
            # The program must not keep the model alive, whose life decides on its own.
            programs[key] = _COMPILERS[keras.backend.backend()](
                functools.partial(_call, function, weakref.ref(model), options), model, len(tensors)
            )
    return programs[key](*tensors)


def _call(function, model, options, *tensors):
    return function(model(), *tensors, **options)


def _compile_tensorflow(function, model, num_tensors):
    import tensorflow as tf

    signature = [tf.TensorSpec((None, None), "int32")] * num_tensors
    # Loops are `keras.ops` already: AutoGraph would only slow the tracing down.
    return tf.function(function, input_signature=signature, autograph=False)


def _compile_jax(function, model, num_tensors):
    import jax

    model = weakref.ref(model)

    @jax.jit
    def program(values, *tensors):
        mapping = list(zip(model().variables, values))
        with keras.StatelessScope(state_mapping=mapping):
            return function(*tensors)

    return lambda *tensors: program([v.value for v in model().variables], *tensors)


def _compile_torch(function, model, num_tensors):
    import torch

    def tensor_of(x):
        return x if torch.is_tensor(x) else keras.ops.convert_to_tensor(x, "int32")

    @torch.inference_mode()
    def program(*tensors):
        return function(*keras.tree.map_structure(tensor_of, tensors))

    return program


_COMPILERS = {
    "tensorflow": _compile_tensorflow,
    "jax": _compile_jax,
    "torch": _compile_torch,
}
