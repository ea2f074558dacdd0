"""Work that is done first when the package is imported: Ctrl-C, TensorFlow's messages, the backend.

1. Libraries take seconds to import, before `command_line.run` can catch a `KeyboardInterrupt`.
   Until then Ctrl-C ends a command (`keras-transformer`, `python -m keras_transformer...` or a
   recipe) without a traceback. Other programs keep their handlers.
2. TensorFlow logs to standard error, at every log level, that oneDNN is on and that there are no
   GPUs: it does so in its first second, before it reads the level. So the file descriptor is held
   while TensorFlow is imported, by Keras or by the user; all lines are passed on except
   information and the remarks below. `TF_CPP_MIN_LOG_LEVEL=0` in the environment keeps everything.
3. Keras is imported with its backend; by a command, only after it has read its options, so that
   its help appears at once. If the backend cannot be imported, the error names it. A
   script that does not catch the error prints it in one line and exits with status 2.
"""

import contextlib
import ctypes
import importlib.util
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_transformer.errors import UserError

_RECIPES = Path(__file__).parents[1] / "recipes"

SCRIPTS = ("keras-transformer", "keras-transformer.exe")

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_NOISE = (
    rb"^WARNING: All log messages before absl::InitializeLog",
    rb"^I\d{4} [\d:.]+ +\d+ \S+:\d+\]",  # information
    rb"^\d{4}-\d\d-\d\d [\d:.]+: I ",  # information, in the format of earlier versions
    rb"^To enable the following instructions:",
    rb"Unable to register cu\w+ factory",
    rb"computation placer already registered",
)
# Logged on a machine without a CUDA driver.
_NO_GPU = rb"failed call to cuInit"

_BACKENDS = ("tensorflow", "jax", "torch")


# Ctrl-C


def end_commands_on_interrupt() -> None:
    """Let Ctrl-C end the process at once, if it runs a command of the package."""
    if is_command():
        _replace_interrupt_handler(signal.default_int_handler, signal.SIG_DFL)


def raise_interrupts() -> None:
    """Let Ctrl-C raise a `KeyboardInterrupt` again, also in a command of the package."""
    _replace_interrupt_handler(signal.SIG_DFL, signal.default_int_handler)


def is_command() -> bool:
    """Return whether the process runs a command of the package."""
    script = next(iter(sys.argv), "")
    if script == "-m":
        return _main_module().split(".")[0] == __name__.split(".")[0]
    if Path(script).name in SCRIPTS:
        return True
    return _RECIPES in Path(script).resolve().parents


def _main_module() -> str:
    """Return the name of the module that `python -m` runs.

    The option may be one of several in a word, as in `-um`, and the name may follow in that word.
    """
    words = iter(sys.orig_argv[1:])
    for word in words:
        if found := re.fullmatch(r"-[bBdEiIOPqRsSuvx]*m(.*)", word):
            return found[1] or next(words, "")
    return ""


def _replace_interrupt_handler(expected: Any, handler: Any) -> None:
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is expected:
        signal.signal(signal.SIGINT, handler)


# TensorFlow's messages


class _TensorFlowFinder:
    """Finds TensorFlow as the other finders do, and loads it without its messages."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "tensorflow":
            return None
        others = (finder.find_spec for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (find(name, path, target) for find in others)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _SilentLoader(spec.loader)  # pyright: ignore[reportAttributeAccessIssue]
        return spec


class _SilentLoader:
    """Wraps TensorFlow's loader, and restores it in the module while that is loaded."""

    def __init__(self, loader: Any):
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        with filtered():
            self._loader.exec_module(module)
            # Without a CUDA driver, TensorFlow logs an error when it looks for devices, so let it
            # look now. With a driver it looks when it is asked to, as always.
            if not _has_cuda_driver():
                module.config.list_physical_devices()


@contextlib.contextmanager
def filtered() -> Iterator[None]:
    """Hold the lines that the block writes to standard error, and pass them on without the noise.

    If the process ends within the block, the lines are lost.
    """
    noise = _NOISE if _has_cuda_driver() else (*_NOISE, _NO_GPU)
    is_noise = re.compile(b"|".join(noise)).search
    try:
        standard_error = os.dup(2)
    except OSError:  # Standard error is closed.
        yield
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            if sys.stderr:
                sys.stderr.flush()
            os.dup2(standard_error, 2)
            os.close(standard_error)
            file.seek(0)
            for line in file:
                if not is_noise(line):
                    os.write(2, line)


def _has_cuda_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _silence_tensorflow() -> None:
    """Log warnings and errors only, unless the environment sets another level."""
    if os.environ.setdefault(_LOG_LEVEL, "1") != "0" and "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _TensorFlowFinder())


def silence_warnings_of_replicas() -> None:
    """Log errors of TensorFlow only, unless the environment sets another level.

    For replicas, it logs a warning at the beginning of each pass over the data. It reads the level
    when it is imported.
    """
    if os.environ.get(_LOG_LEVEL) == "1":
        os.environ[_LOG_LEVEL] = "2"


# The backend


def import_keras() -> ModuleType:
    """Import Keras with its backend.

    Raises:
        UserError: if `KERAS_BACKEND` is not an installed backend.
    """
    try:
        import keras
    except (ImportError, ValueError) as error:
        if (message := _backend_error(error)) is None:
            raise
        user_error = UserError(message)
        sys.excepthook = _print_in_one_line(user_error, sys.excepthook)
        raise user_error from None
    return keras


def _backend_error(error: ImportError | ValueError) -> str | None:
    """Return a message about the backend, or None if the error has another cause."""
    _, is_unknown, name = str(error).partition("Unable to import backend : ")
    installed = [x for x in _BACKENDS if importlib.util.find_spec(x)]
    if is_unknown:
        expected, received = "must be", f"KERAS_BACKEND={name}"
    elif (name := getattr(error, "name", None)) in _BACKENDS:
        expected, received = "must be an installed backend:", f"{name}, not installed"
    else:
        return None
    choices = " or ".join(installed) or "none is installed: pip install tensorflow, jax or torch"
    return f"The environment variable KERAS_BACKEND {expected} {choices}. Received: {received}"


def _print_in_one_line(user_error: UserError, hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return an exception hook that prints this error in one line, and other errors as before."""

    def print_error(kind: Any, error: Any, traceback: Any) -> None:
        if error is not user_error:
            hook(kind, error, traceback)
            return
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2)  # Python then exits with this status.

    return print_error


end_commands_on_interrupt()
_silence_tensorflow()
