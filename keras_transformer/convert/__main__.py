"""Writes another library's model as a preset, which `from_preset` loads on any backend."""

import dataclasses
import inspect
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from keras_transformer import convert
from keras_transformer.command_line import ProgressOptions, given, run
from keras_transformer.convert.card import converted_card
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write, check_writable
from keras_transformer.models.transformer import Transformer
from keras_transformer.progress import spinner

logger = logging.getLogger("keras_transformer.convert")  # whatever runs as `__main__`

_KERAS = ".keras"


@dataclass(kw_only=True)
class TorchOptions:
    num_heads: int | None = None
    """Of torch: nhead of the torch.nn.Transformer. It must be given."""
    source_embedding: str | None = None
    """Of torch: name of the source's embedding matrix; guessed if not given, as the next three."""
    target_embedding: str | None = None
    """Of torch: name of the target's embedding matrix."""
    output: str | None = None
    """Of torch: name of the matrix that makes logits."""
    positions: tuple[str, ...] | None = None
    """Of torch: name of the table of positions, or of the source's and the target's."""
    reserved_ids: tuple[int, int, int, int] | None = None
    """Of torch: ids of the padding, start, end and unknown token. Defaults to 0 1 2 3."""
    activation: str | None = None
    """Of torch: activation of the feed-forward networks. Defaults to relu."""
    normalize_first: bool | None = None
    """Of torch: norm_first of the torch.nn.Transformer. Defaults to False."""
    scale_embeddings: bool | None = None
    """Of torch: whether embeddings are multiplied by sqrt(d_model). Defaults to True."""
    layer_norm_epsilon: float | None = None
    """Of torch: layer_norm_eps of the torch.nn.Transformer. Defaults to 1e-5."""
    ignore: tuple[str, ...] | None = None
    """Of torch: names of tensors on which logits do not depend."""


@dataclass(kw_only=True)
class CTranslate2Options:
    source_prefix: tuple[str, ...] | None = None
    """Of ctranslate2: tokens that the model wants before each source, such as a language's."""
    target_prefix: tuple[str, ...] | None = None
    """Of ctranslate2: tokens that outputs begin with."""
    source_end: bool | None = None
    """Of ctranslate2: whether sources end with the end token; by default as the model says."""


@dataclass
class Options(ProgressOptions):
    format: Annotated[str, tyro.conf.Positional]
    """What wrote the model: marian, m2m100, fsmt, ctranslate2 or torch."""
    source: Annotated[str, tyro.conf.Positional]
    """Its folder or file, or hf://user/repository."""
    destination: Annotated[Path, tyro.conf.Positional]
    """Folder for the preset, which must not be there yet; of torch, a file that ends with .keras,
    for the model alone."""
    source_language: str | None = None
    """Of m2m100: the language to translate from, by its code there."""
    target_language: str | None = None
    """Of a model with several target languages: the one to translate into, by its name there."""
    ctranslate2: CTranslate2Options = field(default_factory=CTranslate2Options)
    torch: TorchOptions = field(default_factory=TorchOptions)


def main(options):
    """Convert, and write the preset with its card."""
    if options.format not in convert.__all__:
        raise UserError(
            f"There is no format {options.format!r}. Expected {', '.join(convert.__all__)}."
        )
    if options.destination.exists():
        raise UserError(f"{options.destination} is there already. Choose another, or remove it.")
    if options.format == "torch":
        _check_ending(options.destination)
    check_writable("destination", options.destination, is_folder=True)
    read = getattr(convert, options.format)
    with spinner("converting"):
        converted = read(options.source, **_arguments(read, options))
    if isinstance(converted, Transformer):
        _write_model(converted, options.destination)
        return
    card = converted_card(options.format, options.source, converted)
    converted.save_to_preset(options.destination, card=card)
    logger.info(f"The preset is in {options.destination}.")


def _arguments(read, options):
    """Those of the options that were given, which must be the format's."""
    arguments = given(options, "source_language", "target_language")
    for others in (options.ctranslate2, options.torch):
        arguments |= given(others, *(x.name for x in dataclasses.fields(others)))
    parameters = inspect.signature(read).parameters
    for name in arguments:
        if name not in parameters:
            raise UserError(f"`{name}` is no option of {options.format}.")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in ("source", *arguments):
            raise UserError(f"{options.format} needs `{name}`.")
    return arguments


def _check_ending(path):
    if path.suffix != _KERAS:
        raise UserError(
            f"A model without a tokenizer is a file of Keras's: end its name with {_KERAS}. "
            f"Received: {path}"
        )


def _write_model(model, path):
    with atomic_write(path) as new:
        model.save(new)
    logger.info(f"The model is in {path}.")


if __name__ == "__main__":
    run(main, Options)
