"""Search parts of a batch in parallel, one per CPU core.

The steps of a search are many small operations, and most of them occupy only one core. Parts of a
batch run independently.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.compilation import is_traced


def run_on_all_cores(
    run: Callable[[Any], Any], model: keras.Model, batch: Any, most_parts: int
) -> Any:
    """Call a function of a batch, once per part of it if programs run on a CPU.

    Args:
        run: function of a structure of tensors; returns a structure of tensors. The first axis of
            all these tensors is the batch.
        model: the Keras model that the function calls.
        batch: a structure of tensors.
        most_parts: the largest number of parts.

    Returns:
        The results of all parts, joined.
    """
    first = keras.tree.flatten(batch)[0]
    size = first.shape[0]
    num_parts = min(_num_cores(), size or 1, most_parts)
    if num_parts < 2 or not _is_compiled_for_cpu(first):
        return run(batch)
    enter_context = thread_context(model)

    def run_part(part: Any) -> Any:
        with enter_context():
            return run(part)

    with ThreadPoolExecutor(num_parts) as threads:
        parts = list(threads.map(run_part, _split(batch, num_parts)))
    return keras.tree.map_structure(lambda *results: _join(results)[:size], *parts)


@functools.cache
def _num_cores() -> int:
    """Return the number of cores that this process may use, within its container's quota."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, min(cores, _quota(Path("/sys/fs/cgroup"))))


def _quota(cgroup: Path) -> int:
    """Return the CPU quota of a Linux control group in cores; a large number without a quota.

    Version 2 has a file `cpu.max`, "QUOTA PERIOD" or "max PERIOD"; version 1 has two files.
    """
    for names in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):
        try:
            quota, period = " ".join((cgroup / name).read_text("utf-8") for name in names).split()
            return int(quota) // int(period) if int(quota) > 0 else sys.maxsize
        except (OSError, ValueError):  # no such file; "max"
            continue
    return sys.maxsize


def _is_compiled_for_cpu(tensor: Tensor) -> bool:
    """Return whether a program would now run on CPU cores without holding Python's lock."""
    if keras.backend.backend() == "jax":
        import jax

        config: Any = jax.config  # JAX adds its options at run time.
        if is_traced(tensor) or config.jax_disable_jit:
            return False
        return jax.default_backend() == "cpu" and jax.device_count() == 1
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        if not tf.executing_eagerly() or tf.config.functions_run_eagerly():
            return False
        return not tf.config.list_logical_devices("GPU")
    return False


def _split(batch: Any, num_parts: int) -> list[Any]:
    """Split a batch into parts of equal shape, after padding it with empty sentences.

    Part i has the rows i, i + num_parts, ...: batches are often sorted by length.
    """

    def padded(x: Tensor) -> np.ndarray:
        x = ops.convert_to_numpy(x)
        missing = -len(x) % num_parts
        return np.pad(x, [(0, missing), *[(0, 0)] * (x.ndim - 1)])

    whole = keras.tree.map_structure(padded, batch)
    return [
        keras.tree.map_structure(lambda x, part=part: x[part::num_parts], whole)
        for part in range(num_parts)
    ]


def _join(parts: Sequence[Tensor]) -> Tensor:
    """Return the rows in their order before `_split`."""
    rows = ops.stack(parts, axis=1)
    return ops.reshape(rows, (-1, *rows.shape[2:]))


def thread_context(model: keras.Model) -> Callable[[], AbstractContextManager]:
    """Capture the calling thread's context, for other threads that work for it.

    It consists of the values of a `keras.StatelessScope`; on JAX the precision of matrix products
    and the default device; on TensorFlow the device of `tf.device`.

    Args:
        model: a Keras model.

    Returns:
        A function without arguments that returns a context manager, which another thread enters.
    """
    if keras.backend.backend() == "jax":
        return _thread_context_jax(model)
    return _thread_context_tensorflow(model)  # Only these backends divide a batch.


def _thread_context_jax(model: keras.Model) -> Callable[[], AbstractContextManager]:
    import jax

    values = [(variable, variable.value) for variable in model.variables]
    config: Any = jax.config  # JAX adds its options at run time.
    precision, device = config.jax_default_matmul_precision, config.jax_default_device

    @contextlib.contextmanager
    def enter() -> Iterator[None]:
        with (
            keras.StatelessScope(state_mapping=values),
            jax.default_matmul_precision(precision),
            jax.default_device(device),
        ):
            yield

    return enter


def _thread_context_tensorflow(model: keras.Model) -> Callable[[], AbstractContextManager]:
    import tensorflow as tf

    values = [(variable, variable.value) for variable in model.variables]
    is_scope = not all(isinstance(value, tf.Variable) for _, value in values)
    device = tf.zeros(()).device  # the device of this thread's operations

    @contextlib.contextmanager
    def enter() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if is_scope:
                stack.enter_context(keras.StatelessScope(state_mapping=values))
            # TensorFlow traces a program again for an explicit device.
            if tf.zeros(()).device != device:
                stack.enter_context(tf.device(device))
            yield

    return enter
