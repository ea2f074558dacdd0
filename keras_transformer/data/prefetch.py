"""Batches prepared in a thread in advance, and infinite datasets of them for `fit`."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import keras

# The number of items that are prepared in advance.
_COUNT = 4


class Prefetcher:
    """A sequence whose next items are prepared in a thread while the current item is in use.

    The order and the values of the items do not change. If preparing an item raises an error, the
    error is raised when that item is requested. The thread ends with the object.

    Args:
        make: function that takes an index and returns an item.
        length: the number of items. Defaults to infinity.
    """

    def __init__(self, make: Callable[[int], Any], length: int | None = None):
        self._make = make
        self._length = length
        self._thread = ThreadPoolExecutor(1, "batches-ahead")
        self._lock = threading.Lock()
        self._next = 0
        self._items = {}

    def __getitem__(self, index: int) -> Any:
        item = self._submitted(index)
        return self._make(index) if item is None else item.result()

    def _submitted(self, index: int) -> Future | None:
        """Return the future of an item, or None if items are not requested in order."""
        # Keras on TensorFlow may still prefetch from one iterator when it starts another.
        with self._lock:
            is_next, self._next = index == self._next, index + 1
            if not is_next:
                # The items are requested in another order, so the next one cannot be predicted.
                for item in self._items.values():
                    item.cancel()
                self._items.clear()
                return None
            end = index + 1 + _COUNT
            for ahead in range(index, end if self._length is None else min(end, self._length)):
                if ahead not in self._items:
                    self._items[ahead] = self._thread.submit(self._make, ahead)
            return self._items.pop(index)


def infinite_dataset(make: Callable[[int], Any]) -> Any:
    """Return an infinite dataset of prefetched batches for `fit(steps_per_epoch=...)`.

    Args:
        make: function that takes an index and returns the batch, as `TokenBatches` does.

    Returns:
        A `tf.data.Dataset` on TensorFlow, otherwise a `keras.utils.PyDataset`.
    """
    return _tensorflow_dataset(make) if keras.backend.backend() == "tensorflow" else _Stream(make)


class _Stream(keras.utils.PyDataset):
    def __init__(self, make):
        super().__init__()
        self._batches = Prefetcher(make)

    def __getitem__(self, index):
        return self._batches[index]

    @property
    def num_batches(self):
        return None


def _tensorflow_dataset(make):
    """Return a dataset whose signature leaves all axes undefined.

    Otherwise Keras infers the shapes from the first two batches: if they have a length in common,
    because the stream starts in the middle of an epoch, Keras would take it for fixed.
    """
    import tensorflow as tf

    def batches():
        return (make(index) for index in itertools.count())

    signature = keras.tree.map_structure(lambda x: tf.TensorSpec((None, None), x.dtype), make(0))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(_COUNT)
    # There is nothing to tune here. And `fit`, which leaves this dataset before its end, would have
    # to wait up to a minute for TensorFlow's tuning thread, which sleeps longer each time.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
