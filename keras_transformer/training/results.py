"""Files of results: history, curves, facts and the model card."""

import json
import logging
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from keras_transformer.data.batching import TokenBatches
from keras_transformer.files import atomic_write
from keras_transformer.training.context import TrainingContext
from keras_transformer.training.cost import training_flops

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)


def write_history(
    history: Mapping[str, Sequence[float]], folder: Path, interval: int, steps: int
) -> None:
    """Write `history.json` and `training.png`.

    Args:
        history: name -> values, one per interval.
        folder: the run's folder.
        interval: updates between two values.
        steps: updates at the last value.
    """
    with atomic_write(folder / "history.json") as path:
        path.write_text(json.dumps(history, indent=2) + "\n", "utf-8")
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    draw_history(figure, history, interval, steps)
    with atomic_write(folder / "training.png") as path:
        figure.savefig(path, dpi=120, format="png")


def draw_history(
    figure: "Figure", history: Mapping[str, Sequence[float | None]], interval: int, steps: int
) -> None:
    """Draw the history of a training with one panel per measure.

    The loss has no panel, because the perplexity shows the same.

    Args:
        figure: an empty `matplotlib.figure.Figure`, whose size is set.
        history: name -> values, one per interval.
        interval: updates between two values.
        steps: updates at the last value.
    """
    measures = dict.fromkeys(name.removeprefix("val_") for name in history if "loss" not in name)
    if not measures:
        return
    figure.set_size_inches(4.6 * len(measures), 3.6)
    panels = figure.subplots(1, len(measures), squeeze=False)[0]
    for axes, measure in zip(panels, measures):
        for name, line, label in (
            (f"val_{measure}", "-", "validation"),
            (measure, "--", "training"),
        ):
            values = [math.nan if value is None else value for value in history.get(name, [])]
            # The last interval may be shorter.
            marks = [min(steps, interval * (mark + 1)) for mark in range(len(values))]
            axes.plot(marks, values, line, marker=".", color="C0", label=label)
        axes.set(title=measure, xlabel="updates")
        axes.grid(True, alpha=0.3)
        if measure == "perplexity":
            axes.set_yscale("log")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)


def training_facts(
    model: keras.Model,
    train_batches: TokenBatches,
    context: TrainingContext,
    seconds_of_fit: float,
    hyperparameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Return facts about a training and its cost, as JSON values.

    Args:
        model: the trained model.
        train_batches: its `TokenBatches`.
        context: the `TrainingContext`.
        seconds_of_fit: the training time of `fit`.
        hyperparameters: hyperparameters of the model and its training.

    Returns:
        A dict.
    """
    optimizer = model.optimizer
    batches = int(optimizer.batches.numpy())
    vocabulary_size = model.config.vocabulary_size
    epochs = train_batches.epochs(batches)
    sources, targets = train_batches.lengths
    counts = train_batches.plans.counts
    flops = training_flops(hyperparameters, vocabulary_size, sources, targets, counts)
    target_tokens = train_batches.target_tokens(batches)
    return {
        "backend": keras.backend.backend(),
        "seed": context.options.run.seed,
        "steps": int(optimizer.iterations.numpy()),
        "skipped_updates": int(optimizer.num_skipped.numpy()),
        "parameters": model.count_params(),
        "hyperparameters": dict(hyperparameters),
        "epochs": round(float(epochs), 2),
        "training_flops": epochs * flops,
        "seconds": round(time.time() - context.began + context.start.seconds),
        "seconds_of_fit": round(seconds_of_fit),
        "target_tokens_per_second": round(float(target_tokens / seconds_of_fit)),
        "peak_memory_mib": _peak_memory_mib(),
    }


def write_results(
    facts: Mapping[str, Any], history: Mapping[str, Sequence[float]], folder: Path
) -> None:
    """Write `results.json`.

    Args:
        facts: dict of JSON values that includes those of `training_facts`.
        history: name -> values, one per interval.
        folder: the run's folder.
    """
    with atomic_write(folder / "results.json") as path:
        path.write_text(json.dumps({**facts, "history": history}, indent=2) + "\n", "utf-8")
    cost = f"{facts['seconds']} s in all"
    if facts["peak_memory_mib"]:
        cost += f", {facts['peak_memory_mib']} MiB of memory at most"
    logger.info("%s.", cost)


def model_card(title: str, facts: Mapping[str, Any], lines: Iterable[str]) -> str:
    """Return a model card in Markdown.

    Args:
        title: its title.
        facts: the result of `training_facts`; optionally `"command"`, `"mixture"`, the number of
            pairs per text, and `"left_out"`, the number of removed pairs per reason.
        lines: further lines, such as scores.

    Returns:
        A string.
    """
    command = [f"command: `{facts['command']}`"] if "command" in facts else []
    left_out = [f"{count:,} {reason}" for reason, count in facts.get("left_out", {}).items()]
    filtered = [f"left out of the training text: {', '.join(left_out)}"] if left_out else []
    mixture = [
        f"{part['pairs']:,} pairs {' '.join([*part['tags'], part['source']])} to {part['target']} "
        f"of {part['dataset']}"
        for part in facts.get("mixture", [])
    ]
    run = (
        f"backend {facts['backend']}, seed {facts['seed']}, {facts['steps']} updates, "
        f"{facts['parameters']:,} parameters, {facts['seconds']} s in all"
    )
    items = "".join(f"- {line}\n" for line in (*command, run, *mixture, *filtered, *lines))
    return f"# {title}\n\n{items}"


def _peak_memory_mib() -> int | None:
    """Return the peak memory of this process in MiB, or None on Windows."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts in bytes
