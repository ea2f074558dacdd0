"""Draw the translation of a sentence: its attention, its alignment and the beam of the search."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, given
from keras_transformer.files import check_writable


@dataclass(kw_only=True)
class Options(CommonOptions):
    sentence: tyro.conf.Positional[str]
    """The sentence to translate."""
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    output_dir: Path
    """Folder for the pictures."""
    source_lang: str | None = None
    """Language to translate from, for a model with several."""
    target_lang: str | None = None
    """Language to translate into, for a model with several."""
    translation: str | None = None
    """Show the attention of this translation instead of the model's own."""
    layer: int = -1
    """Number of the layer to draw, from 0; -1 is the last. The page contains all layers."""
    heads: tuple[int, ...] | None = None
    """Numbers of the heads to draw. Defaults to all."""
    words: tuple[str, ...] | None = None
    """Draw only the attention of these tokens. Defaults to all."""
    form: Literal["png", "svg"] = "png"
    """Format of the pictures."""
    dark: bool = False
    """Draw for a dark background. The page and the beam follow the reader's system."""


def main(options: Options) -> None:
    check_writable("output_dir", options.output_dir / "translation.html")
    translator = kt.Translator.from_preset(
        options.model, **given(options, "source_lang", "target_lang")
    )
    explanation = kt.visualization.explain_translation(
        translator, options.sentence, options.translation
    )
    print(explanation)
    folder = options.output_dir
    folder.mkdir(parents=True, exist_ok=True)
    explanation.save(folder / "translation.html")
    if explanation.beam is not None:
        explanation.beam.save(folder / "beam.svg")
    known = {*explanation.attention.source_tokens, *explanation.attention.target_tokens}
    if unknown := [word for word in options.words or () if word not in known]:
        raise kt.UserError(f"`words` must be among the tokens. Received: {' '.join(unknown)}")
    chosen = {"layer": options.layer, "heads": options.heads, "dark": options.dark}
    for kind in ("encoder", "decoder", "cross"):
        tokens, _, _ = explanation.attention.of_kind(kind)
        words = [word for word in options.words or () if word in tokens] or None
        for style in ("lines", "heatmap"):
            path = folder / f"{kind}_{style}.{options.form}"
            kt.visualization.plot_attention(
                explanation.attention, kind, words=words, style=style, path=path, **chosen
            )
    print(f"\nPictures are in {folder}, and all of them to point at in translation.html.")
