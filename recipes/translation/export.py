"""Export a trained model to run without Keras: a SavedModel that takes strings, or other forms."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import ProgressOptions, given, run
from keras_transformer.files import check_writable


@dataclass
class Options(ProgressOptions):
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    output: Path
    """Folder to write, such as runs/x/saved_model."""
    format: Literal["saved_model", "ctranslate2", "marian", "onnx"] = "saved_model"
    """TensorFlow's, with tokenizer and search inside; CTranslate2's; HuggingFace's for Marian; or
    ONNX of the encoder and a step of the decoder."""
    n_best: int | None = None
    """Of a SavedModel: how many translations its signature n_best gives. Defaults to the size of
    the beam."""
    tag: tuple[str, ...] | None = None
    """Tags before each source, as of translate.py."""
    quantization: str | None = None
    """Of CTranslate2: how it stores the weights, such as int8 or float16. Defaults to float32."""


def main(options):
    check_writable("output", options.output, is_folder=True)
    others = {"format": options.format, **given(options, "quantization")}
    translator = kt.Translator.from_preset(options.model)
    if options.tag is not None:
        translator = translator.tagged(*options.tag)
    translator.export(options.output, options.n_best, **others)
    print(f"The model is in {options.output}.")


if __name__ == "__main__":
    run(main, Options)
