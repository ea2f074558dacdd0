"""How the process holds its memory."""

import contextlib
import ctypes
import gc
import platform
import sys
from collections.abc import Iterator

try:
    import resource
except ImportError:  # Windows
    resource = None

# Parameters of mallopt(3).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> bool:
    """Let the process keep the memory that it frees, for its next allocation.

    A training step allocates the same large buffers as the step before. glibc takes each of them
    from the system and gives it back, so every step pays again for the pages (on Linux, a step of
    `tiny` on 2 CPU cores: 80,000 page faults, a third of its time). With this, the process stays as
    large as it ever was, and all its threads share one heap. Call it before they start.

    Returns:
        True if the C library could be told so: it is glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    settings = {
        _M_MMAP_MAX: 0,  # large buffers from the heap too, since others go back when freed
        _M_TRIM_THRESHOLD: 2**31 - 1,  # the heap's free end goes back only above 2 GiB
        _M_TOP_PAD: 64 * 2**20,  # grow the heap in large pieces
        _M_ARENA_MAX: 1,  # the main heap for all threads, since those of the others go back
    }
    return all(libc.mallopt(name, value) == 1 for name, value in settings.items())


@contextlib.contextmanager
def collect_new_objects_only() -> Iterator[None]:
    """Within the block, let the garbage collector look only at objects that are made in it.

    Keras calls `gc.collect()` for each layer that it quantizes. A process that has imported a
    backend holds hundreds of thousands of objects, and each call would look at all of them.
    """
    if gc.get_freeze_count():
        yield  # The process has frozen its objects itself, and `unfreeze` would undo that.
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def peak_memory_mib() -> int | None:
    """The most memory, in MiB, that this process has held since it started; None on Windows."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts in bytes
