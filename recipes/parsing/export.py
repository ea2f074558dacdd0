"""Export a trained parser as a TensorFlow SavedModel: a sentence in, a bracketed tree out."""

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
    beam_size: int = 21
    """Live hypotheses of a sentence (section 6.3)."""
    alpha: float = 0.3
    """Strength of the length penalty (section 6.3)."""
    extra_length: int = 300
    """How many tokens longer than its sentence a tree may be (section 6.3)."""
    tag_dictionary: bool = True
    """Search among trees whose tags are in the model's tag dictionary only."""


def main(options):
    parser = kt.ConstituencyParser.from_preset(
        options.model,
        beam_size=options.beam_size,
        alpha=options.alpha,
        extra_length=options.extra_length,
        tag_dictionary=options.tag_dictionary,
    )
    parser.export(options.output)
    print(f"The SavedModel is in {options.output}.")


if __name__ == "__main__":
    run(main, Options)
