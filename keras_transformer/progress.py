"""Progress of work that takes longer than five seconds.

It is shown on standard error if that is a terminal or in a notebook; otherwise one line is logged
each minute. `keras.config.disable_interactive_logging()` disables both, as the option
`quiet` does.
"""

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_SECONDS_BEFORE = 5
_SECONDS_BETWEEN_LINES = 60

logger = logging.getLogger(__name__)


def is_shown() -> bool:
    """Return whether progress is shown as it changes."""
    return bool(is_wanted() and ("ipykernel" in sys.modules or _is_terminal()))


def is_wanted() -> bool:
    """Return whether progress is shown or logged at all."""
    import keras

    return keras.config.is_interactive_logging_enabled()


def _is_terminal() -> bool:
    return sys.stderr and sys.stderr.isatty()


def new_bar(**options: Any) -> Any:
    """Return a `tqdm` on standard error.

    Args:
        **options: options of `tqdm`.
    """
    from tqdm import tqdm

    return tqdm(**_size(), **options)


def _size() -> dict[str, int]:
    """Return a size as options of `tqdm` if the terminal reports none, as in some containers."""
    try:
        columns, _ = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):  # not a terminal
        return {}
    return {} if columns else {"ncols": 80, "nrows": 24}


class LogEachMinute:
    """A logger of lines that are at least a minute apart."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def __call__(self, tell: Callable[[], str]) -> None:
        """Log the result of a function, and the time since the beginning, if a line is due."""
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_LINES and is_wanted():
            self._last = now
            minutes, seconds = divmod(round(now - self._began), 60)
            logger.info("%s, %d:%02d", tell(), minutes, seconds)


@contextlib.contextmanager
def progress_shown(is_wanted: bool) -> Iterator[None]:
    """Within the block, show progress if it is wanted and there is a terminal or notebook."""
    import keras

    before = keras.config.is_interactive_logging_enabled()
    if not is_wanted:
        keras.config.disable_interactive_logging()
    try:
        yield
    finally:
        if before:
            keras.config.enable_interactive_logging()


@contextlib.contextmanager
def messages_shown(verbose: bool) -> Iterator[None]:
    """Within the block, show progress and print the package's log messages, if `verbose` is true.

    They are printed on standard error, unless the program has set up a log of its own: it then
    receives them.

    Args:
        verbose: whether to show progress and messages.
    """
    package, level = logging.getLogger("keras_transformer"), logging.INFO
    before, handlers = package.level, []
    if verbose and not package.hasHandlers():
        handlers = [logging.StreamHandler()]
    if verbose and not package.isEnabledFor(level):
        package.setLevel(level)
    for handler in handlers:
        package.addHandler(handler)
    try:
        with progress_shown(verbose):
            yield
    finally:
        package.setLevel(before)
        for handler in handlers:
            package.removeHandler(handler)


class _LoggedBar:
    """A replacement for `tqdm` that logs its count each minute."""

    def __init__(self, what: str, unit: str, total: int | None, iterable: Any) -> None:
        self._what, self._unit, self._iterable = what, unit, iterable
        self._of = "" if total is None else f" of {total:,}"
        self._count, self._log = 0, LogEachMinute()

    def __iter__(self) -> Iterator[Any]:
        for item in self._iterable:
            yield item
            self.update()

    def __enter__(self) -> "_LoggedBar":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: int = 1) -> None:
        self._count += count
        self._log(lambda: f"{self._what}: {self._count:,}{self._of} {self._unit}")

    def clear(self) -> None:
        """Do nothing: nothing is shown."""


def bar(
    what: str, unit: str, total: int | None = None, iterable: Iterable[Any] | None = None
) -> Any:
    """Return a progress bar that appears after five seconds and disappears when it is closed.

    Args:
        what: words before the bar, such as `"tokenizing"`.
        unit: the counted items, such as `"pairs"`.
        total: the number of items, if it is known.
        iterable: items to iterate over and count. Without it, call `update`.

    Returns:
        A `tqdm`, or an object that logs a line each minute if there is no terminal or notebook.
    """
    if not is_shown():
        return _LoggedBar(what, unit, total, iterable)
    return new_bar(
        iterable=iterable,
        desc=what,
        unit=f" {unit}",
        total=total,
        delay=_SECONDS_BEFORE,
        leave=False,
    )


@contextlib.contextmanager
def spinner(what: str) -> Iterator[None]:
    """Within the block, show a description and the elapsed time, after five seconds.

    It is for single calls of a library, where nothing can be counted.

    Args:
        what: description, such as `"training the vocabulary"`.
    """
    done = threading.Event()
    tell = _tell if is_shown() else _log
    teller = threading.Thread(target=tell, args=(what, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, done: threading.Event) -> None:
    if done.wait(_SECONDS_BEFORE):
        return
    with new_bar(desc=what, bar_format="{desc}: {elapsed}", leave=False) as line:
        line.start_t -= _SECONDS_BEFORE
        while not done.wait(1):
            line.refresh()


def _log(what: str, done: threading.Event) -> None:
    log = LogEachMinute()
    while not done.wait(_SECONDS_BETWEEN_LINES):
        log(lambda: what)
