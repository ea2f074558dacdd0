"""Writes another library's model as a preset, which `from_preset` loads on any backend."""

import dataclasses
import inspect
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from keras_transformer import convert
from keras_transformer.command_line import given, run
from keras_transformer.convert.card import converted_card
from keras_transformer.errors import UserError

logger = logging.getLogger("keras_transformer.convert")  # whatever runs as `__main__`

_ARGUMENTS = ("format", "source", "destination")


@dataclass
class Options:
    format: Annotated[str, tyro.conf.Positional]
    """What wrote the model: marian."""
    source: Annotated[str, tyro.conf.Positional]
    """Its folder or file, or hf://user/repository."""
    destination: Annotated[Path, tyro.conf.Positional]
    """Folder for the preset, which must not be there yet."""
    target_language: str | None = None
    """Of a model with several target languages: the one to translate into, by its name there."""


def main(options):
    """Convert, and write the preset with its card."""
    if options.format not in convert.__all__:
        raise UserError(
            f"There is no format {options.format!r}. Expected {', '.join(convert.__all__)}."
        )
    if options.destination.exists():
        raise UserError(f"{options.destination} is there already. Choose another, or remove it.")
    read = getattr(convert, options.format)
    names = [field.name for field in dataclasses.fields(Options) if field.name not in _ARGUMENTS]
    arguments = given(options, *names)
    for name in arguments:
        if name not in inspect.signature(read).parameters:
            raise UserError(f"`{name}` is no option of {options.format}.")
    translator = read(options.source, **arguments)
    card = converted_card(options.format, options.source, translator)
    translator.save_to_preset(options.destination, card=card)
    logger.info(f"The preset is in {options.destination}.")


if __name__ == "__main__":
    run(main, Options)
