"""Keras with its backend, imported; or an error that names the backend that cannot be imported.

A script that does not catch the error prints it in one line and exits with status 2.
"""

import importlib.util
import sys

from keras_transformer.errors import UserError

_BACKENDS = ("tensorflow", "jax", "torch")


def _explain(error):
    """What is wrong with the backend, or None if the error has another cause."""
    _, is_unknown, name = str(error).partition("Unable to import backend : ")
    installed = [x for x in _BACKENDS if importlib.util.find_spec(x)]
    if is_unknown:
        expected, received = "must be", f"KERAS_BACKEND={name}"
    elif getattr(error, "name", None) in _BACKENDS:
        expected, received = "must be an installed backend:", f"{error.name}, not installed"
    else:
        return None
    choices = " or ".join(installed) or "none is installed: pip install tensorflow, jax or torch"
    return f"The environment variable KERAS_BACKEND {expected} {choices}. Received: {received}"


def _print_in_one_line(user_error):
    hook = sys.excepthook

    def print_error(kind, error, traceback):
        if error is not user_error:
            hook(kind, error, traceback)
            return
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2)  # Python then exits with this status.

    sys.excepthook = print_error


try:
    import keras  # noqa: F401
except (ImportError, ValueError) as error:
    if (message := _explain(error)) is None:
        raise
    user_error = UserError(message)
    _print_in_one_line(user_error)
    raise user_error from None
