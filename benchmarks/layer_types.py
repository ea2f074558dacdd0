"""Measure Table 1: the time of one layer of each type, by sequence length."""

import statistics
from dataclasses import dataclass
from pathlib import Path

import keras
from timing import matrix_product_speed, take_turns

from keras_transformer.command_line import run
from keras_transformer.visualization.paper_figures import (
    growth,
    layer_calls,
    make_layer_types,
    plot_layer_types,
)


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
        plot_layer_types(times, options.lengths, options.hidden_dim, options.output)


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


def print_table(times, lengths):
    """Print a Markdown table with the growth over the last doubling: 1 is linear, 2 quadratic."""
    print("| Layer type | " + " | ".join(f"n = {n:,}" for n in lengths) + " | growth |")
    print("|---" * (len(lengths) + 2) + "|")
    for name, seconds in times.items():
        cells = [f"{1000 * value:.3g}" for value in seconds]
        print(f"| {name} | " + " | ".join(cells) + f" | n^{growth(seconds, lengths):.2f} |")


if __name__ == "__main__":
    run(main, Options)
