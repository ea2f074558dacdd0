from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.errors import UserError
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.feed_forward import Activation, FeedForward, serialize_activation
from keras_transformer.layers.multi_head_attention import MultiHeadAttention


class TransformerLayer(keras.layers.Layer):
    """The base class of encoder and decoder layers: their sizes, and the wrapping of sub-layers.

    A derived class may override the methods that make sub-layers and norms, and `_residual`.
    """

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.1,
        activation: Activation = "relu",
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-6,
        use_bias: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.intermediate_dim = intermediate_dim
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.activation = keras.activations.get(activation)
        self.normalize_first = normalize_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.use_bias = use_bias
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)
        self.feed_forward = self._make_feed_forward()

    def _make_feed_forward(self) -> FeedForward:
        return FeedForward(
            self.intermediate_dim, self.activation, dtype=self.dtype_policy, name="feed_forward"
        )

    def _make_attention(
        self,
        name: str,
        inputs_shape: Shape,
        attention_class: type[MultiHeadAttention] = MultiHeadAttention,
        **options: Any,
    ) -> MultiHeadAttention:
        hidden_dim: int = inputs_shape[-1]  # pyright: ignore[reportAssignmentType]
        if self.key_dim is None and (self.num_heads < 1 or hidden_dim % self.num_heads):
            raise UserError(
                "Without `key_dim`, `num_heads` must be a positive integer that divides the "
                "inputs' last axis. "
                f"Received: num_heads={self.num_heads}, inputs of size {hidden_dim}"
            )
        return attention_class(
            self.num_heads,
            hidden_dim // self.num_heads if self.key_dim is None else self.key_dim,
            self.value_dim,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
            **options,
        )

    def _add_norm(self, sublayer: str, inputs_shape: Shape, kind: str = "norm") -> None:
        """Make the layer normalization of a sub-layer, the attribute `{sublayer}_{kind}`."""
        norm = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=f"{sublayer}_{kind}"
        )
        norm.build(inputs_shape)
        setattr(self, norm.name, norm)

    def _residual(
        self,
        x: Tensor,
        sublayer: Callable[[Tensor], Tensor],
        norm: keras.layers.LayerNormalization,
        training: bool | None,
    ) -> Tensor:
        """Return LayerNorm(x + Dropout(Sublayer(x))), section 3.1, or its pre-norm form."""
        if self.normalize_first:
            return x + self.dropout_layer(sublayer(norm(x)), training=training)
        return norm(x + self.dropout_layer(sublayer(x), training=training))

    def compute_output_shape(self, input_shape: Shape, *args: Any, **kwargs: Any) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "activation": serialize_activation(self.activation),
            "normalize_first": self.normalize_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "use_bias": self.use_bias,
        }
