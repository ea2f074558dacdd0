"""Masks, and operations that `keras.ops` lacks in the form that layers and searches need."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Tensor

# The score of masked positions. The paper uses -inf. A large finite number gives the same zero
# after the softmax, and does not give NaN in a row whose positions are all masked.
MASKED_SCORE = -1e9

# Whether TensorFlow traces a program that XLA compiles.
for_xla: ContextVar[bool] = ContextVar("for_xla", default=False)


def where(condition: Tensor, x: Tensor, other: float) -> Tensor:
    """Return `ops.where(condition, x, other)`, where `other` is a number.

    On PyTorch, Keras would copy the number to the GPU, which first waits for all earlier work.
    """
    if keras.backend.backend() == "torch":
        import torch

        if torch.is_tensor(x):
            return torch.where(ops.convert_to_tensor(condition, "bool"), x, other)
    return ops.where(condition, x, other)


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
        logits = where(mask, logits, MASKED_SCORE)
    return ops.cast(ops.softmax(logits), scores.dtype)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Return `masked_softmax(scale query key, mask) value` by PyTorch's fused kernels.

    Args:
        query: float tensor `(batch, num_heads, target, key_dim)`.
        key: float tensor `(batch, num_heads, key_dim, source)`.
        value: float tensor `(batch, num_heads, source, value_dim)`.
        mask: boolean tensor that broadcasts to `(batch, num_heads, target, source)`, or None.
        scale: factor of the scores.

    Returns:
        Float tensor `(batch, num_heads, target, value_dim)`.
    """
    import torch

    if mask is not None:
        # PyTorch gives a row without legal positions the weights 0. A query of zeros that may
        # attend to all positions attends to all equally.
        mask = ops.cast(mask, "bool")
        is_legal = mask.any(-1, keepdim=True)
        query = query * (is_legal * scale).to(query.dtype)
        mask, scale = mask | ~is_legal, 1.0
    return torch.nn.functional.scaled_dot_product_attention(
        query, key.transpose(-1, -2), value, mask, scale=scale
    )


def slice_update(x: Tensor, start: Sequence[int | Tensor], update: Tensor) -> Tensor:
    """Return `x` with `update` written from the indices `start` on, like `ops.slice_update`.

    In PyTorch's inference mode, which keeps no gradients, `x` itself is changed. On TensorFlow,
    Keras's function would make XLA compile one program per shape, and XLA lacks the other one.

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
                elif torch.is_tensor(index) or (index, size) != (0, x.shape[axis]):
                    target = target.narrow(axis, int(index), size)
            target.copy_(update) if place is None else target.index_copy_(*place, update)
            return x
    if backend != "tensorflow" or for_xla.get():
        return ops.slice_update(x, start, update)
    import tensorflow as tf

    start = tf.stack(start)
    return tf.raw_ops.TensorStridedSliceUpdate(
        input=x, begin=start, end=start + tf.shape(update), strides=[1] * len(x.shape), value=update
    )


def padding_mask(token_ids: Tensor) -> Tensor:
    """Return a mask `(batch, length)`, true at tokens and false at padding (0 and negative ids)."""
    return ops.greater(token_ids, 0)


@keras.saving.register_keras_serializable(package="keras_transformer")
class PaddingMask(keras.layers.Layer):
    """A layer that attaches a padding mask to a sequence, for Keras's layers, losses and metrics.

    Args:
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: a pair: float tensor `(batch, length, size)`, and int tensor `(batch, length)` of
            the token ids that the sequence is computed from.

    Returns:
        The float tensor, unchanged, with a mask.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.autocast = False  # The sequence keeps its dtype.

    def call(self, inputs: tuple[Tensor, Tensor]) -> Tensor:
        sequence, _ = inputs
        return sequence

    def compute_mask(self, inputs: tuple[Tensor, Tensor], previous_mask: Any) -> Tensor:
        _, token_ids = inputs
        return padding_mask(token_ids)

    def compute_output_spec(self, inputs: tuple[Tensor, Tensor]) -> keras.KerasTensor:
        sequence, _ = inputs
        return keras.KerasTensor(sequence.shape, dtype=sequence.dtype)

    def get_config(self) -> dict[str, Any]:
        # Without the method, Keras would not serialize a layer whose `dtype` is a policy.
        return super().get_config()
