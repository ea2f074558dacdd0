"""The command `keras-transformer explain`, from a checkout."""

from keras_transformer.command_line import run
from keras_transformer.commands.explain_parsing import Options, main

if __name__ == "__main__":
    run(main, Options)
