"""Export a trained parser as a TensorFlow SavedModel, from sentences to bracketed trees."""

from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import ProgressOptions, given
from keras_transformer.files import check_writable


@dataclass
class Options(ProgressOptions):
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    output: Path
    """Folder for the SavedModel, such as saved_models/x/saved_model."""
    beam_size: int | None = None
    """Beam size. Like the next two options, it defaults to the model's own option, and to section
    6.3's 21 if the model has none."""
    alpha: float | None = None
    """Strength of the length penalty. Section 6.3 uses 0.3."""
    extra_length: int | None = None
    """Number of tokens by which a tree may exceed its sentence. Section 6.3 uses 300."""
    tag_dictionary: bool = True
    """Limit the tags of words to the model's tag dictionary."""


def main(options: Options) -> None:
    check_writable("output", options.output, is_folder=True)
    parser = kt.ConstituencyParser.from_preset(
        options.model,
        **given(options, "beam_size", "alpha", "extra_length"),
        tag_dictionary=options.tag_dictionary,
    )
    parser.export(options.output)
    print(f"The SavedModel is in {options.output}.")
