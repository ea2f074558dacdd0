"""The command `keras-transformer train translation`, from a checkout."""

from keras_transformer.command_line import run
from keras_transformer.commands.train_translation import Options, main

if __name__ == "__main__":
    run(main, Options)
