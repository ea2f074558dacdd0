import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import dropout
from keras_transformer.layers.dropout import Dropout, hash_bits
from tests.helpers import normal, to_numpy

COUNT = 100_000
FIVE_SIGMA = 5 / COUNT**0.5  # of the mean of COUNT numbers of variance 1


# The hash with Python's integers, modulo 2^32


def mix(x):
    x = (x ^ (x >> 16)) * 0x85EBCA6B % 2**32
    x = (x ^ (x >> 13)) * 0xC2B2AE35 % 2**32
    return x ^ (x >> 16)


def expected_bits(index, seed):
    golden = 0x9E3779B1
    first = mix((seed[0] + mix((seed[1] + golden) % 2**32)) % 2**32)
    second = mix((first + golden) % 2**32)
    bits = mix((mix((index * golden + first) % 2**32) + second) % 2**32)
    return bits - 2**32 if bits >= 2**31 else bits  # as int32


def expected_keep(count, rate, seed, step):
    threshold = int(rate * 2**32) - 2**31
    return np.array([expected_bits(i, (seed, step)) >= threshold for i in range(count)])


def masks(layer, shape, count=1):
    """Which elements `count` calls keep."""
    ones = ops.ones(shape)
    return [to_numpy(layer(ones, training=True)) != 0 for _ in range(count)]


def correlation(a, b):
    return abs(np.corrcoef(a.reshape(-1), b.reshape(-1))[0, 1])


def test_mix_is_murmur3s_finaliser():
    # Published values of MurmurHash3's fmix32.
    assert [mix(1), mix(2), mix(0xFFFFFFFF)] == [0x514E28B7, 0x30F4C306, 0x81F16F39]


@pytest.mark.parametrize("seed", [(0, 0), (1, 0), (0, 1), (123456789, 70000), (2**31 - 1, 3)])
def test_hash_is_the_same_on_every_backend(seed):
    index = np.array([0, 1, 2, 3, 511, 512, 65535, 65536, 10**8, 2**31 - 1], "int32")
    bits = to_numpy(hash_bits(ops.convert_to_tensor(index), ops.convert_to_tensor(seed, "int32")))
    assert bits.dtype == "int32"
    assert bits.tolist() == [expected_bits(int(i), seed) for i in index]


@pytest.mark.each_backend
def test_hash_never_changes():
    # Changing the numbers would change what a seed gives.
    bits = hash_bits(ops.arange(4, dtype="int32"), ops.convert_to_tensor([7, 1], "int32"))
    assert to_numpy(bits).tolist() == [-143357705, 783168115, -1879879025, -2105603182]


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_masks_follow_the_hash(rate):
    kept = masks(Dropout(rate, seed=7), (3, 5, 4), count=3)
    for step, mask in enumerate(kept):
        assert (mask.reshape(-1) == expected_keep(60, rate, 7, step)).all()


@pytest.fixture
def torch_compile(monkeypatch):
    """A function that replaces `torch.compile`, which needs a C++ compiler and a minute."""
    torch = pytest.importorskip("torch")
    if keras.backend.backend() != "torch":
        pytest.skip("torch.compile compiles what PyTorch computes")
    dropout._compiled_keep.cache_clear()
    yield lambda compile: monkeypatch.setattr(torch, "compile", compile(torch.compile))
    dropout._compiled_keep.cache_clear()


def test_pytorch_traces_the_hash_as_one_program_for_all_shapes(torch_compile):
    seed = ops.convert_to_tensor([7, 1], "int32")
    torch_compile(lambda f: functools.partial(f, backend="aot_eager", fullgraph=True))
    keep = dropout._compiled_keep()
    assert keep is not dropout._keep
    for shape in ((3, 5, 4), (2, 7, 8)):
        kept = to_numpy(keep(shape, 0, seed, 0.3)).reshape(-1)
        assert (kept == expected_keep(kept.size, 0.3, 7, 1)).all()


def test_dropout_works_where_pytorch_cannot_compile(torch_compile, caplog):
    def compiled(function, **_):
        def fail(*_):
            raise RuntimeError("Python.h: No such file\nand more")

        return fail

    torch_compile(lambda _: compiled)
    assert dropout._compiled_keep() is dropout._keep
    assert caplog.messages == ["Dropout is slow: torch.compile failed (Python.h: No such file)"]


# Statistics


