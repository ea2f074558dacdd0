"""Pictures of the paper's formulas, drawn with the layer and the schedule that compute them."""

import numpy as np
from keras import ops

from keras_transformer.layers import SinePositionEncoding
from keras_transformer.training.schedules import NoamSchedule
from keras_transformer.visualization.style import picture


def plot_position_encodings(length=100, hidden_dim=128, path=None, dark=False):
    """Draw the sinusoids of position (section 3.5), as `SinePositionEncoding` adds them.

    Args:
        length: how many positions.
        hidden_dim: d_model: an even number.
        path: file to write, PNG or SVG.
        dark: whether the picture is for a dark page.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        UserError: if `hidden_dim` is odd, or the path ends with neither .png nor .svg.
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
    hidden_dims=(256, 512, 1024),
    warmup_steps=(4000, 8000),
    num_steps=40_000,
    path=None,
    dark=False,
):
    """Draw the paper's learning rate (section 5.3), as `NoamSchedule` computes it.

    Args:
        hidden_dims: d_model of each schedule, a colour each.
        warmup_steps: numbers of warm-up steps, a kind of line each.
        num_steps: how many updates.
        path: file to write, PNG or SVG.
        dark: whether the picture is for a dark page.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        UserError: if a number is not positive, or the path ends with neither .png nor .svg.
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
