from typing import Any

import keras

from keras_transformer.annotations import Shape, Tensor
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
        return_attention_scores: whether to also return the attention weights. Not supported with
            an `attention_window`.
        training: whether to apply dropout.
        mask: the mask that Keras keeps with `inputs`, such as the mask of an embedding with
            `mask_zero=True`.

    Returns:
        Float tensor `(batch, source, hidden_dim)`; with `return_attention_scores`, a tuple of
        this tensor and the weights `(batch, num_heads, source, source)`.

    Raises:
        UserError: if a size is not a positive integer, `key_dim` is left out and `num_heads` does
            not divide `hidden_dim`, or `attention_window` is not odd or comes with
            `return_attention_scores`.
    """

    def __init__(self, *args: Any, attention_window: int | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.attention_window = attention_window

    @property
    def dense_layers(self) -> list[keras.layers.Dense]:
        """The `Dense` layers of the attention and the feed-forward network."""
        return [*self.self_attention.dense_layers, *self.feed_forward.dense_layers]

    def build(self, input_shape: Shape) -> None:
        window = {"attention_window": self.attention_window}
        self.self_attention = self._make_attention("self_attention", input_shape, **window)
        self._make_norm("self_attention")
        self.self_attention.build(input_shape)
        self.feed_forward.build(input_shape)
        self._build_norms(input_shape, "self_attention", "feed_forward")

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        mask: Tensor = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        padding_mask = mask if padding_mask is None else padding_mask
        # (batch, source) -> (batch, 1, source): every query sees the same positions.
        attention_mask = None if padding_mask is None else padding_mask[:, None, :]
        options = {"attention_mask": attention_mask, "training": training}
        attention_scores = []

        def self_attention(x):
            if not return_attention_scores:
                return self.self_attention(x, **options)
            outputs, weights = self.self_attention(x, **options, return_attention_scores=True)
            attention_scores.append(weights)
            return outputs

        x = self._residual(inputs, self_attention, self.self_attention_norm, training)
        x = self._residual(x, self.feed_forward, self.feed_forward_norm, training)
        return (x, *attention_scores) if attention_scores else x

    def compute_output_spec(
        self, inputs: Tensor, *args: Any, return_attention_scores: bool = False, **kwargs: Any
    ) -> Tensor | tuple[Tensor, Tensor]:
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return outputs
        _, weights = self.self_attention.compute_output_spec(inputs, return_attention_scores=True)
        return outputs, weights

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention_window": self.attention_window}