def test_each_bit_is_fair_and_independent_of_the_next_index():
    bits = to_numpy(hash_bits(ops.arange(COUNT, dtype="int32"), ops.array([5, 9], "int32")))
    for bit in range(32):
        ones = bits >> bit & 1
        assert abs(ones.mean() - 0.5) < 0.5 * FIVE_SIGMA
        assert correlation(ones[1:], ones[:-1]) < FIVE_SIGMA


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_masks_have_the_rate_and_are_independent(rate):
    layer = Dropout(rate, seed=1)
    kept = np.stack(masks(layer, (100, COUNT // 100), count=4))
    for mask in kept:
        # The variance of one draw is rate (1 - rate).
        assert abs((1 - mask).mean() - rate) < FIVE_SIGMA * (rate * (1 - rate)) ** 0.5
    for earlier in range(4):
        for later in range(earlier):
            assert correlation(kept[earlier], kept[later]) < FIVE_SIGMA
    # Neighbours, near and far, in a row and in a column.
    for distance in (1, 2, 3, 64, 512):
        assert correlation(kept[0].flat[distance:], kept[0].flat[:-distance]) < FIVE_SIGMA
    assert correlation(kept[0][1:], kept[0][:-1]) < FIVE_SIGMA
    # As spread over rows as independent draws are: the counts' variance is that of a binomial.
    counts = kept.sum(axis=-1).reshape(-1)
    variance = counts.var() / (COUNT // 100 * rate * (1 - rate))
    assert 0.6 < variance < 1.5


@pytest.mark.parametrize("seeds", [(1, 2), (0, 1), (3, 2**30)])
def test_layers_of_other_seeds_are_independent(seeds):
    first, second = (masks(Dropout(0.5, seed=seed), (COUNT,), count=2) for seed in seeds)
    for a in first:
        for b in second:
            assert correlation(a, b) < FIVE_SIGMA


def test_layers_without_a_seed_are_independent():
    (first,), (second,) = (masks(Dropout(0.5), (COUNT,)) for _ in range(2))
    assert correlation(first, second) < FIVE_SIGMA


# The layer


def test_same_seed_gives_the_same_masks():
    first, second = (masks(Dropout(0.5, seed=3), (8, 16), count=3) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first[0], first[1])


def test_global_seed_gives_the_same_masks():
    kept = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        kept += masks(Dropout(0.5), (8, 16))
    assert np.array_equal(*kept)


def test_kept_elements_are_scaled():
    x = normal(50, 40)
    y = to_numpy(Dropout(0.2, seed=0)(x, training=True))
    kept = y != 0
    np.testing.assert_allclose(y[kept], x[kept] / 0.8, rtol=1e-6)
    # So that the mean stays.
    large = to_numpy(Dropout(0.2, seed=0)(np.ones(COUNT, "float32"), training=True))
    assert abs(large.mean() - 1) < FIVE_SIGMA * 0.5


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_dropped_element_is_zero_even_if_it_was_nan(value):
    y = to_numpy(Dropout(0.5, seed=0)(np.full(64, value, "float32"), training=True))
    assert (y == 0).any()


@pytest.mark.parametrize("rate, training", [(0.5, False), (0.5, None), (0.0, True), (0, True)])
def test_inputs_stay_the_same_at_rate_zero_or_outside_training(rate, training):
    x = normal(4, 5)
    assert np.array_equal(to_numpy(Dropout(rate)(x, training=training)), x)


@pytest.mark.parametrize("shape", [(7,), (2, 3, 4, 5), (0, 3), (1, 1)])
def test_outputs_have_the_shape_of_inputs_of_any_rank(shape):
    layer = Dropout(0.5, seed=0)
    assert layer(ops.ones(shape), training=True).shape == shape
    assert tuple(layer.compute_output_shape(shape)) == shape


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_keeps_its_dtype(dtype):
    layer = Dropout(0.5, seed=0, dtype=f"mixed_{dtype}")
    y = layer(normal(4, 8), training=True)
    assert keras.backend.standardize_dtype(y.dtype) == dtype
    assert (to_numpy(ops.cast(y, "float32")) == 0).any()


class KernelAfterEachStep(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.kernels = []

    def on_train_batch_end(self, batch, logs=None):
        self.kernels.append(np.array(to_numpy(self.model.layers[-1].kernel.value))[:, 0])


@pytest.mark.each_backend
@pytest.mark.parametrize("jit_compile", [True, False])
def test_compiled_fit_draws_a_new_mask_each_step(jit_compile):
    if jit_compile and keras.backend.backend() == "torch":
        pytest.skip("torch.compile needs a C++ compiler and minutes")
    # With the sum of the outputs as the loss, the gradient of the kernel is what dropout kept.
    model = keras.Sequential(
        [
            keras.Input((32,)),
            Dropout(0.5, seed=11),
            keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros"),
        ]
    )
    model.compile(keras.optimizers.SGD(1.0), loss=lambda y, y_pred: y_pred, jit_compile=jit_compile)
    watch = KernelAfterEachStep()
    x = np.ones((4, 32), "float32")
    model.fit(x, np.zeros((4, 1)), batch_size=1, epochs=2, verbose=0, callbacks=[watch])
    steps = -np.diff(watch.kernels, axis=0, prepend=np.zeros((1, 32)))
    for step, kept in enumerate(steps):
        assert np.array_equal(kept, 2.0 * expected_keep(32, 0.5, 11, step))
    assert len(steps) == 8
