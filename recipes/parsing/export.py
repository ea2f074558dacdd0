"""Export a trained parser as a TensorFlow SavedModel: a sentence in, a bracketed tree out."""

from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import ProgressOptions, given, run
from keras_transformer.files import check_writable


@dataclass
class Options(ProgressOptions):
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    output: Path
    """Folder for the SavedModel, such as saved_models/x/saved_model."""
    beam_size: int | None = None
    """Live hypotheses of a sentence. Defaults, as the two that follow, to what the model was saved
    with, and to section 6.3's if it was with nothing: 21."""
    alpha: float | None = None
    """Strength of the length penalty. Section 6.3's: 0.3."""
    extra_length: int | None = None
    """How many tokens longer than its sentence a tree may be. Section 6.3's: 300."""
    tag_dictionary: bool = True
    """Search among trees whose tags are in the model's tag dictionary only."""


def main(options):
    check_writable("output", options.output, is_folder=True)
    parser = kt.ConstituencyParser.from_preset(
        options.model,
        **given(options, "beam_size", "alpha", "extra_length"),
        tag_dictionary=options.tag_dictionary,
    )
    parser.export(options.output)
    print(f"The SavedModel is in {options.output}.")


if __name__ == "__main__":
    run(main, Options)
