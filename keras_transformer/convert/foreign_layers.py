"""Layers that only models trained elsewhere need: see `ForeignTransformer`."""

import functools
from collections.abc import Callable
from typing import Any, Literal

import keras
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.layers import (
    FeedForward,
    SinePositionEncoding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.multi_head_attention import (
    Cache,
    MultiHeadAttention,
    record_weights,
)
from keras_transformer.layers.tensor_ops import slice_update
from keras_transformer.layers.transformer_layer import TransformerLayer

# Doublings of the scan if the length is not known when the program is made: 65,536 positions.
_MOST_DOUBLINGS = 16

POST_NORM, PRE_NORM = "sdan", "nsda"
"""The steps of the paper's sub-layers (section 3.1), and of their pre-norm form."""


def run_steps(
    x: Tensor,
    steps: str,
    norm: keras.layers.Layer | None,
    dropout: Callable[[Tensor], Tensor],
    residual: Tensor = None,
) -> Tensor:
    """Apply the steps around a part of a model, in their order.

    Args:
        x: float tensor `(batch, length, hidden_dim)`.
        steps: a string of letters: "n" is a layer normalization, "d" dropout, and "a" adds
            `residual`.
        norm: the layer normalization, if `steps` has one.
        dropout: function of a tensor.
        residual: float tensor of the shape of `x`, if `steps` adds it.

    Returns:
        Float tensor `(batch, length, hidden_dim)`.
    """
    functions = {"n": norm, "d": dropout, "a": lambda y: residual + y}
    for step in steps:
        x = functions[step](x)
    return x


class ForeignSinePositionEncoding(SinePositionEncoding):
    """Sinusoids of other wavelengths, and from another position.

    Args:
        max_wavelength: the wavelengths grow from 2π to this number times 2π.
        first_position: the number of the first position.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(self, max_wavelength: float, first_position: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.max_wavelength = max_wavelength
        self.first_position = first_position

    def call(self, inputs: Tensor, positions: Tensor = None) -> Tensor:
        if positions is None:
            positions = ops.arange(ops.shape(inputs)[1], dtype="int32")
        return super().call(inputs, ops.cast(positions, "float32") + self.first_position)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "first_position": self.first_position,
        }


class DeepFeedForward(FeedForward):
    """A feed-forward network of any number of matrices.

    Args:
        depth: the number of matrices. With more than 2, further inner layers follow the first; with
            1, there is no inner layer.
        *args: arguments of `FeedForward`.
        **kwargs: further arguments of `FeedForward`.
    """

    def __init__(self, depth: int, *args: Any, **kwargs: Any):
        self.depth = depth  # The base class makes the layers.
        super().__init__(*args, **kwargs)

    def _make_inner_layers(self) -> None:
        # Attributes are the paths of weights in saved files.
        if self.depth > 1:
            super()._make_inner_layers()
        self.more_dense = [self._inner_layer(f"intermediate_{i}") for i in range(2, self.depth)]

    @property
    def dense_layers(self) -> list[keras.layers.Dense]:
        """The `Dense` layers, in the order of the calls."""
        first = [self.intermediate_dense] if self.depth > 1 else []
        return [*first, *self.more_dense, self.output_dense]

    def call(self, inputs: Tensor) -> Tensor:
        x = inputs
        for dense in self.dense_layers:
            x = dense(x)
        return x


class ForeignLayer(TransformerLayer):
    """The options that both kinds of layers have: see `ForeignTransformer`."""

    def __init__(
        self,
        *args: Any,
        steps: str = POST_NORM,
        feed_forward_depth: int = 2,
        attention_dropout: float = 0.0,
        **kwargs: Any,
    ):
        self.steps = steps
        self.feed_forward_depth = feed_forward_depth  # The base class makes the network.
        self.attention_dropout = attention_dropout
        super().__init__(*args, **kwargs)

    def _make_feed_forward(self) -> FeedForward:
        return DeepFeedForward(
            self.feed_forward_depth,
            self.intermediate_dim,
            self.activation,
            dtype=self.dtype_policy,
            name="feed_forward",
        )

    def _make_attention(self, name: str, *args: Any, **options: Any) -> MultiHeadAttention:
        return super()._make_attention(name, *args, dropout=self.attention_dropout, **options)

    def _add_norm(self, sublayer: str, inputs_shape: Shape, kind: str = "norm") -> None:
        """Set the attributes `{sublayer}_norm` and `{sublayer}_pre_norm`, None where not needed.

        A sub-layer with only one of them has it as `{sublayer}_norm`.
        """
        number = sum("n" in part for part in self.steps.split("s"))
        for kind, is_needed in (("norm", number > 0), ("pre_norm", number > 1)):
            setattr(self, f"{sublayer}_{kind}", None)
            if is_needed:
                super()._add_norm(sublayer, inputs_shape, kind)

    def _residual(
        self,
        x: Tensor,
        sublayer: Callable[[Tensor], Tensor],
        norm: keras.layers.LayerNormalization | None,
        training: bool | None,
    ) -> Tensor:
        """Return the output of a sub-layer with its `steps`."""
        own = None if norm is None else getattr(self, norm.name.replace("_norm", "_pre_norm"))
        dropout = functools.partial(self.dropout_layer, training=training)
        before, after = self.steps.split("s")
        y = sublayer(run_steps(x, before, own or norm, dropout, x))
        return run_steps(y, after, norm, dropout, x)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "steps": self.steps,
            "feed_forward_depth": self.feed_forward_depth,
            "attention_dropout": self.attention_dropout,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class ForeignEncoderLayer(ForeignLayer, TransformerEncoderLayer):
    """A `kt.layers.TransformerEncoderLayer` with the options of a `ForeignTransformer`.

    Args:
        *args: arguments of `TransformerEncoderLayer`.
        steps: the steps of each sub-layer as letters: see `ForeignTransformer`.
        feed_forward_depth: the number of matrices of the feed-forward network.
        attention_dropout: probability of dropping an attention weight.
        **kwargs: further arguments of `TransformerEncoderLayer`.
    """


@keras.saving.register_keras_serializable(package="keras_transformer")
class ForeignDecoderLayer(ForeignLayer, TransformerDecoderLayer):
    """A `kt.layers.TransformerDecoderLayer` with the options of a `ForeignTransformer`.

    Args:
        *args: arguments of `TransformerDecoderLayer`.
        self_attention: `"attention"`, or `"ssru"` for an `SSRU` in its place.
        normalize_keys: as for `ForeignTransformer`.
        **kwargs: further arguments of `TransformerDecoderLayer`, or of `ForeignEncoderLayer`.
    """

    def __init__(
        self,
        *args: Any,
        self_attention: Literal["attention", "ssru"] = "attention",
        normalize_keys: bool = True,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.is_recurrent = self_attention == "ssru"
        self.normalize_keys = normalize_keys

    def _make_attention(self, name: str, *args: Any, **options: Any) -> Any:
        if self.is_recurrent and name == "self_attention":
            return SSRU(dtype=self.dtype_policy, name=name)
        return super()._make_attention(name, *args, **options)

    def _causal_mask(self, *args: Any) -> Tensor:
        # In a recurrence, padding comes after all other positions, and so changes none of them.
        return None if self.is_recurrent else super()._causal_mask(*args)

    def _attend_to_target(
        self, x: Tensor, inputs: Tensor, attention_mask: Tensor, **options: Any
    ) -> Any:
        if self.is_recurrent:
            del options["training"]
        if self.normalize_keys:
            return super()._attend_to_target(x, inputs, attention_mask, **options)
        outputs = super()._attend_to_target(x, inputs, attention_mask, value=inputs, **options)
        outputs, *cache = outputs if isinstance(outputs, tuple) else (outputs,)
        is_first = ops.sum(ops.cast(attention_mask, "int32"), axis=-1, keepdims=True) == 1
        own = self.self_attention.output_dense(self.self_attention.value_dense(x))
        outputs = ops.where(is_first, own, outputs)
        return (outputs, *cache) if cache else outputs

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "self_attention": "ssru" if self.is_recurrent else "attention",
            "normalize_keys": self.normalize_keys,
        }


# Keras derives the paths of weights in a file from the names of classes: with these, the paths are
# those of the paper's layers.
ForeignEncoderLayer.__name__ = TransformerEncoderLayer.__name__
ForeignDecoderLayer.__name__ = TransformerDecoderLayer.__name__


@keras.saving.register_keras_serializable(package="keras_transformer")
class SSRU(keras.layers.Layer):
    """The simpler simple recurrent unit of Kim et al. (2019), "From Research to Production and
    Back", section 3.1, in place of a decoder's self-attention.

    ```
    f_t = sigmoid(x_t W_f + b_f)
    c_t = f_t * c_{t-1} + (1 - f_t) * x_t W,    c_0 = 0
    SSRU(x)_t = max(0, c_t)
    ```

    Whole targets are computed in parallel, by an associative scan over the positions. Step by step,
    a position needs one vector of the past, c_{t-1}.

    Args:
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(batch, target, hidden_dim)`.
        cache: the result of `empty_cache`, with the vectors c of earlier positions.
        cache_index: integer scalar, the position of `inputs` in the cache; needed with `cache`.
        attention_mask: boolean tensor that broadcasts to `(batch, target, cached positions)`, with
            `cache` only. The position before each of `inputs` is the last one before `cache_index`
            that the mask allows. Without a mask, `inputs` are consecutive positions.

    Returns:
        Float tensor `(batch, target, hidden_dim)`; with `cache`, a pair of this tensor and the
        updated cache.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)

    @property
    def dense_layers(self) -> list[keras.layers.Dense]:
        """The `Dense` layers with W and W_f."""
        return [self.input_dense, self.forget_dense]

    def build(self, input_shape: Shape) -> None:
        self.hidden_dim: int = input_shape[-1]  # pyright: ignore[reportAttributeAccessIssue]
        options = {"units": self.hidden_dim, "dtype": self.dtype_policy}
        self.input_dense = keras.layers.Dense(use_bias=False, name="input", **options)
        self.forget_dense = keras.layers.Dense(activation="sigmoid", name="forget", **options)
        for dense in self.dense_layers:
            dense.build(input_shape)

    def call(
        self,
        inputs: Tensor,
        cache: Cache | None = None,
        cache_index: int | Tensor | None = None,
        attention_mask: Tensor = None,
    ) -> Tensor | tuple[Tensor, Cache]:
        # The state is in float32, because it adds up over many positions.
        forget = ops.cast(self.forget_dense(inputs), "float32")
        new = (1 - forget) * ops.cast(self.input_dense(inputs), "float32")
        if cache is None:
            record_weights(self, lambda: _weights(forget))
            return self._output(_scan(forget, new))
        before = self._states_before(cache, cache_index, attention_mask)
        if attention_mask is None:
            first = new[:, :1] + forget[:, :1] * before
            states = _scan(forget, ops.concatenate([first, new[:, 1:]], axis=1))
        else:
            states = new + forget * before
        return self._output(states), self._write(cache, states, cache_index)

    def empty_cache(self, batch_size: int | Tensor, length: int | Tensor) -> Cache:
        """Return a cache of zeros for `length` positions.

        It has the form of an attention's keys and values, `(batch, 1, hidden_dim / 2, length)` and
        `(batch, 1, length, hidden_dim / 2)`: each has one half of the vectors c.

        Args:
            batch_size: the number of rows.
            length: the number of positions.
        """
        half = self.hidden_dim // 2
        return (
            ops.zeros((batch_size, 1, half, length), self.compute_dtype),
            ops.zeros((batch_size, 1, length, self.hidden_dim - half), self.compute_dtype),
        )

    def _output(self, states: Tensor) -> Tensor:
        return ops.cast(ops.relu(states), self.compute_dtype)

    def _states_before(self, cache: Cache, cache_index: Any, attention_mask: Tensor) -> Tensor:
        """Return the vectors c of the positions before `inputs`; zeros before the first one."""
        key, value = cache
        positions = ops.arange(ops.shape(key)[3], dtype="int32")
        is_before = positions < cache_index
        if attention_mask is None:
            is_before = is_before[None, None]
        else:
            is_before = ops.logical_and(attention_mask, is_before)
        last = ops.max(ops.where(is_before, positions, -1), axis=-1)
        last = ops.broadcast_to(last, (ops.shape(key)[0], ops.shape(last)[1]))
        rows = ops.cast(ops.expand_dims(last, -1) == positions, self.compute_dtype)
        # A product with rows of zeros and ones is faster than gathering on all backends.
        halves = ops.matmul(rows, ops.swapaxes(key[:, 0], 1, 2)), ops.matmul(rows, value[:, 0])
        return ops.cast(ops.concatenate(halves, axis=-1), "float32")

    def _write(self, cache: Cache, states: Tensor, index: Any) -> Cache:
        states = ops.cast(states, self.compute_dtype)[:, None]
        half = self.hidden_dim // 2
        key = slice_update(cache[0], (0, 0, 0, index), ops.swapaxes(states[..., :half], 2, 3))
        return key, slice_update(cache[1], (0, 0, index, 0), states[..., half:])

    def compute_output_shape(self, input_shape: Shape, *args: Any, **kwargs: Any) -> Shape:
        return input_shape


def _scan(forget: Tensor, new: Tensor) -> Tensor:
    """Return c with `c_t = forget_t * c_{t-1} + new_t` and c_0 = 0, along axis 1.

    Each position is joined with the run that ends 1, 2, 4, ... positions before. It is an
    associative scan; the one of `keras.ops` needs a known length on TensorFlow.
    """
    length = ops.shape(new)[1]
    is_known = isinstance(length, int)
    for doubling in range((length - 1).bit_length() if is_known else _MOST_DOUBLINGS):
        shift = 2**doubling if is_known else ops.minimum(2**doubling, length)
        earlier_forget, earlier_new = (
            ops.concatenate([filler(x[:, :shift]), x[:, : length - shift]], axis=1)
            for x, filler in ((forget, ops.ones_like), (new, ops.zeros_like))
        )
        forget, new = earlier_forget * forget, forget * earlier_new + new
    return new


def _weights(forget: Tensor) -> Tensor:
    """Return the weight of each input in each state, the mean over d_model: `(batch, 1, target,
    target)`, as if the layer had one head.
    """
    logs = ops.cumsum(ops.log(ops.maximum(forget, 1e-30)), axis=1)
    positions = ops.arange(ops.shape(forget)[1], dtype="int32")
    is_earlier = (positions[:, None] >= positions)[None, :, :, None]
    kept = ops.exp(ops.where(is_earlier, logs[:, :, None] - logs[:, None], -1e9))
    return ops.mean(kept * (1 - forget)[:, None], axis=-1)[:, None]
