"""Signals that end a training, and let it write a checkpoint before."""

import contextlib
import logging
import os
import signal
import threading

from keras_transformer.errors import TrainingStopped
from keras_transformer.training.rolling_checkpoints import StopAsked

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def stop_on_signals(checkpoints):
    """Within the block, let SIGTERM and Ctrl-C write a checkpoint before they end the training.

    It stops at the end of the current batch, or of a validation that is on its way; a second signal
    ends the process at once. A signal to one of several processes stops all.

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
        # Not `print`, in the middle of which the signal may have come.
        name = signal.Signals(number).name
        os.write(2, f"\n{name}: writing a checkpoint. Once more ends at once.\n".encode())

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, handle)
        yield
    except StopAsked:
        is_stopped = True
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    number = int(checkpoints.processes.largest(received[0] if received else 0))
    if number:
        logger.warning("Stopped. %s", checkpoints.last_good())
        raise TrainingStopped(128 + number)
    if is_stopped:
        raise StopAsked
