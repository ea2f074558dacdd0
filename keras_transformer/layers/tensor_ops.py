"""Operations that `keras.ops` does not have in the form that layers and searches need."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor

# The score of masked positions. The paper uses -inf. A large finite number gives the same zero
# after the softmax, and does not give NaN in a row whose positions are all masked.
MASKED_SCORE = -1e9


def masked_softmax(scores: Tensor, mask: Tensor = None) -> Tensor:
    """Compute the softmax over the last axis, in float32 for every dtype of `scores`.

    Args:
        scores: float tensor.
        mask: boolean tensor that broadcasts to `scores`, false at illegal positions. A row without
            legal positions has equal weights.

    Returns:
        A tensor of the shape and dtype of `scores`; zero at illegal positions.
    """
    logits = ops.cast(scores, "float32")
    if mask is not None:
        logits = ops.where(mask, logits, MASKED_SCORE)
    return ops.cast(ops.softmax(logits), scores.dtype)


def slice_update(x: Tensor, start: Sequence[int | Tensor], update: Tensor) -> Tensor:
    """Return `x` with `update` written from the indices `start` on, like `ops.slice_update`.

    In PyTorch's inference mode, which keeps no gradients, `x` itself is changed. On TensorFlow,
    Keras's function would make XLA compile one program per shape.

    Args:
        x: tensor.
        start: one index per axis: integers, or int32 scalars.
        update: tensor with the number of axes and the dtype of `x`.

    Returns:
        Tensor of the shape of `x`.
    """
    backend = keras.backend.backend()
    if backend == "torch":
        import torch

        if torch.is_inference_mode_enabled():
            target, place = x, None
            for axis, (index, size) in enumerate(zip(start, update.shape, strict=True)):
                if torch.is_tensor(index) and place is None:
                    # Its value stays in PyTorch: see `recorded_loop`.
                    place = axis, index + torch.arange(size, device=x.device)
                else:
                    target = target.narrow(axis, int(index), size)
            target.copy_(update) if place is None else target.index_copy_(*place, update)
            return x
    if backend != "tensorflow":
        return ops.slice_update(x, start, update)
    import tensorflow as tf

    start = tf.stack(start)
    return tf.raw_ops.TensorStridedSliceUpdate(
        input=x, begin=start, end=start + tf.shape(update), strides=[1] * len(x.shape), value=update
    )


def is_one_of(token_ids: Tensor, some_ids: Sequence[int]) -> Tensor:
    """Return whether each token id is one of some known ids.

    Args:
        token_ids: int tensor.
        some_ids: Python integers, at least one.

    Returns:
        Bool tensor of the shape of `token_ids`.
    """
    size = max(some_ids) + 2  # The last entry stands for all larger ids.
    is_some = np.isin(np.arange(size), some_ids)
    return ops.take(is_some, ops.minimum(token_ids, size - 1), axis=0)
