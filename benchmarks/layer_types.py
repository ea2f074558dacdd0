"""Table 1 measured: the time of one layer of each type against the length of the sequence."""

import functools
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
from timing import matrix_product_speed, take_turns

import keras_transformer as kt
from keras_transformer.command_line import run


@dataclass
class Options:
    hidden_dim: int = 512
    """d, the size of the representations."""
    num_heads: int = 8
    """Heads of the two self-attentions."""
    window: int = 65
    """r, the neighbourhood of the restricted self-attention."""
    kernel_size: int = 3
    """k, the width of the convolution."""
    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
    """n, the lengths of the sequences."""
    repeats: int = 5
    """Rounds. In each, every layer is called once at every length."""
    output: Path | None = None
    """PNG file to draw the times in."""


def main(options):
    layers = layer_types(options)
    print(
        f"One sequence, d = {options.hidden_dim}, forward, keras {keras.__version__} on "
        f"{keras.backend.backend()}, matrix products {matrix_product_speed():.0f} GFLOP/s; "
        f"milliseconds, medians of {options.repeats} rounds\n"
    )
    times = measure(layers, options)
    print_table(times, options.lengths)
    if options.output:
        draw(times, options)


def layer_types(options):
    """Name -> layer, in the order of Table 1."""
    attention = functools.partial(
        kt.layers.MultiHeadAttention, options.num_heads, options.hidden_dim // options.num_heads
    )
    return {
        "self-attention": attention(),
        "recurrent (LSTM)": keras.layers.LSTM(options.hidden_dim, return_sequences=True),
        f"convolutional (k = {options.kernel_size})": keras.layers.Conv1D(
            options.hidden_dim, options.kernel_size, padding="same"
        ),
        f"self-attention (restricted, r = {options.window})": attention(
            attention_window=options.window
        ),
    }


def measure(layers, options):
    """Name -> the median seconds at each length."""
    calls = {}
    for name, layer in layers.items():
        for length in options.lengths:
            # A model of one length is compiled for it, as the others are.
            inputs = keras.Input((length, options.hidden_dim))
            model = keras.Model(inputs, layer(inputs))
            x = np.random.default_rng(0).standard_normal((1, *inputs.shape[1:]), "float32")
            calls[name, length] = functools.partial(model.predict_on_batch, x)
            calls[name, length]()
    seconds = take_turns(calls, options.repeats, pause=0.05)
    return {
        name: [statistics.median(seconds[name, length]) for length in options.lengths]
        for name in layers
    }


def print_table(times, lengths):
    """Print a Markdown table, with the growth over the last doubling: 1 is linear, 2 square."""
    print("| Layer type | " + " | ".join(f"n = {n:,}" for n in lengths) + " | growth |")
    print("|---" * (len(lengths) + 2) + "|")
    for name, seconds in times.items():
        growth = math.log(seconds[-1] / seconds[-2]) / math.log(lengths[-1] / lengths[-2])
        cells = [f"{1000 * value:.3g}" for value in seconds]
        print(f"| {name} | " + " | ".join(cells) + f" | n^{growth:.2f} |")


def draw(times, options):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, seconds in times.items():
        axes.plot(options.lengths, [1000 * value for value in seconds], marker=".", label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(options.lengths, [str(n) for n in options.lengths])
    axes.set_xlabel("length of the sequence, n")
    axes.set_ylabel("milliseconds")
    axes.set_title(f"Time of one layer, d = {options.hidden_dim}", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(options.output, dpi=120)


if __name__ == "__main__":
    run(main, Options)
