from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.errors import UserError

Activation = str | dict[str, Any] | Callable


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(keras.layers.Layer):
    """The position-wise feed-forward network (section 3.3).

    ```
    FFN(x) = max(0, x W_1 + b_1) W_2 + b_2                                (Eq. 2)
    ```

    Args:
        intermediate_dim: d_ff, the size of the inner layer.
        activation: the non-linearity. The paper's is `"relu"`.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(batch, length, hidden_dim)`.

    Returns:
        Float tensor `(batch, length, hidden_dim)`.

    Raises:
        UserError: if `intermediate_dim` is not a positive integer.
    """

    def __init__(self, intermediate_dim: int, activation: Activation = "relu", **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        if not isinstance(intermediate_dim, int) or intermediate_dim < 1:
            raise UserError(
                "`intermediate_dim` must be a positive integer. "
                f"Received: intermediate_dim={intermediate_dim!r}"
            )
        self.intermediate_dim = intermediate_dim
        self.activation = keras.activations.get(activation)
        self._make_inner_layers()

    def _make_inner_layers(self) -> None:
        self.intermediate_dense = self._inner_layer("intermediate")

    def _inner_layer(self, name: str) -> keras.layers.Dense:
        return keras.layers.Dense(
            self.intermediate_dim, self.activation, dtype=self.dtype_policy, name=name
        )

    @property
    def dense_layers(self) -> list[keras.layers.Dense]:
        """The `Dense` layers with W_1 and W_2."""
        return [self.intermediate_dense, self.output_dense]

    def build(self, input_shape: Shape) -> None:
        self.output_dense = keras.layers.Dense(
            input_shape[-1], dtype=self.dtype_policy, name="output"
        )
        for dense in self.dense_layers:
            dense.build(input_shape)
            input_shape = (*input_shape[:-1], dense.units)

    def call(self, inputs: Tensor) -> Tensor:
        return self.output_dense(self.intermediate_dense(inputs))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": serialize_activation(self.activation),
        }


def get_activation(activation: Activation) -> Callable:
    """Return the activation function of a name, a configuration or a function.

    Raises:
        UserError: if there is no such function.
    """
    try:
        return keras.activations.get(activation)
    except (TypeError, ValueError) as error:
        raise UserError(
            "`activation` must be a function, or the name of one of Keras's activations. "
            f"Received: activation={activation!r}"
        ) from error


def serialize_activation(activation: Callable) -> str | dict[str, Any]:
    """Return the name of one of Keras's activations, or the configuration of another function.

    `keras.activations.serialize` returns the same, but it imports TensorFlow wherever that is
    installed, which takes seconds.

    Args:
        activation: a result of `keras.activations.get`.
    """
    name = getattr(activation, "__name__", "")
    if getattr(keras.activations, name, None) is activation:
        return name
    return keras.activations.serialize(activation)
