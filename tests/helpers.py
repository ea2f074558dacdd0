"""What several tests share: arrays, random weights, gradients, and a Transformer in NumPy."""

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer
from keras_transformer.convert.foreign_transformer import ForeignTransformer, output_bias
from keras_transformer.errors import UserError
from keras_transformer.models.config import TransformerConfig
from keras_transformer.models.transformer import Transformer
from keras_transformer.parsing.parser_transformer import ParserTransformer

# The beginning of a script that imports modules of the package, but not the package with Keras and
# a backend, which would take most of its time.
MODULES_ALONE = f"""
import sys, types
sys.modules["keras_transformer"] = package = types.ModuleType("keras_transformer")
package.__path__ = [{str(Path(keras_transformer.__file__).parent)!r}]
"""


def to_numpy(x):
    # A tensor of PyTorch may also come from PyTorch itself, under any backend.
    return ops.convert_to_numpy(x.detach() if hasattr(x, "detach") else x)


def logits_of(model, inputs):
    """Return logits, by one program on JAX, which would compile each operation by itself."""
    is_jax = keras.backend.backend() == "jax"
    return to_numpy(model.predict_on_batch(inputs) if is_jax else model(inputs))


def assert_close(actual, expected, atol=1e-5):
    np.testing.assert_allclose(to_numpy(actual), to_numpy(expected), rtol=0, atol=atol)


def some_slow(cases, fast):
    """The values of a dict as parameters of a test, `slow` except those that are named."""
    return [
        pytest.param(value, id=name, marks=[] if name in fast else [pytest.mark.slow])
        for name, value in cases.items()
    ]


