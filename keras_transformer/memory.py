"""Settings and measurements of the process's memory."""

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
    """Let the process keep freed memory for its next allocation.

    A training step allocates the same large buffers as the step before. glibc takes each of them
    from the system and gives it back, so every step pays for the pages again (on Linux, a step of
    `tiny` on 2 CPU cores: 80,000 page faults, a third of its time). After this call the process
    never shrinks, and all its threads share one heap. Call it before threads start.

    Returns:
        True if the C library supports it, which glibc does.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    settings = {
        # Allocate large buffers on the heap too, since others are given back when freed.
        _M_MMAP_MAX: 0,
        _M_TRIM_THRESHOLD: 2**31 - 1,  # give back the free end of the heap only above 2 GiB
        _M_TOP_PAD: 64 * 2**20,  # grow the heap in large pieces
        # Use the main heap for all threads, since the heaps of other threads are given back.
        _M_ARENA_MAX: 1,
    }
    return all(libc.mallopt(name, value) == 1 for name, value in settings.items())


@contextlib.contextmanager
def collect_new_objects_only() -> Iterator[None]:
    """Within the block, let the garbage collector examine only objects that are made in it.

    Keras calls `gc.collect()` for each layer that it quantizes. A process that has imported a
    backend has hundreds of thousands of objects, and each call would examine all of them.
    """
    if gc.get_freeze_count():
        yield  # The process has frozen objects itself, and `unfreeze` would undo that.
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def peak_memory_mib() -> int | None:
    """Return the peak memory of this process in MiB, or None on Windows."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts in bytes
