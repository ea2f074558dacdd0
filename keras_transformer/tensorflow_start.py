"""TensorFlow started without what it says of itself: a leaf that `__init__` imports first.

TensorFlow tells on standard error, whatever its log level, that oneDNN is on and that there are no
GPUs: in its first second, before it looks at the level. So whoever imports it in this process,
Keras or the user, has the file descriptor held meanwhile; what is neither information nor one of
the remarks below is passed on. An environment with `TF_CPP_MIN_LOG_LEVEL=0` gets all of it.
"""

import contextlib
import ctypes
import os
import re
import sys
import tempfile

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


class _Finder:
    """Finds TensorFlow as the other finders do, and has it loaded in silence."""

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        others = (finder.find_spec for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (find(name, path, target) for find in others)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    """A loader like another, which it gives its place back."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        with filtered():
            self._loader.exec_module(module)
            # Where there is no driver of CUDA it speaks of that as of an error, when it looks for
            # its devices. With a driver they are looked for when they are asked for, as always.
            if not _has_driver():
                module.config.list_physical_devices()


@contextlib.contextmanager
def filtered():
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
            if sys.stderr:
                sys.stderr.flush()
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


# Warnings and errors, as long as nobody has asked for more or less.
if os.environ.setdefault(_LEVEL, "1") != "0" and "tensorflow" not in sys.modules:
    sys.meta_path.insert(0, _Finder())
