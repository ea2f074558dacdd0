import functools
import logging
import operator
from typing import Any

import keras
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Layer):
    """Dropout whose random numbers are a hash of each element's index (section 5.4).

    In training each element is zero with probability `rate`, and is otherwise divided by
    `1 - rate`. The general-purpose generators of `keras.layers.Dropout` take up to a fifth of a
    training step on a CPU. A hash of (seed, step, index) takes a few integer operations, which XLA
    fuses into the operation around them. The tests compare its statistics with independent draws.

    The index is the element's index in the global batch, so dropout masks do not depend on the
    number of devices. A replica of a `tf.distribute.Strategy` counts the elements of the replicas
    before it, and assumes that all replicas have the same number of rows. If the last batch cannot
    be split evenly, some of its rows may get the mask of rows of another replica.

    Args:
        rate: probability of dropping an element, from 0 up to 1.
        seed: integer seed. Defaults to one drawn from Keras's global seed.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor of any shape.
        training: whether to apply dropout.

    Returns:
        Float tensor of the same shape.

    Raises:
        UserError: if `rate` is not in [0, 1).
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        if not 0 <= rate < 1:
            raise UserError(f"`rate` must be at least 0 and less than 1. Received: rate={rate!r}")
        self.rate = rate
        self.seed = seed
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def __call__(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        # On PyTorch, Keras's `__call__` takes longer than many layers of a search step.
        return inputs if training is False else super().__call__(inputs, training=training)

    def call(self, inputs: Tensor, training: bool | None = False) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        state = self.seed_generator.state
        seed = ops.cast(state.value * 1, "int32")  # a copy
        # Not `seed_generator.next()`, which copies a constant to the GPU: PyTorch waits for it.
        state.assign(state.value + ops.cast(ops.arange(2), state.dtype))
        keep = _keep_of_replica(ops.shape(inputs), seed, self.rate)
        return ops.where(keep, inputs / (1 - self.rate), ops.zeros((), inputs.dtype))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def _keep_of_replica(shape: tuple[Any, ...], seed: Tensor, rate: float) -> Tensor:
    """Return a bool tensor, true at the elements of this device's tensor that are kept."""
    if keras.backend.backend() == "torch" and seed.is_cuda:
        return _compiled_keep()(shape, 0, seed, rate)
    if keras.backend.backend() != "tensorflow":
        return _keep(shape, 0, seed, rate)  # A JAX array spans all devices.
    import tensorflow as tf

    replicas = tf.distribute.get_replica_context()
    replica = 0 if replicas is None else replicas.replica_id_in_sync_group
    sizes = tuple(tf.convert_to_tensor(size, "int32") for size in shape)
    # The reshape restores the static sizes.
    return tf.reshape(_compiled_keep()(sizes, replica, seed, rate), shape)


def _keep(shape: tuple[Any, ...], replica: Tensor, seed: Tensor, rate: float) -> Tensor:
    """Return a bool tensor, true at kept elements; `replica` tensors of this shape precede it."""
    # Not `ops.prod`, which JAX would trace: the size must be a Python number where it can be.
    size = functools.reduce(operator.mul, shape, 1)
    index = ops.reshape(ops.arange(size, dtype="int32") + replica * size, shape)
    # The bits are uniform over all int32.
    return hash_bits(index, seed) >= int(rate * 2**32) - 2**31


@functools.cache
def _compiled_keep() -> Any:
    """Compile `_keep` as one kernel of TensorFlow or, on GPUs, PyTorch.

    Otherwise it is about seventy kernels, thirty of them of the size of the tensor, and with a GPU
    TensorFlow would run them on the host, where it places operations on int32.
    """
    if keras.backend.backend() == "torch":
        import torch

        keep = torch.compile(_keep, dynamic=True)
        try:
            keep((2, 3), 0, ops.zeros(2, "int32"), 0.5)
        except Exception as error:  # For example, without a C compiler, or Python's headers for it.
            reason = str(error).strip().partition("\n")[0]
            logger.warning("Dropout is slow: torch.compile failed (%s)", reason)
            return _keep
        return keep
    import tensorflow as tf

    return tf.function(_keep, jit_compile=True, autograph=False)


def hash_bits(index: Tensor, seed: Tensor) -> Tensor:
    """Return uniform random bits for each index.

    Two rounds of a multiply-xorshift mix (Murmur3's finalizer), each keyed with one hashed word of
    the seed. All arithmetic is modulo 2^32, which int32 gives on every backend.

    Args:
        index: int32 tensor.
        seed: int32 tensor `(2,)`.

    Returns:
        An int32 tensor of the shape of `index`.
    """
    first = _mix(seed[0] + _mix(seed[1] + _GOLDEN))
    second = _mix(first + _GOLDEN)
    bits = index * _GOLDEN
    bits += first
    bits = _mix(bits)
    bits += second
    return _mix(bits)


# 2^32 / golden ratio, and the constants of Murmur3, as the int32 of the same bits.
_GOLDEN = 0x9E3779B1 - 2**32
_MIX_1 = 0x85EBCA6B - 2**32
_MIX_2 = 0xC2B2AE35 - 2**32


# On PyTorch without `torch.compile`, `*=` and the like work in place and take half the time. On the
# other backends they make new tensors.


def _mix(x: Tensor) -> Tensor:
    x = _xor_shift(x, 16)
    x *= _MIX_1
    x = _xor_shift(x, 13)
    x *= _MIX_2
    return _xor_shift(x, 16)


def _xor_shift(x: Tensor, bits: int) -> Tensor:
    # int32 shifts copy the sign bit; the mask makes the shift logical.
    shifted = ops.right_shift(x, bits)
    shifted &= (1 << (32 - bits)) - 1
    x ^= shifted
    return x
