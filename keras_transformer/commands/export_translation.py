"""Export a trained model to run without Keras: a SavedModel of strings, or another format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import ProgressOptions, given
from keras_transformer.files import check_writable


@dataclass
class Options(ProgressOptions):
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    output: Path
    """Folder to write, such as runs/x/saved_model."""
    format: Literal["saved_model", "ctranslate2", "marian", "marian_npz"] = "saved_model"
    """A TensorFlow SavedModel with tokenizer and search inside; CTranslate2; Marian for
    HuggingFace's transformers; or Marian's own files."""
    n_best: int | None = None
    """For a SavedModel: the number of translations that its signature n_best returns. Defaults to
    the beam size."""
    source_lang: str | None = None
    """Language to translate from, for a model with several."""
    target_lang: str | None = None
    """Language to translate into, for a model with several."""
    tag: tuple[str, ...] | None = None
    """Tags before each source, as in `translate`."""
    quantization: str | None = None
    """For CTranslate2: the type of the stored weights, such as int8. Defaults to float32."""


def main(options: Options) -> None:
    check_writable("output", options.output, is_folder=True)
    others = {"format": options.format, **given(options, "quantization")}
    translator = kt.Translator.from_preset(
        options.model, **given(options, "source_lang", "target_lang")
    )
    if options.tag is not None:
        translator = translator.tagged(*options.tag)
    translator.export(options.output, options.n_best, **others)
    print(f"The model is in {options.output}.")
