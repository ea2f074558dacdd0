"""A picture of a training."""

import math
from itertools import count


def plot_training(history, path, interval, steps):
    """Draw how a training went: training and validation, and what it scored, against the updates.

    Args:
        history: name -> values, one for each interval, as Keras keeps it.
        path: the PNG file to write.
        interval: number of updates between two values.
        steps: number of updates of the whole training: its last interval may be shorter.
    """
    from matplotlib.figure import Figure

    names = [name for name in history if f"val_{name}" in history and name != "loss"]
    scores = [
        name
        for name in history
        if name.startswith("val_") and name.removeprefix("val_") not in (*names, "loss")
    ]
    panels = [(name, [name, f"val_{name}"]) for name in names] + [(name, [name]) for name in scores]
    figure = Figure(figsize=(4.5 * max(1, len(panels)), 3.5), layout="constrained")
    for index, (title, lines) in zip(count(1), panels):
        axes = figure.add_subplot(1, len(panels), index)
        for name in lines:
            values = [math.nan if value is None else value for value in history[name]]
            updates = [min(interval * (mark + 1), steps) for mark in range(len(values))]
            label = "validation" if name.startswith("val_") else "training"
            axes.plot(updates, values, label=label, marker=".")
        axes.set_title(title.removeprefix("val_"))
        axes.set_xlabel("updates")
        axes.grid(alpha=0.3)
        if title == "perplexity":
            axes.set_yscale("log")
        if len(lines) > 1:
            axes.legend()
    figure.savefig(path, dpi=120, format="png")
