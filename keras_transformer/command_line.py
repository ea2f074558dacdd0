"""What the recipes' scripts share: options, errors in one line, and how memory is held."""

import os
import shlex
import sys
import traceback
from pathlib import Path

from keras_transformer.memory import keep_freed_memory

_PACKAGE = Path(__file__).parent


def run(main, options_class):
    """Parse the command line into a dataclass and call `main` with it.

    A `ValueError` that this package raises is meant for the user: it is printed in one line, and
    the exit status is 2. Any other error is a defect and keeps its traceback.

    Args:
        main: function of one argument, the options.
        options_class: a dataclass; its fields are the options, their docstrings the help.
    """
    import tyro

    keep_freed_memory()
    options = tyro.cli(options_class, description=sys.modules[main.__module__].__doc__)
    try:
        main(options)
    except ValueError as error:
        origin = traceback.extract_tb(error.__traceback__)[-1]
        path = Path(origin.filename).resolve()
        ours = _PACKAGE in path.parents or path == Path(sys.argv[0]).resolve()
        # A line that calls a function of another library, or a built-in one, is no `raise` of ours.
        if not (ours and origin.line.startswith("raise")):
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def resume_command():
    """The command that this process was started with, with --resume: for a shell."""
    options = [option for option in sys.argv if option not in ("--resume", "--overwrite")]
    command = shlex.join([sys.executable, *options, "--resume"])
    backend = os.environ.get("KERAS_BACKEND")
    return f"KERAS_BACKEND={shlex.quote(backend)} {command}" if backend else command
