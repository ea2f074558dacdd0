"""Search parts of a batch at the same time, each on a core of its own.

The steps of a search are many small operations, of which one core does most alone while others wait
for it. Parts of a batch need not wait for one another.
"""

import functools
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding.batch_compaction import (
    FEWEST_HYPOTHESES,
    Inputs,
    is_traced,
    search_in_stages,
)
from keras_transformer.decoding.thread_context import surroundings


def search_on_all_cores(search, model, encoder_token_ids, num_results, numbers=()):
    """`search_in_stages`, in parts where programs run on a CPU and the batch is large.

    Args:
        search: a `Search`.
        model: a `Transformer`.
        encoder_token_ids: int32 tensor `(batch, source)`.
        num_results: how many outputs of each sentence.
        numbers: int32 tensor `(batch, 1)`: which sentence of the call each is; or `()`.

    Returns:
        The pair `(token_ids, scores)` that `search_in_stages` returns.
    """
    rows, shared = search.row_tensors(), search.shared_tensors()
    inputs = Inputs(encoder_token_ids, rows, shared, search.seed_value(), numbers)
    run = functools.partial(
        search_in_stages,
        model,
        template=search.template(),
        num_results=num_results,
        extra_length=search.extra_length,
    )
    num_parts = _num_parts(encoder_token_ids.shape[0], search.num_live(num_results))
    if num_parts < 2 or not _is_compiled_for_cpu(encoder_token_ids):
        return run(inputs)
    enter_surroundings = surroundings(model)

    def run_part(encoder_token_ids, rows, numbers):
        part = inputs._replace(encoder_token_ids=encoder_token_ids, rows=rows, numbers=numbers)
        with enter_surroundings():
            return run(part)

    parts = _split((encoder_token_ids, rows, numbers), num_parts)
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
    """Those that this process may use: less than there are where its container has a quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores, _quota(Path("/sys/fs/cgroup"))))


def _quota(cgroup):
    """How many cores Linux's control group lets its processes use together; a large number if any.

    The second version has a file `cpu.max`, "QUOTA PERIOD" or "max PERIOD"; the first a file each.
    """
    for names in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):
        try:
            quota, period = " ".join((cgroup / name).read_text("utf-8") for name in names).split()
            return int(quota) // int(period) if int(quota) > 0 else sys.maxsize
        except (OSError, ValueError):  # no such file; "max"
            continue
    return sys.maxsize


def _is_compiled_for_cpu(tensor):
    """Whether a program would run, now, on this machine's cores, without Python's lock."""
    if keras.backend.backend() == "jax":
        import jax

        if is_traced(tensor) or jax.config.jax_disable_jit:
            return False
        return jax.default_backend() == "cpu" and jax.device_count() == 1
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        if not tf.executing_eagerly() or tf.config.functions_run_eagerly():
            return False
        return not tf.config.list_logical_devices("GPU")
    return False


def _split(tensors, num_parts):
    """Parts of the same shapes: zeros, which are no sentences, are added to the batch.

    A part has every so manyth row, because batches are often sorted by length.
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
    """The rows in the order that they had before `_split`."""
    rows = ops.stack(parts, axis=1)
    return ops.reshape(rows, (-1, *rows.shape[2:]))
