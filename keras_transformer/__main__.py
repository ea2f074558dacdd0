"""List the available presets, or describe one.

`list` prints one line per preset in a folder; `info NAME` prints the parts of a preset and its
model card.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from keras_transformer.command_line import run
from keras_transformer.errors import UserError
from keras_transformer.presets.location import locate
from keras_transformer.presets.registry import card_of, details, preset_folders, summaries


@dataclass(kw_only=True)
class Options:
    command: tyro.conf.Positional[Literal["list", "info"]]
    """Command to run."""
    name: tyro.conf.Positional[str | None] = None
    """Preset for `info`: a folder, a name that `list` prints, hf://user/repository or
    kaggle://user/model/keras/variation."""
    folder: Path | None = None
    """Folder of presets for `list`. Defaults to saved_models in a checkout."""


def main(options: Options) -> None:
    if options.command == "list":
        if rows := [*summaries(preset_folders(options.folder))]:
            print_table(rows)
        return
    if options.name is None:
        raise UserError(f"`{options.command}` needs the name of a preset: `list` prints some.")
    path = locate(options.name)
    for name, value in details(path).items():
        print(f"{name}: {value}")
    if card := card_of(path):
        print(f"\n{card.rstrip()}")


def print_table(rows: Sequence[Mapping[str, str]]) -> None:
    """Print dicts of strings, all with the same keys, in columns of even width."""
    rows = [dict(zip(rows[0], rows[0])), *rows]
    widths = {name: max(len(row[name]) for row in rows) for name in rows[0]}
    for row in rows:
        print("  ".join(row[name].ljust(width) for name, width in widths.items()).rstrip())


if __name__ == "__main__":
    run(main, Options)
