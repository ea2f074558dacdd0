"""Search parts of a batch in parallel, one per CPU core.

The steps of a search are many small operations, and most of them occupy only one core. Parts of a
batch run independently.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.batch_compaction import (
    FEWEST_HYPOTHESES,
    Inputs,
    is_traced,
    search_in_stages,
)

if TYPE_CHECKING:
    from keras_transformer.decoding.search import Search


def search_on_all_cores(
    search: "Search",
    model: keras.Model,
    encoder_token_ids: Tensor,
    num_results: int,
    numbers: Tensor = (),
) -> tuple[Tensor, Tensor]:
    """Call `search_in_stages`, in parts if programs run on a CPU and the batch is large.

    Args:
        search: a `Search`.
        model: a `Transformer`.
        encoder_token_ids: int32 tensor `(batch, source)`.
        num_results: the number of outputs per sentence.
        numbers: int32 tensor `(batch, 1)`: the number of each sentence in the call; or `()`.

    Returns:
        The pair `(token_ids, scores)` that `search_in_stages` returns.
    """
    per_example, traced = search.per_example_tensors(), search.traced_tensors()
    inputs = Inputs(encoder_token_ids, per_example, traced, search.seed_value(), numbers)
    run = functools.partial(
        search_in_stages,
        model,
        static_part=search.static_part(),
        num_results=num_results,
        extra_length=search.extra_length,
    )
    num_parts = _num_parts(encoder_token_ids.shape[0], search.beam_width(num_results))
    if num_parts < 2 or not _is_compiled_for_cpu(encoder_token_ids):
        return run(inputs)
    enter_context = thread_context(model)

    def run_part(encoder_token_ids, per_example, numbers):
        part = inputs._replace(
            encoder_token_ids=encoder_token_ids, per_example=per_example, numbers=numbers
        )
        with enter_context():
            return run(part)

    parts = _split((encoder_token_ids, per_example, numbers), num_parts)
    with ThreadPoolExecutor(num_parts) as threads:
        token_ids, scores = zip(*threads.map(run_part, *zip(*parts)))
    size = encoder_token_ids.shape[0]
    return _join(token_ids)[:size], _join(scores)[:size]


def _num_parts(batch_size, beam_size):
    if batch_size is None:  # inside a program that is being traced
        return 1
    return min(_num_cores(), batch_size, batch_size * beam_size // FEWEST_HYPOTHESES)


@functools.cache
def _num_cores():
    """Return the number of cores that this process may use, within its container's quota."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, min(cores, _quota(Path("/sys/fs/cgroup"))))


def _quota(cgroup):
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


def _is_compiled_for_cpu(tensor):
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


def _split(tensors, num_parts):
    """Split a batch into parts of equal shape, after padding it with empty sentences.

    Part i has the rows i, i + num_parts, ...: batches are often sorted by length.
    """

    def padded(batch):
        batch = ops.convert_to_numpy(batch)
        missing = -len(batch) % num_parts
        return np.pad(batch, [(0, missing), *[(0, 0)] * (batch.ndim - 1)])

    whole = keras.tree.map_structure(padded, tensors)
    return [
        keras.tree.map_structure(lambda x, part=part: x[part::num_parts], whole)
        for part in range(num_parts)
    ]


def _join(parts):
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
    backend = keras.backend.backend()
    if backend == "jax":
        return _thread_context_jax(model)
    if backend == "tensorflow":
        return _thread_context_tensorflow(model)
    return contextlib.nullcontext


def _thread_context_jax(model):
    import jax

    values = [(variable, variable.value) for variable in model.variables]
    config: Any = jax.config  # JAX adds its options at run time.
    precision, device = config.jax_default_matmul_precision, config.jax_default_device

    @contextlib.contextmanager
    def enter():
        with (
            keras.StatelessScope(state_mapping=values),
            jax.default_matmul_precision(precision),
            jax.default_device(device),
        ):
            yield

    return enter


def _thread_context_tensorflow(model):
    import tensorflow as tf

    values = [(variable, variable.value) for variable in model.variables]
    is_scope = not all(isinstance(value, tf.Variable) for _, value in values)
    device = tf.zeros(()).device  # the device of this thread's operations

    @contextlib.contextmanager
    def enter():
        with contextlib.ExitStack() as stack:
            if is_scope:
                stack.enter_context(keras.StatelessScope(state_mapping=values))
            # TensorFlow traces a program again for an explicit device.
            if tf.zeros(()).device != device:
                stack.enter_context(tf.device(device))
            yield

    return enter
