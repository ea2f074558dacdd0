"""Compile a function of (model, tensors) once, with the backend's own compiler."""

import contextlib
import functools
import logging
import threading
import time
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import keras
import numpy as np

from keras_transformer.annotations import Tensor
from keras_transformer.layers.tensor_ops import for_xla

logger = logging.getLogger(__name__)

# model -> {(function, specification of tensors, options): program}, the most recently used last.
_compiled = weakref.WeakKeyDictionary()
_MOST_PROGRAMS = 64  # per model
_lock = threading.Lock()  # Concurrent threads share a program.

_SECONDS_BEFORE_NOTICE = 1.0
_SECONDS_OF_XLA = 5.0  # to compile a search, about
_compiling = threading.local()  # the timer of the program that this thread compiles


def run_compiled(
    function: Callable,
    model: keras.Model,
    *tensors: Any,
    xla: bool = False,
    **options: Hashable,
) -> Any:
    """Call `function(model, *tensors, **options)` as one compiled program.

    A model keeps its 64 most recently used programs. TensorFlow traces one graph for all shapes of
    tensors with two axes or more; with `xla` it compiles one program per combination of shapes, as
    JAX does. PyTorch runs the function itself, without gradients, and repeats its operations in
    later calls with tensors of the same shapes; see `recorded_loop`. A program uses the current
    weights in each call.

    Args:
        function: function of a model and tensors, in `keras.ops`.
        model: a built Keras model.
        *tensors: arrays or tensors, or structures of them.
        xla: on TensorFlow, whether XLA compiles the program.
        **options: hashable Python values, compiled in.

    Returns:
        The result of `function`.
    """
    specification = _specification(tensors, is_exact=xla)
    key = (function, repr(specification), tuple(sorted(options.items())))
    if keras.backend.backend() == "tensorflow":
        # Quantization and low-rank weights change the variables of a model.
        key = (*key, len(model.weights), xla)
    with _lock:
        programs = _compiled.setdefault(model, OrderedDict())
        if key not in programs:
            call = functools.partial(_call, function, _reference(model), options)
            compiler = _compile_for_xla if xla else _COMPILERS[keras.backend.backend()]
            programs[key] = compiler(call, model, specification)
        programs.move_to_end(key)
        while len(programs) > _MOST_PROGRAMS:
            programs.popitem(last=False)
        program = programs[key]
    return program(*tensors)


def is_traced(tensor: Tensor) -> bool:
    """Return whether the tensor belongs to a JAX program that is being traced."""
    if keras.backend.backend() != "jax":
        return False
    from jax.core import Tracer

    return isinstance(tensor, Tracer)


def _call(function: Callable, model: Callable, options: dict[str, Any], *tensors: Any) -> Any:
    return function(model(), *tensors, **options)


def _specification(tensors: Any, is_exact: bool) -> Any:
    """Return shapes and dtypes of tensors for TensorFlow, with None for variable sizes unless
    `is_exact`; shapes for PyTorch; None for JAX."""
    if keras.backend.backend() == "torch":
        return keras.tree.map_structure(np.shape, tensors)
    if keras.backend.backend() == "jax":
        return None
    import tensorflow as tf

    def of_tensor(x: Any) -> Any:
        x = x if tf.is_tensor(x) else np.asarray(x)
        is_free = len(x.shape) > 1 and not is_exact
        return tf.TensorSpec([None] * len(x.shape) if is_free else x.shape, x.dtype)

    return keras.tree.map_structure(of_tensor, tensors)


def _compile_tensorflow(function: Callable, model: keras.Model, specification: Any) -> Callable:
    import tensorflow as tf

    # Loops are `keras.ops` already; AutoGraph would only slow down the tracing.
    program = tf.function(function, input_signature=specification, autograph=False)
    model_ref = _reference(model)

    def run(*tensors: Any) -> Any:
        if all(isinstance(variable.value, tf.Variable) for variable in model_ref().variables):
            return program(*tensors)
        # A program would contain the values of a `keras.StatelessScope` as constants.
        return function(*keras.tree.map_structure(tf.convert_to_tensor, tensors))

    return run


def _compile_for_xla(function: Callable, model: keras.Model, specification: Any) -> Callable:
    import tensorflow as tf

    # A `partial`: of functions with one code, TensorFlow warns that it traces them again.
    traced = functools.partial(_traced_for_xla, function)
    return tf.function(traced, input_signature=specification, autograph=False, jit_compile=True)


def _traced_for_xla(function: Callable, *tensors: Any) -> Any:
    token = for_xla.set(True)
    try:
        return function(*tensors)
    finally:
        for_xla.reset(token)


