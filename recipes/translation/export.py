"""The command `keras-transformer export`, from a checkout."""

from keras_transformer.command_line import run
from keras_transformer.commands.export_translation import Options, main

if __name__ == "__main__":
    run(main, Options)
