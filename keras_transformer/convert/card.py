"""The model card of a converted model."""

import itertools
from pathlib import Path

from keras_transformer.convert.hf_checkpoint import find_folder
from keras_transformer.presets.location import HUGGING_FACE
from keras_transformer.version import __version__


def converted_card(form, source, translator):
    """The text of a model card, in Markdown.

    Args:
        form: the name of the format that it was converted from.
        source: where it was read: a folder, or `hf://user/repository`.
        translator: the `Translator`.
    """
    languages = [translator.metadata.get(side) for side in ("source", "target")]
    title = " to ".join(languages) if all(languages) else str(source).rstrip("/").split("/")[-1]
    config = translator.model.config
    sides = f"{config.vocabulary_size:,} tokens"
    if config.source_vocabulary_size is not None:
        sides = f"{config.source_vocabulary_size:,} source and {sides.replace(' ', ' target ')}"
    layers = [config.num_layers, config.decoder_layers]
    return f"""# {title}, converted from {form}

- source: {source}, converted by keras_transformer {__version__}
- licence: {_licence(source) or "the source names none: look there"}
- {layers[0]} and {layers[1]} layers, d_model {config.hidden_dim}, {config.num_heads} heads,
  {translator.model.count_params():,} parameters, {sides}
- search: {translator.search}
"""


def _licence(source):
    """What the front matter of the source's README.md says of its licence, or None."""
    if not str(source).startswith(HUGGING_FACE) and not Path(source).is_dir():
        return None
    card = find_folder(source) / "README.md"
    rows = card.read_text("utf-8", errors="replace").splitlines() if card.is_file() else []
    if rows[:1] != ["---"]:
        return None
    front = itertools.takewhile(lambda row: row != "---", rows[1:])
    entries = dict(row.split(":", 1) for row in front if ":" in row)
    return entries.get("license", "").strip() or None
