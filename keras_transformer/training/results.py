"""Files of results: history, curves, facts and the model card."""

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from keras_transformer.files import atomic_write
from keras_transformer.memory import peak_memory_mib
from keras_transformer.training.cost import training_flops
from keras_transformer.training.plot import draw_trainings

if TYPE_CHECKING:
    from keras_transformer.training.callbacks import PlannedBatches
    from keras_transformer.training.context import TrainingContext
    from keras_transformer.training.trainer import Fitted

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
    run = {"history": history, "interval": interval, "steps": steps}
    draw_trainings(figure, {folder.resolve().name: run})
    with atomic_write(folder / "training.png") as path:
        figure.savefig(path, dpi=120, format="png")


def training_facts(
    model: keras.Model,
    train_batches: "PlannedBatches",
    context: "TrainingContext",
    fitted: "Fitted",
    hyperparameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Return facts about a training and its cost, as JSON values.

    Args:
        model: the trained model.
        train_batches: its `TokenBatches`.
        context: the `TrainingContext`.
        fitted: the result of `fit`.
        hyperparameters: hyperparameters of the model and its training.

    Returns:
        A dict.
    """
    optimizer = model.optimizer
    batches = int(optimizer.batches.numpy())
    vocabulary_size = model.config.vocabulary_size
    epochs = train_batches.epochs(batches)
    sources, targets = train_batches.tokens.mean_lengths
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
        "seconds_of_fit": round(fitted.seconds),
        "target_tokens_per_second": round(float(target_tokens / fitted.seconds)),
        "peak_memory_mib": peak_memory_mib(),
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
