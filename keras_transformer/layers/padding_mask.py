from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Tensor


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