def error_of(function, *arguments, **options):
    """The message of the error that a call raises, which is one line."""
    with pytest.raises(UserError) as error:
        function(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@contextlib.contextmanager
def dtype_policy(name):
    """Within the block, what is made has this dtype policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def randomize(layer, seed=0):
    """Give every weight random values: NumPy's, so the same on each backend. None is left at 0 or
    1, which would hide a bias that is never added or two norms that are exchanged.
    """
    generator = np.random.default_rng(seed)
    for variable in sorted(layer.weights, key=lambda weight: weight.path):
        values = generator.standard_normal(variable.shape)
        if variable.name == "kernel":
            values *= variable.shape[0] ** -0.5
        elif variable.name == "embeddings":
            values *= variable.shape[-1] ** -0.5
        else:
            values = 0.2 * values + (variable.name == "gamma")
        variable.assign(values)
    return layer


def wait_for(condition, seconds=60):
    """Wait until a condition holds, which another thread or process brings about."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


@contextlib.contextmanager
def conversation(*words):
    """A Python process, which is written to and read from in turns.

    One that does not answer in ten minutes is ended, so that reading from it does not wait forever.
    """
    command = [sys.executable, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        timer = threading.Timer(600, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()


def gradient(function, x):
    """The gradient of a scalar `function` at the array `x`, by the backend in use."""
    x = ops.convert_to_tensor(x)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return to_numpy(ops.convert_to_tensor(tape.gradient(value, x)))
    if keras.backend.backend() == "jax":
        import jax

        # One program: to compile each operation by itself takes ten times as long.
        return to_numpy(jax.jit(jax.grad(function))(x))
    x.requires_grad_()
    function(x).backward()
    return to_numpy(x.grad)


def class_for(options):
    """Return the class of models that has these arguments."""
    if {"word_start_ids", "leaf_ids", "tag_loss_weight"} & {*options}:
        return ParserTransformer
    is_plain = {*options} <= {*TransformerConfig.names(), "dtype", "name"}
    return Transformer if is_plain else ForeignTransformer


def numpy_logits(model, source, target, window=None):
    """The logits of one sentence pair, by the formulas of the paper's section 3, in float64.

    Independent of the package except for where the weights lie. It needs no mask: `source` and
    `target` are lists of token ids without padding, and a query is only shown what it may see.
    """
    options = model.hyperparameters
    all_source = range(len(source))
    reach = len(source) if window is None else window // 2
    near = [[i for i in all_source if abs(i - t) <= reach] for t in all_source]
    memory = _embed(model.encoder.token_embedding, source, options)
    for layer in model.encoder.layers:
        memory = _attention_sublayer(layer, "self_attention", memory, None, near)
        memory = _feed_forward_sublayer(layer, memory)
    memory = _norm(model.encoder.layer_norm, memory)

    x = _embed(model.decoder.token_embedding, target, options)
    if options.get("leaf_ids") is not None:
        x += next_words(memory, source, target, options)
    for layer in model.decoder.layers:
        no_later = [range(t + 1) for t in range(len(target))]
        x = _attention_sublayer(layer, "self_attention", x, None, no_later)
        x = _attention_sublayer(layer, "cross_attention", x, memory, [all_source] * len(target))
        x = _feed_forward_sublayer(layer, x)
    x = _norm(model.decoder.layer_norm, x)
    return _project(model, x)


def _project(model, x):
    layer = model.decoder.token_embedding
    tied = model.config.tie_weights
    logits = x @ (_array(layer.embeddings).T if tied else _array(layer.reverse_embeddings))
    bias = output_bias(model)
    return logits if bias is None else logits + _array(bias)


def next_words(memory, source, target, options):
    """Deterministic attention: for each target position the mean of the next word's `memory`."""
    begins = [i for i, x in enumerate(source) if x == 2 or x in options["word_start_ids"]]
    ends = [*begins[1:], len(source)]
    means = [memory[begin:end].mean(axis=0) for begin, end in zip(begins, ends)]
    means += [np.zeros_like(memory[0])] * len(target)
    leaves = np.cumsum([x in options["leaf_ids"] for x in target])
    return np.array([means[count] for count in leaves])


def _array(variable):
    return to_numpy(variable).astype("float64")


def _embed(layer, token_ids, options):
    hidden_dim = options["hidden_dim"]
    x = _array(layer.embeddings)[token_ids]
    if options["scale_embeddings"]:
        x *= np.sqrt(hidden_dim)
    for position in range(len(token_ids)):
        for i in range(hidden_dim // 2):
            wavelength = options.get("max_wavelength", 10000) ** (2 * i / hidden_dim)
            angle = (position + options.get("first_position", 0)) / wavelength
            x[position, 2 * i] += np.sin(angle)
            x[position, 2 * i + 1] += np.cos(angle)
    return x


def _attention_sublayer(layer, name, x, memory, visible):
    attention = getattr(layer, name)

    def sublayer(x):
        return _attention(attention, x, x if memory is None else memory, visible)

    return _residual(layer, x, sublayer, getattr(layer, f"{name}_norm"))


def _feed_forward_sublayer(layer, x):
    def sublayer(x):
        inner = np.maximum(0, _dense(layer.feed_forward.intermediate_dense, x))
        return _dense(layer.feed_forward.output_dense, inner)

    return _residual(layer, x, sublayer, layer.feed_forward_norm)


def _residual(layer, x, sublayer, norm):
    if layer.normalize_first:
        return x + sublayer(_norm(norm, x))
    return _norm(norm, x + sublayer(x))


def _norm(layer, x):
    if layer is None:
        return x
    centred = x - x.mean(-1, keepdims=True)
    variance = np.mean(centred**2, -1, keepdims=True)
    return centred / np.sqrt(variance + 1e-6) * _array(layer.gamma) + _array(layer.beta)


def _dense(layer, x):
    x = x @ _array(layer.kernel)
    return x + _array(layer.bias) if layer.use_bias else x


def _attention(layer, x, memory, visible):
    """Head by head, and query by query: `visible[t]` are the positions that query t may see."""
    queries, keys, values = (
        np.split(_dense(dense, inputs), layer.num_heads, axis=-1)
        for dense, inputs in (
            (layer.query_dense, x),
            (layer.key_dense, memory),
            (layer.value_dense, memory),
        )
    )
    heads = []
    for query, key, value in zip(queries, keys, values):
        rows = []
        for q, positions in zip(query, visible):
            exponentials = np.exp(key[list(positions)] @ q / np.sqrt(layer.key_dim))
            rows.append(exponentials / exponentials.sum() @ value[list(positions)])
        heads.append(rows)
    return _dense(layer.output_dense, np.concatenate(heads, axis=-1))
