"""The command `keras-transformer translate`, from a checkout."""

from keras_transformer.command_line import run
from keras_transformer.commands.translate import Options, main

if __name__ == "__main__":
    run(main, Options)
