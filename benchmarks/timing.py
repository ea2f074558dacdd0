"""How all benchmarks time: in turns, so that what else the machine does meets everyone alike."""

import statistics
import time

import numpy as np

# The threads of some libraries stay awake for a while after their work, and would disturb the next.
PAUSE = 0.5


def take_turns(functions, repeats, pause=PAUSE):
    """Call each function once a round.

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
    """The seconds that a call takes."""
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def matrix_product_speed(size=2048, repeats=5):
    """GFLOP/s of the machine: the best of a few products of float32 matrices in NumPy."""
    x = np.random.default_rng(0).standard_normal((size, size), "float32")
    seconds = [timed(np.matmul, x, x) for _ in range(repeats)]
    return 2 * size**3 / min(seconds) / 1e9


def gpu_product_speed(dtype, size=8192, repeats=10):
    """GFLOP/s of the backend's GPU for products of matrices of a dtype: the best of a few."""
    from keras import ops

    x = ops.cast(np.random.default_rng(0).standard_normal((size, size), "float32"), dtype)

    def product():
        # Reading one number waits for all.
        return float(ops.cast(ops.matmul(x, x)[0, 0], "float32"))

    product()
    return 2 * size**3 / min(timed(product) for _ in range(repeats)) / 1e9


def spread(values, form):
    """Median, smallest and largest."""
    return f"{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def ratios(seconds, peer_seconds):
    """How many times as fast as the peer: of each round, so that slow rounds of both are set
    against one another.
    """
    return [theirs / own for own, theirs in zip(seconds, peer_seconds, strict=True)]
