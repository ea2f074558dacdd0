"""The command `keras-transformer parse`, from a checkout."""

from keras_transformer.command_line import run
from keras_transformer.commands.parse import Options, main

if __name__ == "__main__":
    run(main, Options)
