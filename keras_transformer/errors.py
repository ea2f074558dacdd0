"""Errors that the user can fix, and the ways a process ends."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

# The exit statuses that a shell reports for a process that SIGINT or SIGPIPE has ended.
INTERRUPT_STATUS = 128 + signal.SIGINT
_PIPE_STATUS = 128 + 13


class UserError(ValueError):
    """An error that the user can fix: a wrong argument, option or file.

    The message names the problem, what was expected and what was received. The recipes print it in
    one line and exit with status 2; any other error is a defect and keeps its traceback.
    """


class TrainingStopped(SystemExit):
    """Raised when a signal has stopped a training, which resumes from the checkpoint it wrote.

    If nothing catches it, the process exits with status 128 + the signal's number.
    """


@contextlib.contextmanager
def ended_by_pipe() -> Iterator[None]:
    """Exit silently with status 141 if the reader of standard output has closed it."""
    try:
        yield
    except BrokenPipeError:
        # The reader, such as `head`, has read enough. Python would try to write the rest once
        # more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_PIPE_STATUS)
