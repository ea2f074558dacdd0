"""Translate lines from standard input to standard output."""

import sys
from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.text_files import decode_lines


@dataclass
class Options:
    model: Path
    """Model folder, such as runs/x/model."""


def main(options):
    translator = kt.Translator.from_preset(options.model)
    for translation, _ in translator.translate(decode_lines(sys.stdin.buffer, "standard input")):
        print(translation)


if __name__ == "__main__":
    run(main, Options)
