"""Start the command `keras-transformer`.

This module is not part of the package, because importing the package imports Keras with its
backend. That takes seconds and can fail, and TensorFlow then reads its log level.
"""

import os
import sys


def main() -> None:
    """Import the package and run the command with the process's arguments.

    A backend that cannot be imported is an error in one line, with exit status 2. Ctrl-C ends the
    process with status 130.
    """
    # Without it, TensorFlow logs information during the whole run.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    try:
        _import_keras()
        from keras_transformer.commands import main as run_command
    except KeyboardInterrupt:
        sys.exit(130)
    run_command()


def _import_keras() -> None:
    try:
        import keras  # noqa: F401
    except (ImportError, ValueError) as error:
        print(
            f"error: Cannot import Keras with its backend: {error}. The environment variable "
            "KERAS_BACKEND must be an installed backend: tensorflow, jax or torch.",
            file=sys.stderr,
        )
        sys.exit(2)
