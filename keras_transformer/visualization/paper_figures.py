"""Figures of the paper's formulas, and Table 1 measured on this machine.

The formulas are computed by the layer and the schedule that models and trainings use.
"""

import functools
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.layers import MultiHeadAttention, SinePositionEncoding
from keras_transformer.training.schedules import NoamSchedule
from keras_transformer.visualization.style import picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_position_encodings(
    length: int = 100,
    hidden_dim: int = 128,
    path: str | os.PathLike | None = None,
    dark: bool = False,
) -> "Figure":
    """Draw the sinusoids of position (section 3.5), as `SinePositionEncoding` adds them.

    Args:
        length: the number of positions.
        hidden_dim: d_model, an even number.
        path: PNG or SVG file to write.
        dark: whether the picture is for a dark page.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        UserError: if `hidden_dim` is odd, or the path does not end with .png or .svg.
    """
    zeros = np.zeros((1, length, hidden_dim), "float32")
    encoding = ops.convert_to_numpy(SinePositionEncoding()(zeros))[0]
    with picture((7, 5.2), path, dark) as figure:
        above, below = figure.subplots(2, height_ratios=[3, 2])
        image = above.imshow(encoding.T, cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
        above.set(xlabel="position", ylabel="dimension", title="PE(pos, i)")
        figure.colorbar(image, ax=above)
        for dimension in sorted({0, *(hidden_dim // part // 2 * 2 for part in (8, 4, 3))}):
            below.plot(encoding[:, dimension], label=f"dimension {dimension}")
        below.set(xlabel="position", xlim=(0, length - 1))
        below.grid(True)
        below.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize="small")
    return figure


def plot_learning_rates(
    hidden_dims: Sequence[int] = (256, 512, 1024),
    warmup_steps: Sequence[int] = (4000, 8000),
    num_steps: int = 40_000,
    path: str | os.PathLike | None = None,
    dark: bool = False,
) -> "Figure":
    """Draw the paper's learning rate (section 5.3), as `NoamSchedule` computes it.

    Args:
        hidden_dims: d_model of each schedule, one color each.
        warmup_steps: numbers of warm-up steps, one line style each.
        num_steps: the number of updates.
        path: PNG or SVG file to write.
        dark: whether the picture is for a dark page.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        UserError: if a number is not positive, or the path does not end with .png or .svg.
    """
    steps = np.unique(np.linspace(0, num_steps - 1, 500).astype("int32"))
    with picture((7, 3.8), path, dark) as figure:
        axes = figure.add_subplot()
        for number, hidden_dim in enumerate(hidden_dims):
            for warmup, line in zip(warmup_steps, ("-", "--", ":", "-.")):
                rates = ops.convert_to_numpy(NoamSchedule(hidden_dim, warmup)(steps))
                label = f"d_model {hidden_dim}, warm-up {warmup:,}"
                axes.plot(steps + 1, rates, line, color=f"C{number}", label=label)
        axes.set(xlabel="updates", title="Learning rate", xlim=(0, num_steps), ylim=(0, None))
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3))
        axes.grid(True)
        axes.legend(fontsize="small")
    return figure


def make_layer_types(
    hidden_dim: int, num_heads: int, window: int, kernel_size: int
) -> dict[str, keras.layers.Layer]:
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
        f"self-attention (restricted, r = {window})": attention(attention_window=window),
    }


def layer_calls(
    layers: Mapping[str, keras.layers.Layer], lengths: Iterable[int], hidden_dim: int
) -> dict[tuple[str, int], Callable[[], Any]]:
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


def measure_layer_types(
    lengths: Sequence[int] = (128, 256, 512, 1024, 2048),
    hidden_dim: int = 128,
    num_heads: int = 4,
    window: int = 33,
    kernel_size: int = 3,
    repeats: int = 10,
) -> dict[str, list[float]]:
    """Measure the time of a forward pass on this machine and this backend.

    Args:
        lengths: n, the lengths of the sequences.
        hidden_dim: d, the size of the representations.
        num_heads: heads of the two self-attentions.
        window: r, the neighborhood of the restricted self-attention.
        kernel_size: k, the width of the convolution.
        repeats: the number of rounds. Each round calls every layer once at every length.

    Returns:
        A dict of name of the layer -> list of seconds of the fastest call, one per length.

    Raises:
        UserError: if there are fewer than two lengths, or they do not increase.
    """
    if len(lengths) < 2 or list(lengths) != sorted({*lengths}):
        raise UserError(
            "`lengths` must be two or more increasing numbers. Received: "
            f"lengths={' '.join(map(str, lengths))}"
        )
    layers = make_layer_types(hidden_dim, num_heads, window, kernel_size)
    calls = layer_calls(layers, lengths, hidden_dim)
    seconds = {key: [] for key in calls}
    for _ in range(repeats):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[key].append(time.perf_counter() - start)
    return {name: [min(seconds[name, length]) for length in lengths] for name in layers}


def growth(seconds: Sequence[float], lengths: Sequence[int]) -> float:
    """Return the exponent of the growth over the last two lengths: 1 is linear, 2 quadratic."""
    return math.log(seconds[-1] / seconds[-2]) / math.log(lengths[-1] / lengths[-2])


def plot_layer_types(
    times: Mapping[str, Sequence[float]],
    lengths: Sequence[int],
    hidden_dim: int,
    path: str | os.PathLike | None = None,
    dark: bool = False,
) -> "Figure":
    """Draw the results of `measure_layer_types`, with the growth over the last two lengths.

    Args:
        times: dict of name of the layer -> list of seconds, one per length.
        lengths: the lengths of the sequences.
        hidden_dim: d, for the title.
        path: PNG or SVG file to write.
        dark: whether the picture is for a dark page.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        UserError: if the path does not end with .png or .svg.
    """
    with picture((7, 4.6), path, dark) as figure:
        axes = figure.add_subplot()
        for name, seconds in times.items():
            label = f"{name}: n^{growth(seconds, lengths):.1f}"
            axes.plot(lengths, [1000 * value for value in seconds], marker=".", label=label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(lengths, [str(n) for n in lengths])
        axes.set_xlabel("length of the sequence, n")
        axes.set_ylabel("milliseconds")
        axes.set_title(f"Time of one layer of Table 1, d = {hidden_dim}")
        axes.grid(True)
        title = f"growth from n = {lengths[-2]} to {lengths[-1]}"
        figure.legend(loc="outside lower center", ncols=2, fontsize="small", title=title)
    return figure
