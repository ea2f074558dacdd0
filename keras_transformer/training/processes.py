"""What several processes that train together (JAX) tell one another.

Process 0 alone writes, and reads when a training goes on; the others need nothing of it on their
disks. All of them do everything else, in the same order: where one waits for another it is in the
functions here. What stops one, a full disk say, is told to the others there, and stops all: should
a process end without a word, the others would wait for it as long as JAX lets them, minutes.
"""

import atexit
import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from keras_transformer.errors import INTERRUPT_STATUS, UserError

Result = TypeVar("Result")

# Bytes of an error that the others are told.
_MESSAGE_BYTES = 2000

# What carries the computations of several processes, and names itself in its errors.
_NETWORKS = ("Gloo", "NCCL", "oordination service")


@dataclass(frozen=True)
class Processes:
    """The processes of a training, and which of them this is. Without arguments, the only one.

    All of them must call the same methods in the same order.

    Args:
        index: which of them this is, from 0.
        count: how many there are.
    """

    index: int = 0
    count: int = 1

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the files of the training."""
        return self.index == 0

    def first(self, function: Callable[[], Any]) -> Any:
        """Call a function in process 0, and return its result in all of them.

        Args:
            function: function without arguments that returns a JSON value.

        Raises:
            UserError: in the others, if it raised an error in process 0; there, its own error.
        """
        if self.count == 1:
            return function()
        result = self.each(lambda: json.dumps(function()) if self.is_writer else "")
        text = np.frombuffer(result.encode(), "uint8")
        size = int(self.from_first(np.array(len(text), "int32")))
        text = self.from_first(text if self.is_writer else np.zeros(size, "uint8"))
        return json.loads(text.tobytes())

    def each(self, function: Callable[[], Result]) -> Result:
        """Call a function in each process, and return its result.

        Args:
            function: function without arguments.

        Raises:
            UserError: if it raised an error in another process; in that one, its own error.
        """
        if self.count == 1:
            return function()
        try:
            result = function()
        # Any error: the other processes are waiting.
        except Exception as error:
            self.raise_together(error)
            raise
        self.raise_together()
        return result

    def raise_together(self, error: Exception | None = None) -> None:
        """Raise the error that this process has, or tell of another's; without any do nothing.

        Args:
            error: an exception, or None.

        Raises:
            UserError: if another process has an error.
        """
        if self.count > 1:
            told = _gather(_as_bytes("" if error is None else str(error) or repr(error)))
            messages = [row.tobytes().rstrip(b"\0").decode("utf-8", "ignore") for row in told]
            for index, message in enumerate(messages):
                if error is None and message:
                    error = UserError(f"Process {index} of the training has stopped: {message}")
        if error is not None:
            # Read by `_end_at_once`.
            error.is_of_all = True  # pyright: ignore[reportAttributeAccessIssue]
            raise error

    def from_first(self, array: np.ndarray) -> np.ndarray:
        """The array of process 0, in all of them; theirs has the same shape and dtype.

        Args:
            array: NumPy array, of any shape.
        """
        if self.count == 1:
            return array
        from jax.experimental.multihost_utils import broadcast_one_to_all

        return _told(broadcast_one_to_all, np.asarray(array))

    def assign(self, variables: Iterable[Any], arrays: Sequence[np.ndarray] | None) -> None:
        """Give the variables of all processes the values that process 0 has.

        Args:
            variables: list of variables.
            arrays: list of their values; None in the other processes.
        """
        for i, variable in enumerate(variables):
            array = np.zeros(variable.shape) if arrays is None else arrays[i]
            # Of 32 bits at most, as all variables of JAX: float32 holds every bfloat16.
            dtype = "float32" if "float" in variable.dtype else variable.dtype
            variable.assign(self.from_first(array.astype(dtype)))

    def largest(self, number: int) -> Any:
        """The largest of the processes' numbers, each an integer of at most 32 bits.

        Args:
            number: this process's.

        Returns:
            An integer, or what `int` makes one and then waits for: the devices compute it after
            what they have to do already.
        """
        return number if self.count == 1 else _make_largest()(number)


def exit_at_once_on_error() -> None:
    """Have a process that ends in an error of its own wait for no other.

    They then find its connection closed.
    """
    atexit.register(_end_at_once)


def _end_at_once():
    error = getattr(sys, "last_value", None)  # the one that was printed
    if error is not None and not getattr(error, "is_of_all", False):
        sys.stdout.flush()
        sys.stderr.flush()
        # JAX would wait for the others, which wait for this one, and in the end abort.
        statuses = {UserError: 2, KeyboardInterrupt: INTERRUPT_STATUS}
        os._exit(next((x for kind, x in statuses.items() if isinstance(error, kind)), 1))


@contextlib.contextmanager
def explain_lost_connections() -> Iterator[None]:
    """Within the block, have an error of a computation say that another process has ended.

    Raises:
        UserError: if a computation found another process's connection closed.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        # JAX has no class of its own for it.
        if isinstance(error, UserError) or not any(word in str(error) for word in _NETWORKS):
            raise
        raise UserError(
            "Another process of the training has ended, and its own output says why. Start all of "
            "them again, with `resume=True`."
        ) from error


def _told(function, *args):
    with explain_lost_connections():
        return function(*args)


def _gather(array):
    """The arrays of all processes: `(processes, ...)`."""
    from jax.experimental.multihost_utils import process_allgather

    return _told(process_allgather, array)


def _as_bytes(message):
    cut = " ".join(message.splitlines()).encode()[:_MESSAGE_BYTES]
    return np.frombuffer(cut.ljust(_MESSAGE_BYTES, b"\0"), "uint8")


@functools.cache
def _make_largest():
    """The function behind `Processes.largest`, whose program is compiled once."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("devices",))
    split, same = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (["devices"], []))
    largest = jax.jit(lambda numbers: numbers.max(), out_shardings=same)
    count = jax.local_device_count()

    def call(number):
        numbers = np.full(count, number, "int32")
        return _told(largest, jax.make_array_from_process_local_data(split, numbers))

    return call
