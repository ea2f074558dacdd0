from collections.abc import Callable, Mapping
from typing import Any

import keras

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.errors import UserError
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.feed_forward import Activation, FeedForward, serialize_activation
from keras_transformer.layers.multi_head_attention import MultiHeadAttention

POST_NORM, PRE_NORM = "sdan", "nsda"
"""The steps of a sub-layer: section 3.1's, and the pre-norm form."""


def check_steps(name: str, steps: str, letters: str) -> None:
    """Raise a `UserError` unless `steps` has only these letters, and "s" once if it is one of them.

    Args:
        name: name of the option.
        steps: its value.
        letters: the letters of `run_steps` that it may have.
    """
    is_text = isinstance(steps, str) and set(steps) <= set(letters)
    if not is_text or ("s" in letters and steps.count("s") != 1):
        once = ', with "s" once' if "s" in letters else ""
        raise UserError(
            f"`{name}` must be a string of the letters {', '.join(letters)}{once}. "
            f"Received: {name}={steps!r}"
        )


def run_steps(x: Tensor, steps: str, functions: Mapping[str, Callable], residual: Tensor) -> Tensor:
    """Apply the steps around a part of the model, in their order.

    Args:
        x: float tensor `(batch, length, hidden_dim)`.
        steps: a string of letters: "n" is a layer normalization, "d" dropout, and "a" adds
            `residual`.
        functions: dict from "n" and "d" to functions of a tensor.
        residual: float tensor of the shape of `x`.

    Returns:
        Float tensor `(batch, length, hidden_dim)`.
    """
    for step in steps:
        x = residual + x if step == "a" else functions[step](x)
    return x


class TransformerLayer(keras.layers.Layer):
    """The base class of encoder and decoder layers: their sizes, and the wrapping of sub-layers."""

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation: Activation = "relu",
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-6,
        use_bias: bool = False,
        steps: str | None = None,
        feed_forward_depth: int = 2,
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
        self.attention_dropout = attention_dropout
        self.activation = keras.activations.get(activation)
        self.normalize_first = normalize_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.use_bias = use_bias
        if steps is None:
            steps = PRE_NORM if normalize_first else POST_NORM
        check_steps("steps", steps, "nsda")
        self.steps = steps
        self.feed_forward_depth = feed_forward_depth
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)
        self.feed_forward = FeedForward(
            intermediate_dim,
            self.activation,
            feed_forward_depth,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self._make_norms("feed_forward")

    def _make_norms(self, sublayer):
        """Set the attributes `{sublayer}_norm` and `{sublayer}_pre_norm`, None where not needed.

        A layer with only one of them has it as `{sublayer}_norm`.
        """
        before, after = ("n" in part for part in self.steps.split("s"))
        for name, is_needed in (("norm", before or after), ("pre_norm", before and after)):
            name = f"{sublayer}_{name}"
            setattr(self, name, self._layer_norm(name) if is_needed else None)

    def _build_norms(self, inputs_shape, *sublayers):
        for name in ("norm", "pre_norm"):
            for sublayer in sublayers:
                if (norm := getattr(self, f"{sublayer}_{name}")) is not None:
                    norm.build(inputs_shape)

    def _layer_norm(self, name):
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )

    def _attention(self, name, hidden_dim, **options):
        if self.key_dim is None and (self.num_heads < 1 or hidden_dim % self.num_heads):
            raise UserError(
                "Without `key_dim`, `num_heads` must be a positive integer that divides the "
                "inputs' last axis. "
                f"Received: num_heads={self.num_heads}, inputs of size {hidden_dim}"
            )
        return MultiHeadAttention(
            self.num_heads,
            hidden_dim // self.num_heads if self.key_dim is None else self.key_dim,
            self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
            **options,
        )

    def _residual(self, x, sublayer, name, training):
        """Return LayerNorm(x + Dropout(Sublayer(x))), section 3.1; or with other `steps`."""
        norm, pre_norm = (getattr(self, f"{name}_{kind}") for kind in ("norm", "pre_norm"))
        functions = {"n": pre_norm or norm, "d": lambda y: self.dropout_layer(y, training=training)}
        before, after = self.steps.split("s")
        y = sublayer(run_steps(x, before, functions, x))
        return run_steps(y, after, {**functions, "n": norm}, x)

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
            "attention_dropout": self.attention_dropout,
            "activation": serialize_activation(self.activation),
            "normalize_first": self.normalize_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "use_bias": self.use_bias,
            "steps": self.steps,
            "feed_forward_depth": self.feed_forward_depth,
        }
