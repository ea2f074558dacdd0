"""The commands that export a model to run without Keras."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import ProgressOptions, given
from keras_transformer.commands.parse import ParserOptions
from keras_transformer.commands.translate import TranslatorOptions
from keras_transformer.files import check_writable


@dataclass(kw_only=True)
class ExportTranslationOptions(TranslatorOptions, ProgressOptions):
    output: Path
    """Folder to write, such as runs/x/saved_model."""
    format: Literal["saved_model", "ctranslate2", "marian", "marian_npz"] = "saved_model"
    """A TensorFlow SavedModel with tokenizer and search inside; CTranslate2; Marian for
    HuggingFace's transformers; or Marian's own files."""
    n_best: int | None = None
    """For a SavedModel: the number of translations that its signature n_best returns. Defaults to
    the beam size."""
    xla: bool = False
    """For a SavedModel: XLA compiles searches of a few shapes when they first occur, which is
    faster. TensorFlow Serving then needs --xla_cpu_compilation_enabled."""
    quantization: str | None = None
    """For CTranslate2: the type of the stored weights, such as int8. Defaults to float32."""


def export_translation(options: ExportTranslationOptions) -> None:
    """Export a translator as a SavedModel of strings, or in another library's format."""
    check_writable("output", options.output, is_folder=True)
    others = given(options, "quantization")
    if options.xla:
        others["xla"] = True
    if options.n_best is not None:
        others["num_results"] = options.n_best
    options.load().export(options.output, options.format, **others)
    print(f"The model is in {options.output}.")


@dataclass(kw_only=True)
class ExportParsingOptions(ParserOptions, ProgressOptions):
    output: Path
    """Folder for the SavedModel, such as saved_models/x/saved_model."""
    tag_dictionary: bool = True
    """Limit the tags of words to the model's tag dictionary."""


def export_parsing(options: ExportParsingOptions) -> None:
    """Export a parser as a TensorFlow SavedModel, from sentences to bracketed trees."""
    check_writable("output", options.output, is_folder=True)
    parser = kt.ConstituencyParser.from_preset(
        options.model, **options.search(), tag_dictionary=options.tag_dictionary
    )
    parser.export(options.output)
    print(f"The SavedModel is in {options.output}.")
