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

from keras_transformer.annotations import DType, Tensor
from keras_transformer.layers import (
    Dropout,
    LearnedPositionEncoding,
    SinePositionEncoding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.multi_head_attention import Cache
from keras_transformer.layers.tensor_ops import padding_mask
from keras_transformer.layers.transformer_layer import TransformerLayer
from keras_transformer.models.config import TransformerConfig

_LAYER_OPTIONS = (
    *("intermediate_dim", "num_heads", "key_dim", "value_dim", "dropout", "activation"),
    *("normalize_first", "layer_norm_epsilon", "use_bias"),
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


class Stack:
    """The common part of encoder and decoder: the embedding, and the layers."""

    name: str
    layer_class: type[TransformerLayer]

    def __init__(self, config: TransformerConfig, token_embedding: Any, dtype: DType):
        self.token_embedding = token_embedding
        self.embedding_scale = config.hidden_dim**0.5 if config.scale_embeddings else 1.0
        name = f"{self.name}_position_encoding"
        if config.max_length is None:  # The config has it with learned positions only.
            self.position_encoding = SinePositionEncoding(dtype=dtype, name=name)
        else:
            self.position_encoding = LearnedPositionEncoding(
                config.max_length, dtype=dtype, name=name
            )
        self.dropout = Dropout(config.dropout, dtype=dtype, name=f"{self.name}_dropout")
        options = self.layer_options(config)
        self.layers = [
            self.layer_class(**options, dtype=dtype, name=f"{self.name}_layer_{i}")
            for i in range(self.num_layers(config))
        ]
        self.layer_norm = None
        if config.normalize_first:  # A post-norm layer ends with a normalization of its own.
            self.layer_norm = self.make_norm("norm", config, dtype)

    def make_norm(
        self, name: str, config: TransformerConfig, dtype: DType
    ) -> keras.layers.LayerNormalization:
        """Return a layer normalization of the stack."""
        return keras.layers.LayerNormalization(
            epsilon=config.layer_norm_epsilon, dtype=dtype, name=f"{self.name}_{name}"
        )

    def num_layers(self, config: TransformerConfig) -> int:
        """Return the number of layers."""
        return config.num_layers

    def layer_options(self, config: TransformerConfig) -> dict[str, Any]:
        """Return the arguments of each layer."""
        return {name: getattr(config, name) for name in _LAYER_OPTIONS}

    def embed(
        self,
        token_ids: Tensor,
        positions: Tensor = None,
        added: Tensor = None,
        training: bool | None = None,
    ) -> Tensor:
        """Return embeddings times sqrt(d_model), plus positions, with dropout (sections 3.4, 3.5
        and 5.4).

        `added` is a further summand, `(batch, length, hidden_dim)`, or None.
        """
        x = self.token_embedding(ops.maximum(token_ids, 0))
        x = ops.multiply(x, self._scale(token_ids, x.dtype))
        x = self.position_encoding(x, positions=positions)
        if added is not None:
            x = ops.add(x, added)
        return self.dropout(x, training=training)

    def _scale(self, token_ids: Tensor, dtype: DType) -> Tensor:
        """Return the factor of each embedding: NaN for an id outside the vocabulary.

        Backends differ in how they look up such ids; XLA returns the last row.
        """
        is_known = ops.less(token_ids, self.token_embedding.input_dim)
        scale = ops.where(is_known, self.embedding_scale, math.nan)
        return ops.expand_dims(ops.cast(scale, dtype), -1)

    def finish(self, x: Tensor, embedded: Tensor, training: bool | None = None) -> Tensor:
        """Return the output of the stack, from the output of its last layer.

        A derived class may also use `embedded`, the result of `embed`.
        """
        return x if self.layer_norm is None else self.layer_norm(x)

    @property
    def dense_layers(self) -> list[keras.layers.Dense]:
        """The `Dense` layers of all layers."""
        return [dense for layer in self.layers for dense in layer.dense_layers]


class Encoder(Stack):
    """The encoder stack."""

    name = "encoder"
    layer_class = TransformerEncoderLayer

    def layer_options(self, config: TransformerConfig) -> dict[str, Any]:
        return {**super().layer_options(config), "attention_window": config.attention_window}

    def __call__(self, token_ids: Tensor, training: bool | None = None) -> Tensor:
        mask = padding_mask(token_ids)
        x = embedded = self.embed(token_ids, training=training)
        for layer in self.layers:
            x = layer(x, padding_mask=mask, training=training)
        return self.finish(x, embedded, training)


class Decoder(Stack):
    """The decoder stack and the projection to logits.

    A derived class may override `added_to_embeddings` and `loss_factors`, as a model does whose
    decoder reads or predicts more than tokens.
    """

    name = "decoder"
    layer_class = TransformerDecoderLayer

    def num_layers(self, config: TransformerConfig) -> int:
        return config.decoder_layers

    def __call__(
        self,
        token_ids: Tensor,
        encoder_sequence: Tensor,
        encoder_token_ids: Tensor,
        training: bool | None = None,
    ) -> Tensor:
        """Return the logits of whole targets."""
        sequence, _ = self.sequence(token_ids, encoder_sequence, encoder_token_ids, training)
        return self.logits(sequence)

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
        encoder_token_ids: Tensor,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the vectors that are projected to the logits of whole targets, `(batch, target,
        hidden_dim)`, and the result of `added_to_embeddings`."""
        mask = padding_mask(encoder_token_ids)
        added = self.added_to_embeddings(encoder_sequence, encoder_token_ids, token_ids)
        x = embedded = self.embed(token_ids, added=added, training=training)
        for layer in self.layers:
            x = layer(x, encoder_sequence, encoder_padding_mask=mask, training=training)
        return self.finish(x, embedded, training), added

    def step(
        self,
        token_ids: Tensor,
        encoder_padding_mask: Tensor,
        cache: Sequence[dict[str, Cache]],
        cache_index: int | Tensor,
        added: Tensor = None,
        positions: Tensor = None,
        self_attention_mask: Tensor = None,
        return_attention_scores: bool = False,
        output_rows: Sequence[Tensor] | None = None,
    ) -> tuple:
        """Compute logits step by step: the keys and values of the tokens are written into `cache`
        from `cache_index` on.

        Returns the logits, the cache and, with `return_attention_scores`, the last layer's
        encoder-decoder attention weights.
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
        logits = self.logits(self.finish(x, embedded, False), output_rows)
        return logits, new_cache, *attention_scores

    def logits(self, sequence: Tensor, output_rows: Sequence[Tensor] | None = None) -> Tensor:
        """Return the logits of all tokens, or of the tokens of `output_rows`."""
        if output_rows is None:
            logits = self.token_embedding(sequence, reverse=True)
        else:
            logits = ops.matmul(sequence, ops.transpose(output_rows[0]))
        return ops.cast(logits, "float32")

    def output_rows(self, token_ids: Tensor) -> list[Tensor]:
        """Return the rows of the matrix E of some tokens, `(n, hidden_dim)`, in a list.

        Rows of a quantized matrix are converted to floats: a search that gathers them once then
        computes as many products as it has candidates.
        """
        layer = self.token_embedding
        if layer.tie_weights:
            rows = ops.take(layer.embeddings, token_ids, axis=0)
        else:
            rows = ops.transpose(ops.take(layer.reverse_embeddings, token_ids, axis=1))
        rows = ops.cast(rows, layer.compute_dtype)
        if layer.quantization_mode is not None:
            is_tied = layer.tie_weights
            scale = layer.embeddings_scale if is_tied else layer.reverse_embeddings_scale
            rows = rows / ops.expand_dims(ops.take(scale, token_ids, axis=0), -1)
        return [rows]

    def logit_factors(self, sequence: Tensor) -> tuple[Tensor, Tensor]:
        """Return two matrices whose product `sequence E^T` is the logits."""
        layer = self.token_embedding
        if layer.tie_weights:
            return sequence, layer.embeddings
        return sequence, ops.transpose(layer.reverse_embeddings)
