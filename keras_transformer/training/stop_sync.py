"""The ways a training stops: on a signal, or after the same batch in all processes."""

import contextlib
import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from keras_transformer.errors import TrainingStopped

if TYPE_CHECKING:
    from keras_transformer.training.processes import Processes
    from keras_transformer.training.rolling_checkpoints import RollingCheckpoints

# The requests of a process. The largest one of all processes counts.
_GO_ON, _STOP, _FAIL = range(3)

# The number of batches after which an answer is read: by then the devices have computed it.
_LATE = 2

logger = logging.getLogger(__name__)


class StopRequested(Exception):
    """Raised out of `fit` after the checkpoint that `stop_soon` requests is written."""


class StopSync:
    """Synchronization that makes all processes of a training stop, or fail, after the same batch.

    If one process stopped alone, the others would wait for its part of the next batch. So at each
    batch the processes exchange their requests, by a computation on the devices between two steps.
    Nothing waits for it, because the answer is read two batches later. A single process has its
    answer immediately.

    Args:
        processes: the `Processes`.

    Attributes:
        stop_soon: set it to stop.
    """

    def __init__(self, processes: "Processes"):
        self.processes = processes
        self.stop_soon = False
        self._error = None
        self._asked = deque()

    def fail(self, error: Exception) -> None:
        """Raise an error: immediately in a single process, otherwise when all processes can."""
        if self.processes.count == 1:
            raise error
        self._error = self._error or error

    def at_batch(self) -> bool:
        """Send this process's request, and return whether to stop here.

        Raises:
            UserError: if a process has failed.
        """
        self._ask()
        late = 0 if self.processes.count == 1 else _LATE
        return len(self._asked) > late and self._take()

    def now(self) -> bool:
        """Send this process's request, wait for all answers, and return whether to stop."""
        self._ask()
        return any([self._take() for _ in range(len(self._asked))])

    def _ask(self):
        wish = _FAIL if self._error else _STOP if self.stop_soon else _GO_ON
        self._asked.append(self.processes.largest(wish))

    def _take(self):
        wish = int(self._asked.popleft())
        if wish == _FAIL:
            self.processes.raise_together(self._error)
        return wish == _STOP


@contextlib.contextmanager
def stop_on_signals(checkpoints: "RollingCheckpoints") -> Iterator[None]:
    """Within the block, let SIGTERM and Ctrl-C write a checkpoint before they end the training.

    The training stops at the end of the current batch, or of a running validation. A second signal
    ends the process immediately. A signal to one of several processes stops all.

    Args:
        checkpoints: the `RollingCheckpoints` of the training in the block.

    Raises:
        TrainingStopped: after a signal, once the checkpoint is written.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread can handle signals.
        return
    received, handlers, is_stopped = [], {}, False

    def handle(number, frame):
        received.append(number)
        checkpoints.stop_soon = True
        for other in handlers:
            signal.signal(other, signal.SIG_DFL)
        # Not `print`, which the signal may have interrupted.
        name = signal.Signals(number).name
        message = f"\n{name}: writing a checkpoint. A second signal exits immediately.\n"
        os.write(2, message.encode())

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, handle)
        yield
    except StopRequested:
        is_stopped = True
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    number = int(checkpoints.processes.largest(received[0] if received else 0))
    if number:
        logger.warning("Stopped. %s", checkpoints.last_good())
        raise TrainingStopped(128 + number)
    if is_stopped:
        raise StopRequested
