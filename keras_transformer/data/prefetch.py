"""Batches made in a thread before they are needed, and endless datasets of them for `fit`."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import keras

# How many are made ahead.
_COUNT = 4


class Prefetcher:
    """A sequence whose next items are made in a thread while the present one is in use.

    The items come in the order that they are asked for in, and are the same as without it. An error
    that one of them raises is raised where that item is asked for. The thread ends with the object.

    Args:
        make: function that takes an index and returns an item.
        length: the number of items. None: without end.
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
        """The item, on its way in the thread; None where the one before was not asked for last."""
        # Keras on TensorFlow may still read ahead in one iterator when it begins another.
        with self._lock:
            is_next, self._next = index == self._next, index + 1
            if not is_next:
                # Asked for in another order: nothing is known of what comes next.
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
    """A dataset of batches without end, made ahead of their use, for `fit(steps_per_epoch=...)`.

    Args:
        make: function that takes an index and returns the batch, as `TokenBatches` has them.

    Returns:
        A `tf.data.Dataset` on TensorFlow, else a `keras.utils.PyDataset`.
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
    """With axes declared free: from a stream that begins in the middle of an epoch Keras could
    conclude, from two batches that share a length, that it is fixed.
    """
    import tensorflow as tf

    def batches():
        return (make(index) for index in itertools.count())

    signature = keras.tree.map_structure(lambda x: tf.TensorSpec((None, None), x.dtype), make(0))
    return tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(
        tf.data.AUTOTUNE
    )