class XlaChoice:
    """Chooses when searches of a shape are compiled by XLA, on TensorFlow.

    XLA's program is faster than the graph that TensorFlow traces for all shapes, but compiling it
    takes seconds. It pays once the searches of a shape have taken as long.
    """

    def __init__(self) -> None:
        self._seconds = weakref.WeakKeyDictionary()  # model -> {key: seconds of the traced graph}

    def pays(self, model: keras.Model, key: Hashable) -> bool:
        """Return whether XLA should compile the search of a model and a key, a shape."""
        return self._of(model)[key] >= _SECONDS_OF_XLA and _can_use_xla(model)

    def run(self, model: keras.Model, key: Hashable, search: Callable[[], Any]) -> Any:
        """Call a search, and count its seconds."""
        start = time.perf_counter()
        result = search()
        self._of(model)[key] += time.perf_counter() - start
        return result

    def _of(self, model: keras.Model) -> defaultdict[Hashable, float]:
        return self._seconds.setdefault(model, defaultdict(float))


def _can_use_xla(model: keras.Model) -> bool:
    """Return whether a program would run on one device, with the weights of the model."""
    import tensorflow as tf

    if not tf.executing_eagerly() or tf.config.functions_run_eagerly():
        return False
    if tf.distribute.has_strategy() or len(tf.config.list_logical_devices("GPU")) > 1:
        return False
    return all(isinstance(variable.value, tf.Variable) for variable in model.variables)


def _reference(model: keras.Model) -> Callable[[], Any]:
    """Return a weak reference: a program must not keep the model alive."""
    return weakref.ref(model)


def _compile_jax(function: Callable, model: keras.Model, specification: None) -> Callable:
    import jax

    model_ref = _reference(model)

    @jax.jit
    def program(values, *tensors):
        # This code runs while JAX traces; compilation, or reading from the disk, follows.
        if _compiling.timer.ident is None:
            _compiling.timer.start()
        mapping = list(zip(model_ref().variables, values))
        with keras.StatelessScope(state_mapping=mapping):
            return function(*tensors)

    def run(*tensors: Any) -> Any:
        with _notice_if_long():
            return program([v.value for v in model_ref().variables], *tensors)

    return run


@contextlib.contextmanager
def _notice_if_long() -> Iterator[None]:
    """Log a notice if a program that is compiled within the block takes long."""
    outer = getattr(_compiling, "timer", None)  # of an enclosing program
    timer = _compiling.timer = threading.Timer(_SECONDS_BEFORE_NOTICE, _log_notice)
    timer.daemon = True
    try:
        yield
    finally:
        timer.cancel()
        _compiling.timer = outer


@functools.cache
def _log_notice() -> None:
    """Log the notice, once per process."""
    logger.info(
        "JAX is compiling the search, which takes seconds for each new batch size. (With a "
        "compilation cache, later processes read the programs from the disk.)"
    )


def _compile_torch(function: functools.partial, model: keras.Model, specification: Any) -> Callable:
    import torch

    from keras_transformer.decoding.recorded_loop import record

    model_ref, kept = _reference(model), (None, None)
    is_own = _is_own(model, function.args[-1])

    def as_tensor(x: Any) -> Any:
        return x if torch.is_tensor(x) else keras.ops.convert_to_tensor(x)

    @torch.inference_mode()
    def program(*tensors: Any) -> Any:
        nonlocal kept
        tensors = keras.tree.map_structure(as_tensor, tensors)
        if not is_own:
            return function(*tensors)
        weights = [variable.value for variable in model_ref().variables]
        leaves = keras.tree.flatten(tensors)
        form = (
            [(x.shape, x.dtype, x.device) for x in [*weights, *leaves]],
            *map(torch.is_autocast_enabled, ("cpu", "cuda")),
        )
        kept_form, repeat = kept  # Another thread may replace it.
        if repeat is not None and kept_form == form:
            return repeat(*weights, *leaves)
        results, repeat = record(
            lambda *leaves: function(*keras.tree.pack_sequence_as(tensors, leaves)), leaves, weights
        )
        kept = form, repeat
        return results

    return program


def _is_own(model: keras.Model, options: dict[str, Any]) -> bool:
    """Return whether a program has no code of users, which may have a state of its own."""
    parts = [model, getattr(model, "step_inputs", None), *options.values()]
    parts += [x for option in parts for x in getattr(option, "constraints", ())]
    names = {type(part).__module__.split(".")[0] for part in parts}
    return names <= {"builtins", "keras", "keras_transformer"}


_COMPILERS = {
    "tensorflow": _compile_tensorflow,
    "jax": _compile_jax,
    "torch": _compile_torch,
}
