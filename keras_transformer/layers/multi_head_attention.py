import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

import keras
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.errors import UserError
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.tensor_ops import attend, masked_softmax, slice_update

# The variance of the initial W^Q, W^K and W^V, as a fraction of Glorot's. It equals Glorot's if the
# three are one matrix. With the full variance a post-norm model with dropout 0.3 learns to attend
# to the source several times more slowly, or never at the learning rates that small corpora need.
_INPUT_SCALE = 0.5

# The keys and values of all heads: `(batch, num_heads, key_dim, source)` and
# `(batch, num_heads, source, value_dim)`.
Cache: TypeAlias = tuple[Tensor, Tensor]

_record: ContextVar[dict[keras.layers.Layer, list[Tensor]] | None] = ContextVar(
    "attention_record", default=None
)


@contextlib.contextmanager
def recorded_attention(
    layers: Iterable[keras.layers.Layer],
) -> Iterator[dict[keras.layers.Layer, list[Tensor]]]:
    """Record the attention weights of some `MultiHeadAttention` layers within the block.

    Args:
        layers: the layers.

    Returns:
        A dict of layer -> list of the weights of its calls, `(batch, num_heads, target, source)`.
    """
    record = {layer: [] for layer in layers}
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)


def record_weights(layer: keras.layers.Layer, make_weights: Callable[[], Tensor]) -> None:
    """Record the weights of a layer if it is recorded. Otherwise making them costs nothing.

    Args:
        layer: the layer.
        make_weights: function that returns its weights `(batch, num_heads, target, source)`.
    """
    record = _record.get()
    if record is not None and layer in record:
        record[layer].append(make_weights())


