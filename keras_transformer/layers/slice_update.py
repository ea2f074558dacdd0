import keras
from keras import ops


def slice_update(x, start, update):
    """`x` with `update` in it from the indices `start` on, as `ops.slice_update`.

    In PyTorch's inference mode, where no gradient is kept, `x` itself is written. TensorFlow's own
    function would have XLA compile a program for each shape.

    Args:
        x: tensor.
        start: a tuple of as many indices: integers, or int32 scalars.
        update: tensor of as many axes, of the same dtype.

    Returns:
        Tensor of the shape of `x`.
    """
    backend = keras.backend.backend()
    if backend == "torch":
        import torch

        if torch.is_inference_mode_enabled():
            x[tuple(slice(int(i), int(i) + n) for i, n in zip(start, update.shape))] = update
            return x
    if backend != "tensorflow":
        return ops.slice_update(x, start, update)
    import tensorflow as tf

    start = tf.stack(start)
    return tf.raw_ops.TensorStridedSliceUpdate(
        input=x, begin=start, end=start + tf.shape(update), strides=[1] * len(x.shape), value=update
    )
