"""Draw the paper's figures and tables, and the curves of trainings, into a folder.

Positional encodings, the learning rate, Table 1 measured on this machine, the table of variations,
and the curves of given trainings.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from keras_transformer.command_line import run
from keras_transformer.files import atomic_write
from keras_transformer.visualization.paper_figures import (
    measure_layer_types,
    plot_layer_types,
    plot_learning_rates,
    plot_position_encodings,
)
from keras_transformer.visualization.runs import plot_runs, read_runs, variations_table

logger = logging.getLogger("keras_transformer.figures")  # not `__main__`


@dataclass(kw_only=True)
class Options:
    folder: tyro.conf.Positional[Path]
    """Folder to write into."""
    runs: Path | None = None
    """Folder of a run, or of several such as variations.py writes: their curves are drawn, and the
    table of variations contains their scores."""
    form: Literal["png", "svg"] = "png"
    """Format of the pictures."""
    dark: bool = False
    """Draw for a dark page."""
    lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    """Lengths of the sequences in Table 1."""
    hidden_dim: int = 128
    """Size of the representations in Table 1: a multiple of 4."""


def main(options: Options) -> None:
    runs = None if options.runs is None else read_runs(options.runs)
    options.folder.mkdir(parents=True, exist_ok=True)

    def path(name):
        logger.info("%s", options.folder / f"{name}.{options.form}")
        return options.folder / f"{name}.{options.form}"

    dark = options.dark
    plot_position_encodings(path=path("position_encodings"), dark=dark)
    plot_learning_rates(path=path("learning_rates"), dark=dark)
    times = measure_layer_types(options.lengths, options.hidden_dim)
    plot_layer_types(times, options.lengths, options.hidden_dim, path("layer_types"), dark=dark)
    if runs is not None:
        plot_runs(runs, path("trainings"), dark=dark)
    with atomic_write(options.folder / "variations.md") as table:
        table.write_text(variations_table(runs), "utf-8")
    logger.info("%s", options.folder / "variations.md")


if __name__ == "__main__":
    run(main, Options)
