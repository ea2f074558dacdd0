"""The curves of trainings."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_trainings(figure: "Figure", runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Draw the history of trainings: one panel per measure, one color per training.

    The loss has no panel, because the perplexity shows the same.

    Args:
        figure: an empty `matplotlib.figure.Figure`, whose size is set.
        runs: dict of name -> `{"history": ..., "steps": ...}`, and perhaps `"interval"`, the number
            of updates between two values of the history.

    Returns:
        The names of the measures.
    """
    from matplotlib.lines import Line2D

    names = [name for run in runs.values() for name in run.get("history", {})]
    measures = list(dict.fromkeys(name.removeprefix("val_") for name in names))
    measures = [measure for measure in measures if measure != "loss"]
    if not measures:
        return []
    figure.set_size_inches(4.6 * len(measures), 3.6)
    for axes, measure in zip(figure.subplots(1, len(measures), squeeze=False)[0], measures):
        for number, run in enumerate(runs.values()):
            for name, line in ((measure, "--"), (f"val_{measure}", "-")):
                steps, values = _curve(run, name)
                axes.plot(steps, values, line, marker=".", color=f"C{number}")
        axes.set(title=measure, xlabel="updates")
        axes.grid(True, alpha=0.3)
        if measure == "perplexity":
            axes.set_yscale("log")
    handles = [Line2D([], [], color=f"C{number}") for number in range(len(runs))]
    kinds = [Line2D([], [], color="gray", linestyle=line) for line in ("-", "--")]
    labels = [*runs, "validation", "training"]
    figure.legend([*handles, *kinds], labels, loc="outside lower center", ncols=4)
    return measures


def _curve(run, name):
    """Return the updates at which a value was measured, and the values."""
    values = run.get("history", {}).get(name, [])
    interval = run.get("interval") or run["steps"] / max(1, len(values))
    # The last interval may be shorter.
    steps = [min(run["steps"], interval * (mark + 1)) for mark in range(len(values))]
    return steps, [math.nan if value is None else value for value in values]
