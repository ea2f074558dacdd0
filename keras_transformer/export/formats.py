"""The formats in which a preset is exported, by name."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_transformer.errors import UserError
from keras_transformer.presets.format import Preset
from keras_transformer.progress import spinner


def export(preset: Preset, path: str | Path, format: str = "saved_model", **options: Any) -> None:
    """Export a preset.

    Args:
        preset: the `Preset`, such as `translator.to_preset()`.
        path: the folder to write, completely or not at all.
        format: `"saved_model"`, `"ctranslate2"`, `"marian"` or `"marian_npz"`.
        **options: arguments of the function that writes the format.

    Raises:
        UserError: if there is no such format or option, the format cannot hold the model, or `path`
            contains other files.
    """
    exporters = _exporters()
    if format not in exporters:
        names = ", ".join(f'"{name}"' for name in exporters)
        raise UserError(f"`format` must be one of {names}. Received: format={format!r}")
    parameters = inspect.signature(exporters[format]).parameters
    # The arguments that only have keywords are a translator's own.
    _, _, *known = [x.name for x in parameters.values() if x.kind is not x.KEYWORD_ONLY]
    for option in options:
        if option not in parameters:
            others = f"It has {', '.join(f'`{x}`' for x in known)}." if known else "It has none."
            raise UserError(f'`{option}` is not an option of format="{format}". {others}')
    with spinner("exporting"):
        exporters[format](preset, path, **options)


def _exporters() -> dict[str, Callable[..., None]]:
    from keras_transformer.export.saved_model import export_saved_model
    from keras_transformer.export.to_ctranslate2 import export_ctranslate2
    from keras_transformer.export.to_hf_marian import export_marian
    from keras_transformer.export.to_marian import export_marian_npz

    return {
        "saved_model": export_saved_model,
        "ctranslate2": export_ctranslate2,
        "marian": export_marian,
        "marian_npz": export_marian_npz,
    }
