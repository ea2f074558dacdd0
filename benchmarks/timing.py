"""Timing for all benchmarks. Systems take turns, so that other load affects all of them alike."""

import statistics
import time

import numpy as np

# Threads of some libraries stay active after their work and would disturb the next call.
PAUSE = 0.5


def take_turns(functions, repeats, pause=PAUSE):
    """Call each function once per round.

    Args:
        functions: dict of functions without arguments.
        repeats: number of rounds.
        pause: seconds between two calls.

    Returns:
        A dict of lists: the seconds of each call.
    """
    seconds = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            time.sleep(pause)
            seconds[name].append(timed(function))
    return seconds


def timed(function, *args):
    """Return the seconds of a call."""
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def matrix_product_speed(size=2048, repeats=5):
    """Return the GFLOP/s of the machine, the best of a few float32 matrix products in NumPy."""
    x = np.random.default_rng(0).standard_normal((size, size), "float32")
    seconds = [timed(np.matmul, x, x) for _ in range(repeats)]
    return 2 * size**3 / min(seconds) / 1e9


def gpu_product_speed(dtype, size=8192, repeats=10):
    """Return the GFLOP/s of the backend's GPU, the best of a few matrix products of a dtype."""
    from keras import ops

    x = ops.cast(np.random.default_rng(0).standard_normal((size, size), "float32"), dtype)

    def product():
        # Reading one number waits for the whole product.
        return float(ops.cast(ops.matmul(x, x)[0, 0], "float32"))

    product()
    return 2 * size**3 / min(timed(product) for _ in range(repeats)) / 1e9


def spread(values, form):
    """Format the median, with the smallest and the largest value."""
    return f"{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def ratios(seconds, peer_seconds):
    """Return the peer's time divided by ours, per round, so that slow rounds are compared with slow
    rounds.
    """
    return [theirs / own for own, theirs in zip(seconds, peer_seconds, strict=True)]
