"""List the models of other libraries that were converted on first use, or delete them."""

from dataclasses import dataclass
from typing import Literal

import tyro


@dataclass(kw_only=True)
class Options:
    action: tyro.conf.Positional[Literal["list", "clear"]]
    """What to do."""
    models: tyro.conf.Positional[tuple[str, ...]] = ()
    """The models to list or delete, as `list` prints them. Defaults to all, and to the
    files that killed conversions left."""


def main(options: Options) -> None:
    from keras_transformer.convert.conversion_cache import Conversion, clear, select, unfinished
    from keras_transformer.presets.registry import size_of

    if options.action == "list":
        for source, path in select(options.models):
            print(source, size_of(path), path, sep="  ")
        for path in () if options.models else unfinished():
            print("(unfinished)", size_of(path), path, sep="  ")
        return
    for deleted in clear(options.models):
        print(f"deleted {deleted.source if isinstance(deleted, Conversion) else deleted}")
