"""Comparisons of trainings: their curves, and the table of the paper's variations."""

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
# The paper's columns -> hyperparameters.
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
    """Read the results of one or several trainings.

    Args:
        folder: the folder of a run, or a folder of such folders.

    Returns:
        A dict of name -> contents of `results.json`.

    Raises:
        UserError: if there are no results, or a file is damaged.
    """
    folder = Path(folder)
    paths = [folder / RESULTS] if (folder / RESULTS).is_file() else folder.glob(f"*/{RESULTS}")
    runs = {}
    for path in sorted(paths, key=lambda path: path.stat().st_mtime):
        runs[path.parent.resolve().name] = read_json(path)
    if not runs:
        raise UserError(f"There is no {RESULTS} in {folder}, or in a folder in it.")
    return runs


def plot_runs(
    runs: Mapping[str, Mapping[str, Any]], path: str | os.PathLike | None = None, dark: bool = False
) -> "Figure":
    """Draw the curves of trainings: one panel per measure, one color per training.

    Args:
        runs: dict of name -> results, from `read_runs`.
        path: PNG or SVG file to write.
        dark: whether the picture is for a dark page.

    Returns:
        The `matplotlib.figure.Figure`.

    Raises:
        UserError: if no training has a history, or the path does not end with .png or .svg.
    """
    with picture((4.6, 3.6), path, dark) as figure:
        if not draw_trainings(figure, runs):
            raise UserError("`runs` must contain a training with a history. Received none.")
    return figure


def variations_table(runs: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """Return Table 3, the variations of the architecture, in Markdown.

    Args:
        runs: dict of name -> results of the trainings to compare, from `read_runs`. Defaults to
            the paper's rows, with their number of parameters here, without scores.

    Returns:
        A string of several lines. Perplexity is per token of the vocabulary; BLEU is measured on
        the validation text.
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


def table_sizes(hyperparameters: Mapping[str, Any]) -> list[float]:
    """Return the values of `COLUMNS`, with the defaults of `key_dim` and `value_dim`."""
    sizes = dict(hyperparameters)
    sizes["key_dim"] = sizes["key_dim"] or sizes["hidden_dim"] // sizes["num_heads"]
    sizes["value_dim"] = sizes["value_dim"] or sizes["key_dim"]
    return [sizes[name] for name in COLUMNS.values()]


def _row(name, hyperparameters):
    return [name, *table_sizes(hyperparameters)]


def _score(results, *names):
    """Return a nested number with one or two decimals; an empty string if it is missing."""
    value = results
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"
