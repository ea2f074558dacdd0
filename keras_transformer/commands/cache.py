"""List the models of other libraries that were converted on first use, or delete them."""

from dataclasses import dataclass
from typing import Literal

import tyro


@dataclass(kw_only=True)
class Options:
    action: tyro.conf.Positional[Literal["list", "clear"]]
    """What to do."""
    models: tyro.conf.Positional[tuple[str, ...]] = ()
    """The models to delete, as `list` prints them. Defaults to all."""


def main(options: Options) -> None:
    from keras_transformer.convert.conversion_cache import clear, conversions
    from keras_transformer.presets.registry import size_of

    if options.action == "list":
        for conversion in conversions():
            print(conversion.source, size_of(conversion.path), conversion.path, sep="  ")
        return
    for conversion in clear(options.models):
        print(f"deleted {conversion.source}")