def symbolic_like(x: Tensor) -> keras.KerasTensor:
    """Return a symbolic tensor of the shape and dtype of a tensor."""
    return keras.KerasTensor(x.shape, dtype=x.dtype)


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Multi-head scaled dot-product attention (section 3.2).

    ```
    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O
    head_i             = Attention(Q W_i^Q, K W_i^K, V W_i^V)
    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V                     (Eq. 1)
    ```

    The projections of all heads are computed as one matrix product: `W^Q` of the layer is the
    concatenation of the heads' `W_i^Q`. The softmax is computed in float32 for every dtype.

    Args:
        num_heads: h, the number of heads.
        key_dim: d_k, the size of each head's queries and keys.
        value_dim: d_v, the size of each head's values. Defaults to `key_dim`.
        dropout: probability of dropping an attention weight. The paper uses none.
        use_bias: whether the four projections have biases. The paper's have none.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        query: float tensor `(batch, target, hidden_dim)`.
        value: float tensor `(batch, source, hidden_dim)` that is projected to keys and values.
            Defaults to `query`: self-attention.
        attention_mask: boolean tensor that broadcasts to `(batch, target, source)`, true where a
            query may attend. A query that may attend to no position attends to all equally.
            Defaults to the mask that Keras keeps with `value`, if there is one.
        cache: a pair `(key, value)` of projected heads, `(batch, num_heads, key_dim, source)` (the
            keys are the columns, as in K^T) and `(batch, num_heads, source, value_dim)`, which
            replaces the projections of `value`.
        cache_index: integer scalar. If given, the keys and values of `value` are first written
            into `cache` from this position on.
        return_attention_scores: whether to also return the attention weights.
        training: whether to apply dropout.
        mask, value_mask: boolean tensors `(batch, source)`, false at padding: the masks that Keras
            keeps with `query` and `value`.

    Returns:
        Float tensor `(batch, target, hidden_dim)`; with `cache_index` or `return_attention_scores`,
        a tuple of this tensor, the updated cache (with `cache_index`) and the attention weights
        `softmax(Q K^T / sqrt(d_k))`, `(batch, num_heads, target, source)` (with
        `return_attention_scores`).

    Raises:
        UserError: if a size is not a positive integer, or `cache_index` is passed without `cache`.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        value_dim = key_dim if value_dim is None else value_dim
        sizes = {"num_heads": num_heads, "key_dim": key_dim, "value_dim": value_dim}
        for name, size in sizes.items():
            if not isinstance(size, int) or size < 1:
                raise UserError(f"`{name}` must be a positive integer. Received: {name}={size!r}")
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.query_dense = self._projection("query", num_heads * key_dim, _INPUT_SCALE)
        self.key_dense = self._projection("key", num_heads * key_dim, _INPUT_SCALE)
        self.value_dense = self._projection("value", num_heads * value_dim, _INPUT_SCALE)
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)

    @property
    def dense_layers(self) -> list[keras.layers.Dense]:
        """The projections W^Q, W^K, W^V and W^O."""
        return [self.query_dense, self.key_dense, self.value_dense, self.output_dense]

    def build(self, query_shape: Shape, value_shape: Shape | None = None) -> None:
        value_shape = query_shape if value_shape is None else value_shape
        self.query_dense.build(query_shape)
        self.key_dense.build(value_shape)
        self.value_dense.build(value_shape)
        self.output_dense = self._projection("output", query_shape[-1], 1.0)
        self.output_dense.build((*query_shape[:-1], self.num_heads * self.value_dim))

    def call(
        self,
        query: Tensor,
        value: Tensor = None,
        attention_mask: Tensor = None,
        cache: Cache | None = None,
        cache_index: int | Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        mask: Tensor = None,
        value_mask: Tensor = None,
    ) -> Tensor | tuple:
        if attention_mask is None and cache is None:
            padding_mask = mask if value is None else value_mask
            attention_mask = None if padding_mask is None else padding_mask[:, None, :]
        if cache_index is not None:
            if cache is None:
                raise UserError("`cache_index` requires a `cache`. Received: cache=None")
            cache = self._write(cache, self.project(query if value is None else value), cache_index)
        key, value = cache or self.project(query if value is None else value)
        if attention_mask is not None:
            attention_mask = ops.expand_dims(attention_mask, -3)  # the axis of the heads
        if cache is None and not return_attention_scores and self._is_fused(training):
            queries = self._split_heads(self.query_dense(query), self.key_dim)
            heads = attend(queries, key, value, attention_mask, self.key_dim**-0.5)
            return self.output_dense(self._merge_heads(heads))
        weights = masked_softmax(ops.matmul(self._scaled_query(query), key), attention_mask)
        record_weights(self, lambda: weights)
        heads = ops.matmul(self.dropout_layer(weights, training=training), value)
        outputs = [self.output_dense(self._merge_heads(heads))]
        if cache_index is not None:
            outputs.append(cache)
        if return_attention_scores:
            outputs.append(weights)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def project(self, value: Tensor) -> Cache:
        """Project `value` `(batch, source, hidden_dim)` to the heads' keys and values.

        Args:
            value: float tensor `(batch, source, hidden_dim)`.

        Returns:
            A pair for the argument `cache`: `(batch, num_heads, key_dim, source)` and
            `(batch, num_heads, source, value_dim)`.
        """
        key = self._split_heads(self.key_dense(value), self.key_dim)
        # The layout of Q K^T. Otherwise each step would transpose all cached keys.
        key = ops.transpose(key, (0, 1, 3, 2))
        return key, self._split_heads(self.value_dense(value), self.value_dim)

    def empty_cache(self, batch_size: int | Tensor, length: int | Tensor) -> Cache:
        """Return a cache of zeros for `length` positions.

        Args:
            batch_size: the number of rows.
            length: the number of positions.

        Returns:
            A pair like the result of `project`.
        """
        heads = (batch_size, self.num_heads)
        return (
            ops.zeros((*heads, self.key_dim, length), self.compute_dtype),
            ops.zeros((*heads, length, self.value_dim), self.compute_dtype),
        )

    def _is_fused(self, training: bool | None) -> bool:
        """Return whether the heads are computed without weights, which only PyTorch gains from.

        On TensorFlow, and on JAX without cuDNN, `keras.ops.dot_product_attention` has the same
        operations as `call`.
        """
        is_recorded = self in (_record.get() or ())
        has_dropout = self.dropout and training
        return keras.backend.backend() == "torch" and not (is_recorded or has_dropout)

    def _scaled_query(self, query: Tensor) -> Tensor:
        # Scaling the queries by 1 / sqrt(d_k) costs less than scaling the scores.
        query = self._split_heads(self.query_dense(query), self.key_dim)
        return query * self.key_dim**-0.5

    def _split_heads(self, x: Tensor, size: int) -> Tensor:
        # (batch, length, num_heads * size) -> (batch, num_heads, length, size)
        x = ops.reshape(x, (-1, ops.shape(x)[1], self.num_heads, size))
        return ops.transpose(x, (0, 2, 1, 3))

    def _merge_heads(self, x: Tensor) -> Tensor:
        # (batch, num_heads, length, size) -> (batch, length, num_heads * size)
        x = ops.transpose(x, (0, 2, 1, 3))
        return ops.reshape(x, (-1, ops.shape(x)[1], self.num_heads * self.value_dim))

    def _write(self, cache: Cache, update: Cache, index: int | Tensor) -> Cache:
        starts = (0, 0, 0, index), (0, 0, index, 0)
        key, value = map(slice_update, cache, starts, update)
        return key, value

    def _projection(self, name: str, units: int | None, scale: float) -> keras.layers.Dense:
        return keras.layers.Dense(
            units,
            use_bias=self.use_bias,
            kernel_initializer=keras.initializers.VarianceScaling(scale, "fan_avg", "uniform"),
            dtype=self.dtype_policy,
            name=name,
        )

    def compute_output_shape(self, query_shape: Shape, *args: Any, **kwargs: Any) -> Shape:
        return query_shape

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor = None,
        attention_mask: Tensor = None,
        cache: Cache | None = None,
        cache_index: int | Tensor | None = None,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ) -> Tensor | tuple:
        outputs = [keras.KerasTensor(query.shape, dtype=self.compute_dtype)]
        if cache_index is not None:
            outputs.append(keras.tree.map_structure(symbolic_like, cache))
        if return_attention_scores:
            batch, target, _ = query.shape
            source = (query if value is None else value).shape[1]
            if cache is not None:
                source = cache[1].shape[2]
            shape = (batch, self.num_heads, target, source)
            outputs.append(keras.KerasTensor(shape, dtype=self.compute_dtype))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
        }
