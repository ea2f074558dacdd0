"""Trainings beside each other: their curves, and the table of the paper's variations."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.errors import UserError
from keras_transformer.files import read_json
from keras_transformer.models.variants import get_variant, variants
from keras_transformer.training.cost import count_parameters
from keras_transformer.training.plot import draw_trainings
from keras_transformer.visualization.style import picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = "results.json"
# The paper's columns, and what they are called here.
COLUMNS = {
    "N": "num_layers",
    "d_model": "hidden_dim",
    "d_ff": "intermediate_dim",
    "h": "num_heads",
    "d_k": "key_dim",
    "d_v": "value_dim",
    "P_drop": "dropout",
    "eps_ls": "label_smoothing",
}
_BASE_VOCABULARY = 37_000  # section 5.1: English-German


def read_runs(folder: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """The results of a training, or of each of several.

    Args:
        folder: a run's folder, or one of such folders.

    Returns:
        A dict of name -> what its `results.json` holds.

    Raises:
        UserError: if there is none, or one is damaged.
    """
    folder = Path(folder)
    paths = [folder / RESULTS] if (folder / RESULTS).is_file() else folder.glob(f"*/{RESULTS}")
    runs = {}
    for path in sorted(paths, key=lambda path: path.stat().st_mtime):
        runs[path.parent.resolve().name] = read_json(path)
    if not runs:
        raise UserError(f"There is no {RESULTS} in {folder}, nor in a folder in it.")
    return runs


def plot_runs(
    runs: Mapping[str, Mapping[str, Any]], path: str | os.PathLike | None = None, dark: bool = False
) -> "Figure":
    """Draw how trainings went: a panel for each measure, a color for each training.

    Args:
        runs: dict of name -> results, as `read_runs` gives them.
        path: file to write, PNG or SVG.
        dark: whether the picture is for a dark page.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        UserError: if no training has a history, or the path ends with neither .png nor .svg.
    """
    with picture((4.6, 3.6), path, dark) as figure:
        if not draw_trainings(figure, runs):
            raise UserError("There is no training with a history among the results.")
    return figure


def variations_table(runs: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """Table 3: the variations of the architecture, in Markdown.

    Args:
        runs: dict of name -> results, as `read_runs` gives them: trainings that are to be compared.
            Defaults to the paper's rows, with the parameters that they have here, and no scores.

    Returns:
        A string of several lines. Perplexity is per token of the vocabulary; BLEU is that of the
        validation text.
    """
    if runs is None:
        rows = [_row(name, get_variant(name)) for name in variants]
        parameters = [count_parameters(get_variant(name), _BASE_VOCABULARY) for name in variants]
        cells = {"params x10^6": [f"{count / 1e6:.0f}" for count in parameters]}
    else:
        rows = [_row(name, results["hyperparameters"]) for name, results in runs.items()]
        cells = {
            "steps": [results["steps"] for results in runs.values()],
            "PPL (val)": [_score(x, "validation", "perplexity") for x in runs.values()],
            "BLEU (val)": [_score(x, "scores", "val", "bleu") for x in runs.values()],
            "params x10^6": [f"{results['parameters'] / 1e6:.1f}" for results in runs.values()],
        }
    header = ["", *COLUMNS, *cells]
    rows = [[*row, *more] for row, *more in zip(rows, *cells.values())]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def sizes_of(hyperparameters: Mapping[str, Any]) -> list[float]:
    """The values of `COLUMNS` of some hyperparameters, with those that follow from others."""
    sizes = dict(hyperparameters)
    sizes["key_dim"] = sizes["key_dim"] or sizes["hidden_dim"] // sizes["num_heads"]
    sizes["value_dim"] = sizes["value_dim"] or sizes["key_dim"]
    return [sizes[name] for name in COLUMNS.values()]


def _row(name, hyperparameters):
    return [name, *sizes_of(hyperparameters)]


def _score(results, *names):
    """A number somewhere in the results, with a digit or two after the point, if it is there."""
    value = results
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"
