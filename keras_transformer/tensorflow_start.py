"""TensorFlow started without what it says of itself: a leaf that `__init__` imports first.

TensorFlow tells on standard error, whatever its log level, that oneDNN is on and that there are no
GPUs: in its first second, before it looks at the level. So the file descriptor is held meanwhile,
and what is neither of its information nor one of the remarks below is passed on. An environment
with `TF_CPP_MIN_LOG_LEVEL=0` gets all of it.
"""

import contextlib
import ctypes
import importlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_NOISE = (
    rb"^WARNING: All log messages before absl::InitializeLog",
    rb"^I\d{4} [\d:.]+ +\d+ \S+:\d+\]",  # information
    rb"^\d{4}-\d\d-\d\d [\d:.]+: I ",  # the same, of earlier versions
    rb"^To enable the following instructions:",
    rb"Unable to register cu\w+ factory",
    rb"computation placer already registered",
)
# What a machine without a driver of CUDA says of that.
_NO_GPU = rb"failed call to cuInit"


def import_tensorflow():
    """Import TensorFlow, unless that has been done, and leave out what it says of itself.

    Where there is no driver of CUDA it looks for its devices then too, since it speaks of that as
    of an error; with a driver it waits until they are asked for, as always.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault(_LEVEL, "1")  # warnings and errors
    with contextlib.nullcontext() if os.environ[_LEVEL] == "0" else _filtered():
        tensorflow = importlib.import_module("tensorflow")
        if not _has_driver():
            tensorflow.config.list_physical_devices()


@contextlib.contextmanager
def _filtered():
    """Within the block, hold what the process writes to standard error; then pass it on, filtered.

    (What ends the process within the block takes with it what it said.)
    """
    noise = _NOISE if _has_driver() else (*_NOISE, _NO_GPU)
    is_noise = re.compile(b"|".join(noise)).search
    try:
        standard_error = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr and sys.stderr.flush()
            os.dup2(standard_error, 2)
            os.close(standard_error)
            file.seek(0)
            for line in file:
                if not is_noise(line):
                    os.write(2, line)


def _has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _is_backend():
    """Whether Keras is about to take TensorFlow, by its own rules."""
    if named := os.environ.get("KERAS_BACKEND"):
        return named == "tensorflow"
    home = os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")
    try:
        config = json.loads((Path(home) / "keras.json").read_text("utf-8"))
        return config.get("backend", "tensorflow") == "tensorflow"
    except (OSError, ValueError, AttributeError):
        return True


# JAX and PyTorch need no TensorFlow; whoever needs it there calls the function.
if "keras" not in sys.modules and _is_backend():
    with contextlib.suppress(ImportError):  # Keras says what is missing
        import_tensorflow()
