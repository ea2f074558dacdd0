"""The commands that list and describe presets, and delete converted models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from keras_transformer.convert.conversion_cache import (
    Conversion,
    clear,
    conversions,
    select,
    unfinished,
)
from keras_transformer.errors import UserError
from keras_transformer.presets.location import locate, saved_models
from keras_transformer.presets.registry import (
    details,
    format_size,
    preset_folders,
    read_card,
    summaries,
)


@dataclass(kw_only=True)
class ListOptions:
    folder: Path | None = None
    """Folder of presets. Defaults to saved_models in a checkout, and the models of other libraries
    that were converted on first use."""


def list_presets(options: ListOptions) -> None:
    """List the available presets, one per line."""
    paths = preset_folders(options.folder or saved_models())
    if options.folder is None:
        paths += sorted(conversion.path for conversion in conversions())
    if not paths:
        raise UserError(
            f"There are no presets in {options.folder}."
            if options.folder
            else "There are no presets: `saved_models` is only in a checkout, and no model of "
            "another library was converted yet. Pass --folder."
        )
    if rows := [*summaries(paths)]:
        print_table(rows)


def print_table(rows: Sequence[Mapping[str, str]]) -> None:
    """Print dicts of strings, all with the same keys, in columns of even width."""
    rows = [dict(zip(rows[0], rows[0])), *rows]
    widths = {name: max(len(row[name]) for row in rows) for name in rows[0]}
    for row in rows:
        print("  ".join(row[name].ljust(width) for name, width in widths.items()).rstrip())


@dataclass(kw_only=True)
class InfoOptions:
    name: tyro.conf.Positional[str]
    """Preset: a folder, a name that `list` prints, or hf://user/repository."""


def describe_preset(options: InfoOptions) -> None:
    """Describe a preset: its parts and its model card."""
    path = locate(options.name)
    for name, value in details(path).items():
        print(f"{name}: {value}")
    if card := read_card(path):
        print(f"\n{card.rstrip()}")


@dataclass(kw_only=True)
class CacheOptions:
    action: tyro.conf.Positional[Literal["list", "clear"]]
    """What to do."""
    models: tyro.conf.Positional[tuple[str, ...]] = ()
    """The models to list or delete, as `list` prints them. Defaults to all, and to the
    files that killed conversions left."""


def manage_cache(options: CacheOptions) -> None:
    """List or delete the models of other libraries that were converted on first use."""
    if options.action == "clear":
        for deleted in clear(options.models):
            print(f"deleted {deleted.source if isinstance(deleted, Conversion) else deleted}")
        return
    for source, path in select(options.models):
        print(source, format_size(path), path, sep="  ")
    for path in () if options.models else unfinished():
        print("(unfinished)", format_size(path), path, sep="  ")
