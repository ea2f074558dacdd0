from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.layers.multi_head_attention import Cache, record_weights
from keras_transformer.layers.tensor_ops import slice_update

# Doublings of the scan if the length is not known when the program is made: 65,536 positions.
_MOST_DOUBLINGS = 16


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

    def _output(self, states):
        return ops.cast(ops.relu(states), self.compute_dtype)

    def _states_before(self, cache, cache_index, attention_mask):
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

    def _write(self, cache, states, index):
        states = ops.cast(states, self.compute_dtype)[:, None]
        half = self.hidden_dim // 2
        key = slice_update(cache[0], (0, 0, 0, index), ops.swapaxes(states[..., :half], 2, 3))
        return key, slice_update(cache[1], (0, 0, index, 0), states[..., half:])

    def compute_output_shape(self, input_shape: Shape, *args: Any, **kwargs: Any) -> Shape:
        return input_shape

    def compute_output_spec(
        self, inputs: Tensor, cache: Cache | None = None, *args: Any, **kwargs: Any
    ) -> Tensor | tuple[Tensor, Cache]:
        outputs = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if cache is None:
            return outputs
        return outputs, tuple(keras.KerasTensor(x.shape, dtype=x.dtype) for x in cache)


def _scan(forget, new):
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


def _weights(forget):
    """Return the weight of each input in each state, the mean over d_model: `(batch, 1, target,
    target)`, as if the layer had one head.
    """
    logs = ops.cumsum(ops.log(ops.maximum(forget, 1e-30)), axis=1)
    positions = ops.arange(ops.shape(forget)[1], dtype="int32")
    is_earlier = (positions[:, None] >= positions)[None, :, :, None]
    kept = ops.exp(ops.where(is_earlier, logs[:, :, None] - logs[:, None], -1e9))
    return ops.mean(kept * (1 - forget)[:, None], axis=-1)[:, None]
