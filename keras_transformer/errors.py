"""Errors that the user can fix, and the ways a process ends."""

import contextlib
import os
import reprlib
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


class _BriefRepr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 100
        self.maxlevel = 2

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # Python writes out no integer of thousands of digits
            return f"an integer of {x.bit_length():,} bits"


_BRIEF_REPR = _BriefRepr()


def brief(value: object) -> str:
    """Return the `repr` of an untrusted value for a message, in one line and cut short.

    The whole `repr` of a small file's value can fill the memory: YAML's aliases let a list contain
    another one many times.
    """
    return " ".join(_BRIEF_REPR.repr(value).split())


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
