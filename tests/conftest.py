"""What holds for every test: cheap seeds, a limit on its time, and a deadline for all of them."""

import ctypes
import functools
import gc
import os
import random
import time
from pathlib import Path

import hypothesis
import pytest

# Keras is imported where it is used: the process that hands tests out to workers does not need it.

# The same examples in each run, however long they take on a machine that does other work.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("tests")

# Not the user's programs, in this process or one that a test starts.
os.environ["KERAS_TRANSFORMER_COMPILATION_CACHE"] = "off"

# Seconds of CPU time; a test that takes more needs the mark `slow`. Not the clock's time, of which
# other work on the machine takes its share; and without the fixtures, which several tests share.
LIMIT = 10.0
# What other work on the machine can make of a second, where two cores are halves of one.
_BUSY = 2

_OVER = "CPU time over the limit"
_over_the_limit = []
_libc = ctypes.CDLL(None)
_MUCH_MEMORY = 1.5e9
# Seconds after which no test is begun without the mark `each_backend_long`, or "" for none.
_DEADLINE = float(os.environ.get("KERAS_TRANSFORMER_TEST_SECONDS") or "inf")
_BEGIN = time.monotonic()


@pytest.fixture(autouse=True)
def seed():
    """The same initial weights and dropout in each test, whichever tests run before it.

    Keras takes the seeds of both from Python's random numbers. To seed the backends too, as
    `keras.utils.set_random_seed` does, makes TensorFlow prepare all its programs anew: what draws
    from them, a test seeds itself.
    """
    random.seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef):
    """What several tests share is the same too, whichever of them asks for it first."""
    if fixturedef.scope != "function":
        random.seed(0)


@pytest.fixture(autouse=True, scope="session")
def give_freed_memory_back():
    """The recipes keep it for their next step; one process of many tests would keep that of all."""
    from keras_transformer import command_line

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_line, "keep_freed_memory", lambda: None)
        yield


@pytest.fixture(scope="module")
def cheap_trainings():
    """Let translators search outputs of few tokens by default, and leave the curves' picture empty.

    A model that is hardly trained does not end its outputs. Most of a short training would be its
    validations, which search outputs of 50 tokens more than their sources have, and its picture.
    """
    import keras_transformer as kt
    from keras_transformer.training import results

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kt.Translator, "default_search", kt.BeamSearch(extra_length=5))
        patch.setattr(results, "draw_history", lambda *_: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def names_of_saved_attributes():
    """Let Keras find out once which attributes every layer has.

    It makes a layer to find out, for each layer that it saves or loads: it stores the result under
    another name than the one that it looks for (3.15).
    """
    from keras.src.saving import saving_lib

    with pytest.MonkeyPatch.context() as patch:
        if names := getattr(saving_lib, "get_attr_skipset", None):
            patch.setattr(saving_lib, "get_attr_skipset", functools.cache(names))
        yield


@pytest.fixture(autouse=True)
def free_programs():
    """JAX keeps every program that it has compiled, some megabytes each; glibc what JAX frees."""
    yield
    if _backend() == "jax" and _resident_bytes() > _MUCH_MEMORY:
        import jax

        gc.collect()
        jax.clear_caches()
        if hasattr(_libc, "malloc_trim"):
            _libc.malloc_trim(0)


def _backend():
    import keras

    return keras.backend.backend()


def _resident_bytes():
    """The memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def pytest_collection_finish():
    """Let the garbage collector examine what tests make, and not all that they import."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def nothing_frozen():
    """As in a user's process."""
    gc.unfreeze()
    yield
    gc.freeze()


def pytest_runtest_setup(item):
    is_needed = item.get_closest_marker("each_backend_long") is not None
    if time.monotonic() - _BEGIN > _DEADLINE and not is_needed:
        pytest.skip(f"not begun within KERAS_TRANSFORMER_TEST_SECONDS={_DEADLINE:g}")


# The limit on a test's time. (What a worker of pytest-xdist finds out travels in its reports.) It
# fails a developer's run, and is told alone in one of CI, whose machines differ too much in speed.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = _cpu_seconds()
    result = yield
    seconds = _cpu_seconds() - before
    if seconds > _BUSY * LIMIT and _is_of_make_test(item):
        item.user_properties.append((_OVER, round(seconds, 1)))
    return result


def _is_of_make_test(item):
    """Whether `make test` runs it under this backend: see pyproject.toml."""
    marks = {mark.name for mark in item.iter_markers()}
    is_here = _backend() == "torch" or marks & {"once", "each_backend"}
    return is_here and "slow" not in marks


def _cpu_seconds():
    """Of this process, and of its children that have ended."""
    return sum(os.times()[:4])


def pytest_runtest_logreport(report):
    if report.when == "call" and (seconds := dict(report.user_properties).get(_OVER)):
        _over_the_limit.append(f"{seconds} s of CPU time: {report.nodeid}")


def pytest_sessionfinish(session):
    if _over_the_limit and not session.exitstatus and "CI" not in os.environ:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    if _over_the_limit:
        terminalreporter.section(f"over {LIMIT:g} s, without the mark `slow`", red=True)
        for line in _over_the_limit:
            terminalreporter.line(line)
