"""Batches without end, as the dataset that each backend's `fit` reads best."""

import itertools

import keras

from keras_transformer.data.prefetch import Ahead


def stream_of(make):
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
        self._batches = Ahead(make)

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
