"""Ctrl-C in the package's commands: a leaf that `__init__` imports first.

Libraries are imported for seconds before `command_line.run` can catch a `KeyboardInterrupt`. Until
then Ctrl-C ends a recipe, or `python -m keras_transformer...`, at once and without a traceback.
Other programs keep their handlers.
"""

import re
import signal
import sys
import threading
from pathlib import Path

STATUS = 128 + signal.SIGINT  # as a shell reports of a process that the signal has ended

_RECIPES = Path(__file__).parents[1] / "recipes"


def _is_command():
    script = next(iter(sys.argv), "")
    if script == "-m":
        return _module().split(".")[0] == __name__.split(".")[0]
    return _RECIPES in Path(script).resolve().parents


def _module():
    """Return the module that `python -m` runs. The option may be one of several in a word, as in
    `-um`, and the name may follow in the same word.
    """
    words = iter(sys.orig_argv[1:])
    for word in words:
        if found := re.fullmatch(r"-[bBdEiIOPqRsSuvx]*m(.*)", word):
            return found[1] or next(words, "")
    return ""


def _set_handler(expected, handler):
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is expected:
        signal.signal(signal.SIGINT, handler)


def raise_interrupts():
    """Let Ctrl-C raise a `KeyboardInterrupt` again, in a command too."""
    _set_handler(signal.SIG_DFL, signal.default_int_handler)


if _is_command():
    _set_handler(signal.default_int_handler, signal.SIG_DFL)
