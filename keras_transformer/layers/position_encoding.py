from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.errors import UserError


class _PositionEncoding(keras.layers.Layer):
    """The base class of layers that add vectors of position to `(batch, length, hidden_dim)`."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def compute_output_shape(self, input_shape: Shape, *args: Any, **kwargs: Any) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        # Without the method, Keras would not serialize a layer whose `dtype` is a policy.
        return super().get_config()


@keras.saving.register_keras_serializable(package="keras_transformer")
class SinePositionEncoding(_PositionEncoding):
    """A layer that adds sinusoids of position to embeddings (section 3.5).

    ```
    PE(pos, 2i)     = sin(pos / 10000^(2i / d_model))
    PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model))
    ```

    Sine and cosine are interleaved, and there is no largest length. The sum is computed in float32
    for every dtype, because bfloat16 cannot distinguish position 257 from 256.

    Args:
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(batch, length, hidden_dim)`.
        positions: int tensor `(length,)`, `(1,)` if all have the same, or `(batch, length)`.
            Defaults to 0, 1, 2, ...

    Returns:
        Float tensor `(batch, length, hidden_dim)`: `inputs` plus the encoding of their positions.

    Raises:
        UserError: if `hidden_dim` is odd.
    """

    max_wavelength = 10000  # times 2π; a derived class may set another

    def build(self, input_shape: Shape) -> None:
        hidden_dim = input_shape[-1]
        if hidden_dim is None or hidden_dim % 2:
            raise UserError(
                "`hidden_dim` must be even, because sines and cosines come in pairs. "
                f"Received: hidden_dim={hidden_dim}"
            )

    def call(self, inputs: Tensor, positions: Tensor = None) -> Tensor:
        hidden_dim = inputs.shape[-1]
        rates = np.float32(self.max_wavelength ** (-np.arange(0, hidden_dim, 2) / hidden_dim))
        if positions is None:
            positions = ops.arange(ops.shape(inputs)[1], dtype="int32")
        positions = ops.cast(positions, "float32")
        angles = ops.multiply(ops.expand_dims(positions, -1), rates)
        # (..., length, hidden_dim / 2, 2) -> (..., length, hidden_dim): sin, cos, sin, cos, ...
        encoding = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
        encoding = ops.reshape(encoding, (*ops.shape(positions), hidden_dim))
        return ops.cast(ops.cast(inputs, "float32") + encoding, self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_transformer")
class LearnedPositionEncoding(_PositionEncoding):
    """A layer that adds learned vectors of position to embeddings (section 3.5, Table 3 row E).

    Args:
        max_length: the number of learned positions.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(batch, length, hidden_dim)`.
        positions: int tensor `(length,)`, `(1,)` if all have the same, or `(batch, length)`; below
            `max_length`. Defaults to 0, 1, 2, ...

    Returns:
        Float tensor `(batch, length, hidden_dim)`: `inputs` plus the vectors of their positions.

    Raises:
        UserError: if `max_length` is not a positive integer, or if `inputs` are longer than
            `max_length` and `positions` are not given.
    """

    def __init__(self, max_length: int, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(max_length, int) or max_length < 1:
            raise UserError(
                f"`max_length` must be a positive integer. Received: max_length={max_length!r}"
            )
        self.max_length = max_length

    def build(self, input_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            shape=(self.max_length, input_shape[-1]),
            initializer="glorot_uniform",
            name="embeddings",
        )

    def call(self, inputs: Tensor, positions: Tensor = None) -> Tensor:
        length = inputs.shape[1]
        if positions is None:
            if length is not None and length > self.max_length:
                raise UserError(
                    f"The model learned max_length={self.max_length} positions. Expected `inputs` "
                    f"of this length at most. Received: {length} positions. Shorten the sequence, "
                    "or train with a larger `max_length`."
                )
            positions = ops.arange(ops.shape(inputs)[1], dtype="int32")
        return inputs + ops.take(self.embeddings, positions, axis=0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}
