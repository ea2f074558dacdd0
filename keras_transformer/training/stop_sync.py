"""Where all processes of a training leave `fit` together."""

from collections import deque

# What a process may wish: the largest of all counts.
_GO_ON, _STOP, _FAIL = range(3)

# The answer to a question is taken so many batches later: by then the devices have it.
_LATE = 2


class Agreement:
    """Have all processes of a training stop, or fail, after the same batch.

    A process that left alone would have the others wait for its part of the next batch. So at each
    batch they tell one another what they wish, by a computation on the devices that stands between
    two steps: nothing waits for it, since the answer is taken two batches later. One process alone
    has its answer at once.

    Args:
        processes: the `Processes`.

    Attributes:
        stop_soon: set it to stop.
    """

    def __init__(self, processes):
        self.processes = processes
        self.stop_soon = False
        self._error = None
        self._asked = deque()

    def fail(self, error):
        """Raise an error: with several processes, as soon as all can."""
        if self.processes.count == 1:
            raise error
        self._error = self._error or error

    def at_batch(self):
        """Ask, and return whether to stop here.

        Raises:
            UserError: if a process has failed.
        """
        self._ask()
        late = 0 if self.processes.count == 1 else _LATE
        return len(self._asked) > late and self._take()

    def now(self):
        """As `at_batch`, where nothing is lost by waiting for the answer."""
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
