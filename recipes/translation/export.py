"""Export a trained model as a TensorFlow SavedModel that takes and gives strings."""

from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import run


@dataclass
class Options:
    model: Path
    """Model folder, such as runs/x/model."""
    output: Path
    """Folder for the SavedModel, such as saved_models/x/saved_model."""
    n_best: int | None = None
    """How many translations its signature n_best gives. Defaults to the size of the beam."""


def main(options):
    kt.Translator.from_preset(options.model).export(options.output, options.n_best)
    print(f"The SavedModel is in {options.output}.")


if __name__ == "__main__":
    run(main, Options)
