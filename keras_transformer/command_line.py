"""What the recipes' scripts share: options, errors in one line, and how memory is held."""

import itertools
import os
import shlex
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.compilation_cache import keep_compiled_programs
from keras_transformer.memory import keep_freed_memory

_PACKAGE = Path(__file__).parent


@dataclass(kw_only=True)
class CommonOptions:
    """Options of every script that trains or searches."""

    compilation_cache: Path | None = None
    """Folder in which to keep compiled programs, for the next run: on JAX all, on TensorFlow those
    of XLA."""


def run(main, options_class):
    """Parse the command line into a dataclass and call `main` with it.

    An argument `@FILE` stands for the options in a file, in which `#` begins a comment. Of an
    option that is given twice, the last counts.

    A `ValueError` that this package raises is meant for the user: it is printed in one line, and
    the exit status is 2. Any other error is a defect and keeps its traceback.

    Args:
        main: function of one argument, the options.
        options_class: a dataclass, a `CommonOptions` if it trains or searches. Its fields are
            the options, their docstrings the help.
    """
    import tyro

    keep_freed_memory()
    try:
        arguments = list(itertools.chain.from_iterable(map(_expand, sys.argv[1:])))
        options = tyro.cli(
            options_class, description=sys.modules[main.__module__].__doc__, args=arguments
        )
        if getattr(options, "compilation_cache", None):
            keep_compiled_programs(options.compilation_cache)
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


def _expand(argument):
    """The options of a file, for `@FILE`."""
    if not argument.startswith("@"):
        return [argument]
    path = Path(argument[1:])
    if not path.is_file():
        raise ValueError(f"There is no file of options {path}.")
    return shlex.split(path.read_text("utf-8"), comments=True)


def resume_command():
    """The command that this process was started with, with --resume: for a shell."""
    options = [option for option in sys.argv if option not in ("--resume", "--overwrite")]
    command = shlex.join([sys.executable, *options, "--resume"])
    backend = os.environ.get("KERAS_BACKEND")
    return f"KERAS_BACKEND={shlex.quote(backend)} {command}" if backend else command
