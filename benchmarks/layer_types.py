"""Measure Table 1: the time of one layer of each type, by sequence length."""

import functools
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
from timing import matrix_product_speed, take_turns

from keras_transformer.command_line import run
from keras_transformer.layers import MultiHeadAttention, RestrictedSelfAttention


@dataclass
class Options:
    hidden_dim: int = 512
    """d, the size of the representations."""
    num_heads: int = 8
    """Heads of the two self-attentions."""
    window: int = 65
    """r, the neighborhood of the restricted self-attention."""
    kernel_size: int = 3
    """k, the width of the convolution."""
    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
    """n, the lengths of the sequences."""
    repeats: int = 5
    """Number of rounds. In each round every layer is called once at every length."""
    output: Path | None = None
    """PNG or SVG file for a plot of the times."""


def main(options):
    print(
        f"One sequence, d = {options.hidden_dim}, forward, keras {keras.__version__} on "
        f"{keras.backend.backend()}, matrix products {matrix_product_speed():.0f} GFLOP/s; "
        f"milliseconds, medians of {options.repeats} rounds\n"
    )
    times = measure(options)
    print_table(times, options.lengths)
    if options.output:
        plot(times, options)


def measure(options):
    """Return a dict of name -> median seconds at each length."""
    sizes = (options.hidden_dim, options.num_heads, options.window, options.kernel_size)
    layers = make_layer_types(*sizes)
    calls = layer_calls(layers, options.lengths, options.hidden_dim)
    seconds = take_turns(calls, options.repeats, pause=0.05)
    return {
        name: [statistics.median(seconds[name, length]) for length in options.lengths]
        for name in layers
    }


def make_layer_types(hidden_dim, num_heads, window, kernel_size):
    """Return one layer of each type, in the order of Table 1.

    Args:
        hidden_dim: d, the size of the representations.
        num_heads: heads of the two self-attentions.
        window: r, the neighborhood of the restricted self-attention.
        kernel_size: k, the width of the convolution.

    Returns:
        A dict of name -> Keras layer.
    """
    attention = functools.partial(MultiHeadAttention, num_heads, hidden_dim // num_heads)
    return {
        "self-attention": attention(),
        "recurrent (LSTM)": keras.layers.LSTM(hidden_dim, return_sequences=True),
        f"convolutional (k = {kernel_size})": keras.layers.Conv1D(
            hidden_dim, kernel_size, padding="same"
        ),
        f"self-attention (restricted, r = {window})": RestrictedSelfAttention(
            num_heads, hidden_dim // num_heads, attention_window=window
        ),
    }


def layer_calls(layers, lengths, hidden_dim):
    """Return functions without arguments that run one sequence through a layer.

    Each has been called once, so it is compiled.

    Returns:
        A dict of (name of the layer, length) -> function.
    """
    calls = {}
    for name, layer in layers.items():
        for length in lengths:
            # One model per length, so that each is compiled for its length.
            inputs = keras.Input((length, hidden_dim))
            model = keras.Model(inputs, layer(inputs))
            x = np.random.default_rng(0).standard_normal((1, *inputs.shape[1:]), "float32")
            calls[name, length] = functools.partial(model.predict_on_batch, x)
            calls[name, length]()
    return calls


def growth(seconds, lengths):
    """Return the exponent of the growth over the last two lengths: 1 is linear, 2 quadratic."""
    return math.log(seconds[-1] / seconds[-2]) / math.log(lengths[-1] / lengths[-2])


def print_table(times, lengths):
    """Print a Markdown table with the growth over the last doubling: 1 is linear, 2 quadratic."""
    print("| Layer type | " + " | ".join(f"n = {n:,}" for n in lengths) + " | growth |")
    print("|---" * (len(lengths) + 2) + "|")
    for name, seconds in times.items():
        cells = [f"{1000 * value:.3g}" for value in seconds]
        print(f"| {name} | " + " | ".join(cells) + f" | n^{growth(seconds, lengths):.2f} |")


def plot(times, options):
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
    for name, seconds in times.items():
        label = f"{name}: n^{growth(seconds, options.lengths):.1f}"
        axes.plot(options.lengths, [1000 * value for value in seconds], marker=".", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(options.lengths, [str(n) for n in options.lengths])
    axes.set_xlabel("length of the sequence, n")
    axes.set_ylabel("milliseconds")
    axes.set_title(f"Time of one layer of Table 1, d = {options.hidden_dim}")
    axes.grid(True)
    first, last = options.lengths[-2:]
    title = f"growth from n = {first} to {last}"
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", title=title)
    figure.savefig(options.output)


if __name__ == "__main__":
    run(main, Options)
