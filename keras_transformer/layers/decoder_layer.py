from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.errors import UserError
from keras_transformer.layers.multi_head_attention import Cache, symbolic_like
from keras_transformer.layers.transformer_layer import TransformerLayer


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerDecoderLayer(TransformerLayer):
    """One layer of the decoder stack: self-attention to earlier positions, attention to the
    encoder's output, then feed-forward (section 3.1).

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
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(batch, target, hidden_dim)`.
        encoder_sequence: float tensor `(batch, source, hidden_dim)`, the encoder's output. Not
            needed with `cache`, which contains its keys and values.
        encoder_padding_mask: boolean tensor `(batch, source)`, false at padding. Defaults to
            `encoder_sequence_mask`.
        cache: the result of `make_cache`, to decode step by step.
        cache_index: integer scalar, the position of `inputs` in the cache; needed with `cache`.
        self_attention_mask: boolean tensor that broadcasts to `(batch, target, cached positions)`,
            true where a position may attend. Defaults to all positions up to its own, except the
            positions that `inputs_mask` excludes (without `cache`).
        return_attention_scores: whether to also return the encoder-decoder attention weights.
        training: whether to apply dropout.
        inputs_mask, encoder_sequence_mask: boolean tensors `(batch, target)` and `(batch, source)`,
            false at padding. Keras passes the masks that it keeps with `inputs` and
            `encoder_sequence`, such as the masks of embeddings with `mask_zero=True`.

    Returns:
        Float tensor `(batch, target, hidden_dim)`; with `cache` or `return_attention_scores`, a
        tuple of this tensor, the updated cache (with `cache`) and the weights `(batch, num_heads,
        target, source)` (with `return_attention_scores`).

    Raises:
        UserError: if a size is not a positive integer, or `key_dim` is left out and `num_heads`
            does not divide `hidden_dim`; if neither `encoder_sequence` nor `cache` is given.
    """

    @property
    def dense_layers(self) -> list[keras.layers.Dense]:
        """The `Dense` layers of both attentions and the feed-forward network."""
        parts = (self.self_attention, self.cross_attention, self.feed_forward)
        return [layer for part in parts for layer in part.dense_layers]

    def build(self, inputs_shape: Shape, encoder_sequence_shape: Shape | None = None) -> None:
        self._add_norm("feed_forward", inputs_shape)
        self.self_attention = self._make_attention("self_attention", inputs_shape)
        self.self_attention.build(inputs_shape)
        self.cross_attention = self._make_attention("cross_attention", inputs_shape)
        self.cross_attention.build(inputs_shape, encoder_sequence_shape)
        self.feed_forward.build(inputs_shape)
        self._add_norm("self_attention", inputs_shape)
        self._add_norm("cross_attention", inputs_shape)

    def call(
        self,
        inputs: Tensor,
        encoder_sequence: Tensor = None,
        encoder_padding_mask: Tensor = None,
        cache: dict[str, Cache] | None = None,
        cache_index: int | Tensor | None = None,
        self_attention_mask: Tensor = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        inputs_mask: Tensor = None,
        encoder_sequence_mask: Tensor = None,
    ) -> Tensor | tuple:
        if encoder_sequence is None and cache is None:
            raise UserError(
                "Expected `encoder_sequence`, the encoder's output, or a `cache` made from it. "
                "Received neither."
            )
        if encoder_padding_mask is None:
            encoder_padding_mask = encoder_sequence_mask
        caches: dict[str, Any] = dict(cache or {"self": None, "cross": None})
        attention_scores = []
        if self_attention_mask is None:
            self_attention_mask = self._causal_mask(inputs, cache, cache_index, inputs_mask)
        # (batch, source) -> (batch, 1, source): every query sees the same positions.
        cross_mask = None if encoder_padding_mask is None else encoder_padding_mask[:, None, :]

        def self_attention(x):
            options = {"cache": caches["self"], "cache_index": cache_index, "training": training}
            outputs = self._attend_to_target(x, inputs, self_attention_mask, **options)
            if cache_index is not None:
                outputs, caches["self"] = outputs
            return outputs

        def cross_attention(x):
            options = {"attention_mask": cross_mask, "cache": caches["cross"]}
            if not return_attention_scores:
                return self.cross_attention(x, encoder_sequence, **options, training=training)
            outputs, weights = self.cross_attention(
                x, encoder_sequence, **options, return_attention_scores=True, training=training
            )
            attention_scores.append(weights)
            return outputs

        x = self._residual(inputs, self_attention, self.self_attention_norm, training)
        x = self._residual(x, cross_attention, self.cross_attention_norm, training)
        x = self._residual(x, self.feed_forward, self.feed_forward_norm, training)
        more = [*([] if cache_index is None else [caches]), *attention_scores]
        return (x, *more) if more else x

    def _attend_to_target(
        self, x: Tensor, inputs: Tensor, attention_mask: Tensor, **options: Any
    ) -> Any:
        """Return the output of the self-attention for its input `x`.

        A derived class may attend in another way, also to the `inputs` of the layer.
        """
        return self.self_attention(x, attention_mask=attention_mask, **options)

    def _causal_mask(
        self,
        inputs: Tensor,
        cache: dict[str, Cache] | None,
        cache_index: int | Tensor | None,
        inputs_mask: Tensor,
    ) -> Tensor:
        """Return a mask `(1 or batch, target, source)`, true where the source position is not later
        than the target position and, without a cache, is not padding.
        """
        queries = ops.arange(ops.shape(inputs)[1], dtype="int32")
        if cache is not None:
            keys = ops.arange(ops.shape(cache["self"][0])[3], dtype="int32")
            return (ops.expand_dims(queries + cache_index, -1) >= keys)[None]
        mask = (ops.expand_dims(queries, -1) >= queries)[None]
        return mask if inputs_mask is None else ops.logical_and(mask, inputs_mask[:, None, :])

    def make_cache(self, encoder_sequence: Tensor, length: int | Tensor) -> dict[str, Cache]:
        """Return an empty cache for step-by-step decoding of up to `length` positions.

        Args:
            encoder_sequence: float tensor `(batch, source, hidden_dim)`, the encoder's output.
            length: the largest number of target positions.

        Returns:
            `{"self": (key, value), "cross": (key, value)}`: zeros in place of the keys and values
            of the target, and the keys and values of the source.
        """
        return {
            "self": self.self_attention.empty_cache(ops.shape(encoder_sequence)[0], length),
            "cross": self.cross_attention.project(encoder_sequence),
        }

    def compute_output_spec(
        self,
        inputs: Tensor,
        encoder_sequence: Tensor = None,
        encoder_padding_mask: Tensor = None,
        cache: dict[str, Cache] | None = None,
        cache_index: int | Tensor | None = None,
        self_attention_mask: Tensor = None,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ) -> Tensor | tuple:
        outputs = [keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)]
        if cache_index is not None:
            outputs.append(keras.tree.map_structure(symbolic_like, cache))
        if return_attention_scores:
            cross = {"cache": None if cache is None else cache["cross"]}
            outputs += self.cross_attention.compute_output_spec(
                inputs, encoder_sequence, **cross, return_attention_scores=True
            )[1:]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
