"""Work that a thread does while the training goes on."""

import threading


class BackgroundJob:
    """Call a function in a thread of its own, which the process does not end before.

    Args:
        function: function without arguments.
    """

    def __init__(self, function):
        self._function = function
        self._error = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self._function()
        except BaseException as error:
            self._error = error
        finally:
            del self._function  # and what it holds

    @property
    def is_done(self):
        """Whether `wait` would not wait."""
        return not self._thread.is_alive()

    def wait(self):
        """Wait for the function's end, and raise what it has raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
