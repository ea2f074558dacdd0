"""Progress of what takes longer than five seconds: on standard error, where somebody looks at it.

Nothing is shown where standard error is no terminal and no notebook's, nor after
`keras.config.disable_interactive_logging()`, which is how command lines are quiet.
"""

import contextlib
import sys
import threading

_SECONDS_BEFORE = 5


def is_shown():
    """Whether progress is shown at all."""
    import keras

    is_looked_at = "ipykernel" in sys.modules or (sys.stderr and sys.stderr.isatty())
    return bool(is_looked_at and keras.config.is_interactive_logging_enabled())


@contextlib.contextmanager
def progress_shown(is_wanted):
    """Within the block, show progress if it is wanted and there is somebody who looks."""
    import keras

    before = keras.config.is_interactive_logging_enabled()
    if not is_wanted:
        keras.config.disable_interactive_logging()
    try:
        yield
    finally:
        if before:
            keras.config.enable_interactive_logging()


def bar(what=None, unit="", total=None, iterable=None):
    """A bar that counts, from the fifth second on; it is gone when it is closed.

    Args:
        what: words that stand before it, such as `"tokenising"`.
        unit: what is counted, such as `"pairs"`.
        total: how many there will be, if that is known.
        iterable: what to go through while it counts. Without it, call `update`.

    Returns:
        A `tqdm`.
    """
    from tqdm import tqdm

    return tqdm(
        iterable,
        desc=what,
        unit=f" {unit}",
        total=total,
        delay=_SECONDS_BEFORE,
        leave=False,
        disable=not is_shown(),
    )


@contextlib.contextmanager
def working(what):
    """Within the block, tell what is done and for how long, from the fifth second on.

    For what is one call of a library, in which nothing can be counted.

    Args:
        what: words, such as `"training the vocabulary"`.
    """
    if not is_shown():
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what, done):
    from tqdm import tqdm

    if done.wait(_SECONDS_BEFORE):
        return
    with tqdm(desc=what, bar_format="{desc}: {elapsed}", leave=False) as line:
        line.start_t -= _SECONDS_BEFORE
        while not done.wait(1):
            line.refresh()
