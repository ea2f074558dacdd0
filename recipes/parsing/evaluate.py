"""The command `keras-transformer evaluate`, from a checkout."""

from keras_transformer.command_line import run
from keras_transformer.commands.evaluate_parsing import Options, main

if __name__ == "__main__":
    run(main, Options)
