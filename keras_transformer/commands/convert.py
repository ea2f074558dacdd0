"""Write another library's model as a preset, which `from_preset` loads on any backend."""

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
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write, check_writable
from keras_transformer.progress import spinner
from keras_transformer.version import __version__

logger = logging.getLogger(__name__)

_KERAS = ".keras"
_FORMATS = ("marian", "m2m100", "fsmt", "ctranslate2", "torch")


@dataclass(kw_only=True)
class TorchOptions:
    """Options of torch."""

    num_heads: int | None = None
    """Of torch: nhead of the torch.nn.Transformer. Required."""
    source_embedding: str | None = None
    """Of torch: name of the source's embedding matrix. Defaults to a guess, as the next three."""
    target_embedding: str | None = None
    """Of torch: name of the target's embedding matrix."""
    output: str | None = None
    """Of torch: name of the matrix that projects to logits."""
    positions: tuple[str, ...] | None = None
    """Of torch: name of the table of positions, or names of the source's and the target's."""
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
    """Options of ctranslate2."""

    source_prefix: tuple[str, ...] | None = None
    """Of ctranslate2: tokens that the model expects before each source, such as a language's."""
    target_prefix: tuple[str, ...] | None = None
    """Of ctranslate2: tokens that outputs begin with."""
    source_end: bool | None = None
    """Of ctranslate2: whether sources end with the end token. Defaults to the model's option."""


@dataclass
class Options(ProgressOptions):
    """Options of the command."""

    format: Annotated[str, tyro.conf.Positional]
    """Format of the model: marian, m2m100, fsmt, ctranslate2 or torch."""
    source: Annotated[str, tyro.conf.Positional]
    """Folder or file of the model, or hf://user/repository."""
    destination: Annotated[Path, tyro.conf.Positional]
    """Folder for the preset, which must not exist; for torch, a file that ends with .keras, which
    holds the model alone."""
    source_language: str | None = None
    """Of m2m100: the language to translate from, by the model's code."""
    target_language: str | None = None
    """Of a model with several target languages: the language to translate into, by the model's
    name."""
    ctranslate2: CTranslate2Options = field(default_factory=CTranslate2Options)
    torch: TorchOptions = field(default_factory=TorchOptions)


def main(options: Options) -> None:
    """Convert a model, and write the preset with its card."""
    if options.format not in _FORMATS:
        raise UserError(f"Unknown format {options.format!r}. Expected {', '.join(_FORMATS)}.")
    if options.destination.exists():
        raise UserError(f"{options.destination} exists. Choose another, or remove it.")
    if options.format == "torch" and options.destination.suffix != _KERAS:
        raise UserError(
            f"A model without a tokenizer is a Keras file: its name must end with {_KERAS}. "
            f"Received: {options.destination}"
        )
    check_writable("destination", options.destination, is_folder=True)
    read = getattr(kt.convert, options.format)
    with spinner("converting"):
        converted = read(options.source, **_arguments(read, options))
    if isinstance(converted, kt.Transformer):
        _write_model(converted, options.destination)
        return
    card = _converted_card(options.format, options.source, converted)
    converted.save_to_preset(options.destination, card=card)
    logger.info(f"The preset is in {options.destination}.")


def _arguments(read: Callable[..., Any], options: Options) -> dict[str, Any]:
    """Return the options that were given, after checking that the format has them."""
    arguments = given(options, "source_language", "target_language")
    for others in (options.ctranslate2, options.torch):
        arguments |= given(others, *(x.name for x in dataclasses.fields(others)))
    parameters = inspect.signature(read).parameters
    for name in arguments:
        if name not in parameters:
            raise UserError(f"{options.format} does not have the option `{name}`.")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in ("source", *arguments):
            raise UserError(f"{options.format} requires `{name}`.")
    return arguments


def _write_model(model: "kt.Transformer", path: Path) -> None:
    with atomic_write(path) as new:
        model.save(new)
    logger.info(f"The model is in {path}.")


def _converted_card(form: str, source: str | Path, translator: "kt.Translator") -> str:
    """Return the text of a model card, in Markdown.

    Args:
        form: the name of the format that the model was converted from.
        source: the source: a folder, or `hf://user/repository`.
        translator: the `Translator`.
    """
    from keras_transformer.convert.source_documents import read_documents

    languages = [translator.metadata.get(side) for side in ("source", "target")]
    known = [str(language) for language in languages if language]
    title = " to ".join(known) if len(known) == 2 else str(source).rstrip("/").split("/")[-1]
    documents = read_documents(source)
    config = translator.model.config
    sides = f"{config.vocabulary_size:,} tokens"
    if config.source_vocabulary_size is not None:
        sides = f"{config.source_vocabulary_size:,} source and {sides.replace(' ', ' target ')}"
    layers = [config.num_layers, config.decoder_layers]
    return f"""# {title}, converted from {form}

- source: {source}, converted by keras_transformer {__version__}
- license: {documents.license or "not named by the source"}
- {layers[0]} and {layers[1]} layers, d_model {config.hidden_dim}, {config.num_heads} heads,
  {translator.model.count_params():,} parameters, {sides}
- search: {translator.search}
{documents.license_section()}"""
