"""How the package says what is wrong, and how a process ends."""

import contextlib
import os
import sys

_ENDED_BY_PIPE = 128 + 13  # as a shell reports of a process that SIGPIPE has ended


class UserError(ValueError):
    """Something that the user can mend: an argument, an option, a file.

    Its message says what happened, what was expected and how to mend it. The recipes print it in
    one line and end with status 2; any other error is a defect and keeps its traceback.
    """


class TrainingStopped(SystemExit):
    """A signal ended a training, which can go on from the checkpoint that it wrote.

    Where nothing catches it the process ends, with the status 128 + the signal's number.
    """


@contextlib.contextmanager
def ended_by_pipe():
    """End the process in silence, with status 141, if the reader of standard output is gone."""
    try:
        yield
    except BrokenPipeError:
        # Whoever read the answers, such as `head`, has seen enough. Python would try to write the
        # rest once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_ENDED_BY_PIPE)
