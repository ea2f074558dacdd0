"""The formats in which a translator is exported, by name."""

import importlib
import inspect
from pathlib import Path
from typing import Any

from keras_transformer.errors import UserError
from keras_transformer.models.config import TransformerConfig
from keras_transformer.progress import spinner
from keras_transformer.translation.translator import Translator

# A format -> module of this package and its function of a translator, a path and options.
_HOMES = {
    "saved_model": ("saved_model", "export_translator"),
    "ctranslate2": ("to_ctranslate2", "export_ctranslate2"),
    "marian": ("to_hf_marian", "export_marian"),
    "marian_npz": ("to_marian", "export_marian_npz"),
}


def export_as(translator: Translator, path: str | Path, format: str, **options: Any) -> None:
    """Export a translator.

    Args:
        translator: a `Translator`.
        path: the folder to write, completely or not at all.
        format: `"saved_model"`, `"ctranslate2"`, `"marian"` or `"marian_npz"`.
        **options: arguments of the function that writes the format.

    Raises:
        UserError: if there is no such format or option, the format cannot hold the model, or `path`
            contains other files.
    """
    if format not in _HOMES:
        names = ", ".join(f'"{name}"' for name in _HOMES)
        raise UserError(f"`format` must be one of {names}. Received: format={format!r}")
    module, name = _HOMES[format]
    export = getattr(importlib.import_module(f"keras_transformer.export.{module}"), name)
    _, _, *known = inspect.signature(export).parameters
    for option in options:
        if option not in known:
            others = f"It has {', '.join(f'`{x}`' for x in known)}." if known else "It has none."
            raise UserError(f'`{option}` is not an option of format="{format}". {others}')
    with spinner("exporting"):
        export(translator, path, **options)


# Options of the layers that only this package and Marian have.
_LAYER_OPTIONS = (
    *("decoder_type", "feed_forward_depth", "decoder_feed_forward_depth", "embedding_steps"),
    *("sublayer_steps", "final_steps", "normalize_keys"),
)


def check_layers(config: TransformerConfig, format_name: str) -> None:
    """Raise a `UserError` if the layers differ from the paper's in more than their norms' place.

    Args:
        config: the `TransformerConfig`.
        format_name: name of the format, for the error.
    """
    defaults = config.defaults()
    for name in _LAYER_OPTIONS:
        if (value := getattr(config, name)) != defaults[name]:
            raise UserError(
                f"{format_name} only supports {name}={defaults[name]!r}. "
                f"Received a model with {name}={value!r}"
            )
