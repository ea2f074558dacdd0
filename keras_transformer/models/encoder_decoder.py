"""The encoder and the decoder as plain Python objects.

`Transformer` builds its graph with them, and its `encode` and `decode` call them one at a time.
"""

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import DType, Shape, Tensor
from keras_transformer.layers import (
    Dropout,
    LearnedPositionEncoding,
    SinePositionEncoding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.multi_head_attention import Cache
from keras_transformer.layers.padding_mask import padding_mask
from keras_transformer.layers.transformer_layer import TransformerLayer, run_steps
from keras_transformer.models.config import TransformerConfig
from keras_transformer.reserved_ids import START_ID

_LAYER_OPTIONS = (
    *("intermediate_dim", "num_heads", "key_dim", "value_dim", "dropout", "attention_dropout"),
    *("activation", "normalize_first", "layer_norm_epsilon", "use_bias"),
)

_has_zero_embeddings = contextvars.ContextVar("_has_zero_embeddings", default=False)


@contextlib.contextmanager
def zero_embeddings() -> Iterator[None]:
    """Initialize the embeddings of new models with zeros within the block.

    It is for models whose weights are assigned later. To draw random values, TensorFlow takes three
    times their size, and its CPU allocator (oneDNN's) never returns the memory.
    """
    token = _has_zero_embeddings.set(True)
    try:
        yield
    finally:
        _has_zero_embeddings.reset(token)


def make_embeddings(
    config: TransformerConfig, dtype: DType
) -> tuple[keras.layers.Embedding, keras.layers.ReversibleEmbedding]:
    """Make the embedding layers of a model.

    Their initializer gives variance 1 to the embeddings times sqrt(d_model), and to the logits.

    Returns:
        The pair of the source's layer and the target's layer. They are the same layer unless the
        source has its own vocabulary.
    """
    hidden_dim = config.hidden_dim
    if _has_zero_embeddings.get():
        initializer = keras.initializers.Zeros()
    else:
        initializer = keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
    options = {"embeddings_initializer": initializer, "dtype": dtype}
    target = keras.layers.ReversibleEmbedding(
        config.vocabulary_size,
        hidden_dim,
        tie_weights=config.tie_weights,
        name="token_embedding",
        **options,
    )
    if config.source_vocabulary_size is None:
        return target, target
    source = keras.layers.Embedding(
        config.source_vocabulary_size, hidden_dim, name="source_token_embedding", **options
    )
    return source, target


class OutputBias(keras.layers.Layer):
    """A bias that is added to the logits. The paper has none (section 3.4)."""

    def build(self, logits_shape: Shape) -> None:
        self.bias = self.add_weight(shape=logits_shape[-1:], initializer="zeros", name="bias")

    def call(self, logits: Tensor) -> Tensor:
        return logits + self.bias


class _Stack:
    """The common part of encoder and decoder: the embedding, and the layers."""

    name: str
    layer_class: type[TransformerLayer]
    zero_start = False  # whether the embedding of the start token is zero

    def __init__(self, config: TransformerConfig, token_embedding, dtype, num_layers, **options):
        self.token_embedding = token_embedding
        self.embedding_scale = config.hidden_dim**0.5 if config.scale_embeddings else 1.0
        if config.max_length is None:  # The config has it with learned positions only.
            self.position_encoding = SinePositionEncoding(
                config.max_wavelength,
                config.first_position,
                dtype=dtype,
                name=f"{self.name}_position_encoding",
            )
        else:
            self.position_encoding = LearnedPositionEncoding(
                config.max_length, dtype=dtype, name=f"{self.name}_position_encoding"
            )
        self.dropout = Dropout(config.dropout, dtype=dtype, name=f"{self.name}_dropout")
        options = {name: getattr(config, name) for name in _LAYER_OPTIONS} | options
        options = {"feed_forward_depth": config.feed_forward_depth, **options}
        self.layers = [
            self.layer_class(
                steps=config.sublayer_steps,
                **options,
                dtype=dtype,
                name=f"{self.name}_layer_{i}",
            )
            for i in range(num_layers)
        ]

        def norm(name):
            return keras.layers.LayerNormalization(
                epsilon=config.layer_norm_epsilon, dtype=dtype, name=f"{self.name}_{name}"
            )

        self.embedding_steps = config.embedding_steps
        self.embedding_norm = norm("embedding_norm") if "n" in self.embedding_steps else None
        # A post-norm layer ends with a normalization of its own.
        is_normal = config.normalize_first if config.final_norm is None else config.final_norm
        steps = config.final_steps
        self.final_steps: str = ("n" if is_normal else "") if steps is None else steps
        self.layer_norm = norm("norm") if "n" in self.final_steps else None

    def embed(self, token_ids, positions=None, added=None, training=None):
        """Return embeddings times sqrt(d_model), plus positions, with dropout (sections 3.4, 3.5
        and 5.4).

        `added` is a further summand, `(batch, length, hidden_dim)`, or None.
        """
        x = self.token_embedding(ops.maximum(token_ids, 0))
        x = ops.multiply(x, self._scale(token_ids, x.dtype))
        x = self.position_encoding(x, positions=positions)
        if added is not None:
            x = ops.add(x, added)
        functions = {"n": self.embedding_norm, "d": lambda x: self.dropout(x, training=training)}
        return run_steps(x, self.embedding_steps, functions, x)

    def _scale(self, token_ids, dtype):
        """Return the factor of each embedding: NaN for an id outside the vocabulary.

        Backends differ in how they look up such ids; XLA returns the last row.
        """
        is_known = ops.less(token_ids, self.token_embedding.input_dim)
        scale = ops.where(is_known, self.embedding_scale, math.nan)
        if self.zero_start:
            scale = ops.where(ops.equal(token_ids, START_ID), 0.0, scale)
        return ops.expand_dims(ops.cast(scale, dtype), -1)

    @property
    def dense_layers(self):
        layers = dict.fromkeys(self.layers)  # a layer may be there several times
        return [dense for layer in layers for dense in layer.dense_layers]

    def finish(self, x, embedded, training=None):
        """Return the stack's output, from its last layer's output and the result of `embed`."""
        functions = {"n": self.layer_norm, "d": lambda x: self.dropout(x, training=training)}
        return run_steps(x, self.final_steps, functions, embedded)


class Encoder(_Stack):
    name = "encoder"
    layer_class = TransformerEncoderLayer

    def __init__(
        self, config: TransformerConfig, token_embedding: keras.layers.Embedding, dtype: DType
    ):
        super().__init__(
            config,
            token_embedding,
            dtype,
            config.num_layers,
            attention_window=config.attention_window,
        )

    def __call__(self, token_ids: Tensor, training: bool | None = None) -> Tensor:
        mask = padding_mask(token_ids)
        x = embedded = self.embed(token_ids, training=training)
        for layer in self.layers:
            x = layer(x, padding_mask=mask, training=training)
        return self.finish(x, embedded, training)


class Decoder(_Stack):
    """The decoder stack and the projection to logits.

    A derived class may override `added_to_embeddings` and `loss_factors`, as a model does whose
    decoder reads or predicts more than tokens.
    """

    name = "decoder"
    layer_class = TransformerDecoderLayer

    def __init__(
        self,
        config: TransformerConfig,
        token_embedding: keras.layers.ReversibleEmbedding,
        dtype: DType,
    ):
        super().__init__(
            config,
            token_embedding,
            dtype,
            config.decoder_layers,
            intermediate_dim=config.decoder_intermediate_dim or config.intermediate_dim,
            feed_forward_depth=config.decoder_feed_forward_depth or config.feed_forward_depth,
            self_attention=config.decoder_type,
            normalize_keys=config.normalize_keys,
        )
        if config.tied_decoder_layers is not None:
            self.layers = [self.layers[number - 1] for number in config.tied_decoder_layers]
        self.zero_start = config.zero_start
        self.output_bias = None
        if config.output_bias:
            self.output_bias = OutputBias(dtype="float32", name="output_bias")

    def __call__(
        self,
        token_ids: Tensor,
        encoder_sequence: Tensor,
        encoder_padding_mask: Tensor,
        added: Tensor = None,
        training: bool | None = None,
    ) -> Tensor:
        return self.logits(
            self.sequence(
                token_ids, encoder_sequence, encoder_padding_mask, added, training=training
            )
        )

    def added_to_embeddings(
        self, encoder_sequence: Tensor, encoder_token_ids: Tensor, token_ids: Tensor
    ) -> Tensor:
        """Return a tensor `(batch, target, hidden_dim)` that is added to the embeddings of whole
        targets, or None."""
        return None

    def loss_factors(
        self, sequence: Tensor, added: Tensor
    ) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor] | None]:
        """Return the results of `Transformer.logit_factors` for the result of `sequence`."""
        return *self.logit_factors(sequence), None

    def sequence(
        self,
        token_ids: Tensor,
        encoder_sequence: Tensor,
        encoder_padding_mask: Tensor,
        added: Tensor = None,
        training: bool | None = None,
    ) -> Tensor:
        """Return the vectors that are projected to logits, `(batch, target, hidden_dim)`.

        `added` is added to the embeddings, `(batch, target, hidden_dim)`.
        """
        x = embedded = self.embed(token_ids, added=added, training=training)
        for layer in self.layers:
            x = layer(
                x, encoder_sequence, encoder_padding_mask=encoder_padding_mask, training=training
            )
        return self.finish(x, embedded, training)

    def attention(
        self,
        token_ids: Tensor,
        encoder_sequence: Tensor,
        encoder_padding_mask: Tensor,
        added: Tensor = None,
    ) -> list[Tensor]:
        """Return the cross-attention weights per layer, `(batch, num_heads, target, source)`."""
        x = self.embed(token_ids, added=added, training=False)
        attention_scores = []
        for layer in self.layers:
            x, weights = layer(
                x,
                encoder_sequence,
                encoder_padding_mask=encoder_padding_mask,
                return_attention_scores=True,
                training=False,
            )
            attention_scores.append(weights)
        return attention_scores

    def step_sequence(
        self,
        token_ids: Tensor,
        encoder_padding_mask: Tensor,
        cache: Sequence[dict[str, Cache]],
        cache_index: int | Tensor,
        added: Tensor = None,
        positions: Tensor = None,
        self_attention_mask: Tensor = None,
        return_attention_scores: bool = False,
    ) -> tuple:
        """Compute `sequence` step by step: the keys and values of the tokens are written into
        `cache` from `cache_index` on.

        Returns a float tensor `(batch, target, hidden_dim)`, the cache and, with
        `return_attention_scores`, the last layer's encoder-decoder attention weights.
        """
        if positions is None:
            positions = cache_index + ops.arange(ops.shape(token_ids)[1], dtype="int32")
        x = embedded = self.embed(token_ids, positions=positions, added=added, training=False)
        new_cache, attention_scores = [], []
        for i, (layer, layer_cache) in enumerate(zip(self.layers, cache)):
            is_wanted = return_attention_scores and i == len(self.layers) - 1
            x, layer_cache, *attention_scores = layer(
                x,
                encoder_padding_mask=encoder_padding_mask,
                cache=layer_cache,
                cache_index=cache_index,
                self_attention_mask=self_attention_mask,
                return_attention_scores=is_wanted,
                training=False,
            )
            new_cache.append(layer_cache)
        return self.finish(x, embedded, False), new_cache, *attention_scores

    def step(self, *args: Any, **kwargs: Any) -> tuple:
        """Return the results of `step_sequence`, with logits in place of the first."""
        sequence, *others = self.step_sequence(*args, **kwargs)
        return self.logits(sequence), *others

    def logits(self, sequence: Tensor) -> Tensor:
        logits = ops.cast(self.token_embedding(sequence, reverse=True), "float32")
        return logits if self.output_bias is None else self.output_bias(logits)

    def logit_factors(self, sequence: Tensor) -> tuple[Tensor, Tensor]:
        """Return two matrices whose product `sequence E^T` is the logits."""
        layer = self.token_embedding
        table = layer.embeddings if layer.tie_weights else ops.transpose(layer.reverse_embeddings)
        if self.output_bias is None:
            return sequence, table
        # The bias is one more column of E, which is multiplied by ones.
        ones = ops.ones_like(sequence[..., :1])
        bias = ops.cast(self.output_bias.bias, table.dtype)
        table = ops.concatenate([table, ops.expand_dims(bias, -1)], axis=-1)
        return ops.concatenate([sequence, ones], axis=-1), table
