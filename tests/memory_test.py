"""Memory is kept: measured in a process of its own, by its page faults. What is collected."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.models.quantization import _collect_new_objects_only
from keras_transformer.training.results import _peak_memory_mib
from tests.helpers import MODULES_ALONE

pytestmark = pytest.mark.once

# Modules alone: the package would bring a backend, and threads of its own.
PROGRAM = """
import ctypes, resource
from concurrent.futures import ThreadPoolExecutor
from keras_transformer.command_line import keep_freed_memory

if {keep}:
    assert keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def step():
    for megabytes in (40, 100, 60):
        block = libc.malloc(megabytes * 2**20)
        ctypes.memset(block, 1, megabytes * 2**20)
        libc.free(block)

def step_here_and_in_a_thread():
    step()
    # As backends run: glibc gives a thread a heap of its own, of at most 64 MiB.
    thread.submit(step).result()

thread = ThreadPoolExecutor(1)
step_here_and_in_a_thread()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step_here_and_in_a_thread()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(keep):
    result = subprocess.run(
        [sys.executable, "-c", MODULES_ALONE + PROGRAM.format(keep=keep)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(result.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc, on Linux")
def test_freed_memory_serves_the_next_step():
    assert page_faults(keep=False) > 10_000
    assert page_faults(keep=True) < 100


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts as Linux does")
def test_peak_memory_is_the_kernels_figure():
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))  # in KiB
    assert _peak_memory_mib() == pytest.approx(peak / 1024, abs=5)


@pytest.mark.usefixtures("nothing_frozen")
@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_collections_skip_existing_objects_within_the_block_only(error):
    try:
        with _collect_new_objects_only():
            assert gc.get_freeze_count() > 10_000
            if error:
                raise error
    except KeyboardInterrupt:
        pass
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_frozen")
def test_objects_that_the_process_has_frozen_stay_frozen():
    gc.freeze()
    try:
        with _collect_new_objects_only():
            pass
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
