import functools
import operator
from typing import Any

import keras
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.typing import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Layer):
    """Dropout whose random numbers are a hash of each element's index (section 5.4).

    In training each element is zero with probability `rate`, and is otherwise divided by
    `1 - rate`. The general-purpose generators that `keras.layers.Dropout` draws from cost up to a
    fifth of a training step on a CPU. Hashing (seed, step, index) with a few integer operations,
    which XLA fuses into the operation around them, costs next to nothing and is random enough: the
    tests hold it to the statistics of independent draws.

    The index is that of the global batch, so several devices that share a batch drop what one
    device would. Replicas of a `tf.distribute.Strategy` count the elements of those before them,
    and take it that all have as many rows. Where a last batch cannot be shared evenly, some of its
    rows may be dropped like rows of another replica.

    Args:
        rate: probability of dropping an element, from 0 up to 1.
        seed: integer seed. Defaults to one drawn from Keras's global seed.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor of any shape.
        training: whether to drop anything.

    Returns:
        Float tensor of the same shape.

    Raises:
        UserError: if `rate` is not in [0, 1).
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        if not 0 <= rate < 1:
            raise UserError(f"`rate` must be at least 0 and less than 1. Received: rate={rate}")
        self.rate = rate
        self.seed = seed
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def __call__(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        # Keras's way to `call` takes longer than many a layer of a search step on PyTorch.
        return inputs if training is False else super().__call__(inputs, training=training)

    def call(self, inputs: Tensor, training: bool | None = False) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        seed = ops.cast(self.seed_generator.next(), "int32")
        keep = _keep_of_replica(ops.shape(inputs), seed, self.rate)
        return ops.where(keep, inputs / (1 - self.rate), ops.zeros((), inputs.dtype))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def _keep_of_replica(shape, seed, rate):
    """Which elements are kept of a tensor that this device has: bool of that shape."""
    if keras.backend.backend() != "tensorflow":
        return _keep(shape, 0, seed, rate)  # JAX's arrays are those of all devices.
    import tensorflow as tf

    replicas = tf.distribute.get_replica_context()
    replica = 0 if replicas is None else replicas.replica_id_in_sync_group
    sizes = tuple(tf.convert_to_tensor(size, "int32") for size in shape)
    # For the sizes that are known here.
    return tf.reshape(_compiled_keep()(sizes, replica, seed, rate), shape)


def _keep(shape, replica, seed, rate):
    """Which elements are kept, where as many lie before them in each of the `replica` earlier."""
    # Not `ops.prod`, which JAX would trace: the size must be a Python number where it can be.
    size = functools.reduce(operator.mul, shape, 1)
    index = ops.reshape(ops.arange(size, dtype="int32") + replica * size, shape)
    # The bits are uniform over all int32.
    return hash_bits(index, seed) >= int(rate * 2**32) - 2**31


@functools.cache
def _compiled_keep():
    """`_keep` as one kernel of TensorFlow's.

    In a graph that XLA does not compile as a whole it would be some thirty, and on a GPU's host,
    which is where TensorFlow computes with int32.
    """
    import tensorflow as tf

    return tf.function(_keep, jit_compile=True, autograph=False)


def hash_bits(index: Tensor, seed: Tensor) -> Tensor:
    """Random bits for each index: int32 to int32, uniform.

    Two rounds of a multiply-xorshift mix (Murmur3's finaliser), each keyed with one hashed word of
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


# PyTorch, which compiles nothing, works in place at `*=` and the like, in half the time; the
# tensors of the others cannot change.


def _mix(x):
    x = _xor_shift(x, 16)
    x *= _MIX_1
    x = _xor_shift(x, 13)
    x *= _MIX_2
    return _xor_shift(x, 16)


def _xor_shift(x, bits):
    # int32 shifts copy the sign bit; the mask makes the shift logical.
    shifted = ops.right_shift(x, bits)
    shifted &= (1 << (32 - bits)) - 1
    x ^= shifted
    return x
