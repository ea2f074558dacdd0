from typing import Any

import keras

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.layers.restricted_attention import RestrictedSelfAttention
from keras_transformer.layers.transformer_layer import TransformerLayer


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerEncoderLayer(TransformerLayer):
    """One layer of the encoder stack: self-attention, then feed-forward (section 3.1).

    Each sub-layer is wrapped as `LayerNorm(x + Dropout(Sublayer(x)))`.

    Args:
        intermediate_dim: d_ff, the size of the feed-forward network's inner layer.
        num_heads: h, the number of attention heads.
        key_dim: d_k, the size of each head's queries and keys. Defaults to `hidden_dim //
            num_heads`, with the `hidden_dim` (d_model) of the inputs.
        value_dim: d_v, the size of each head's values. Defaults to `key_dim`.
        dropout: P_drop, on the output of each sub-layer (section 5.4).
        activation: the non-linearity of the feed-forward network.
        normalize_first: if true, `x + Dropout(Sublayer(LayerNorm(x)))` (pre-norm) in place of the
            paper's post-norm.
        layer_norm_epsilon: added to the variance in the layer normalizations.
        use_bias: whether the attention projections have biases. The paper's have none.
        attention_window: r, an odd number: a position attends to the `r // 2` before it, to itself,
            and to the `r // 2` after it (restricted self-attention, section 4). Defaults to all
            positions.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(batch, source, hidden_dim)`.
        padding_mask: boolean tensor `(batch, source)`, false at padding. Defaults to `mask`.
        training: whether to apply dropout.
        mask: the mask that Keras keeps with `inputs`, such as the mask of an embedding with
            `mask_zero=True`.

    Returns:
        Float tensor `(batch, source, hidden_dim)`.

    Raises:
        UserError: if a size is not a positive integer, `key_dim` is left out and `num_heads` does
            not divide `hidden_dim`, or `attention_window` is not odd.
    """

    def __init__(self, *args: Any, attention_window: int | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.attention_window = attention_window

    @property
    def dense_layers(self) -> list[keras.layers.Dense]:
        """The `Dense` layers of the attention and the feed-forward network."""
        return [*self.self_attention.dense_layers, *self.feed_forward.dense_layers]

    def build(self, input_shape: Shape) -> None:
        self._add_norm("feed_forward", input_shape)
        options = {}
        if self.attention_window is not None:
            options = {
                "attention_class": RestrictedSelfAttention,
                "attention_window": self.attention_window,
            }
        self.self_attention = self._make_attention("self_attention", input_shape, **options)
        self._add_norm("self_attention", input_shape)
        self.self_attention.build(input_shape)
        self.feed_forward.build(input_shape)

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor = None,
        training: bool | None = None,
        mask: Tensor = None,
    ) -> Tensor:
        padding_mask = mask if padding_mask is None else padding_mask
        # (batch, source) -> (batch, 1, source): every query sees the same positions.
        attention_mask = None if padding_mask is None else padding_mask[:, None, :]

        def self_attention(x):
            return self.self_attention(x, attention_mask=attention_mask, training=training)

        x = self._residual(inputs, self_attention, self.self_attention_norm, training)
        return self._residual(x, self.feed_forward, self.feed_forward_norm, training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention_window": self.attention_window}
