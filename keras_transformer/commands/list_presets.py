"""List the presets that need no download, one per line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(kw_only=True)
class Options:
    folder: Path | None = None
    """Folder of presets. Defaults to saved_models in a checkout, and the models of other libraries
    that were converted on first use."""


def main(options: Options) -> None:
    from keras_transformer.convert.conversion_cache import conversions
    from keras_transformer.errors import UserError
    from keras_transformer.presets.location import saved_models
    from keras_transformer.presets.registry import preset_folders, summaries

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
