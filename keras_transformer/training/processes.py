"""Communication between several processes that train together (JAX).

Only process 0 writes files, and reads them when a training resumes; the other processes need no
files. All processes do everything else, in the same order. They wait for each other only in the
functions here. An error in one process, such as a full disk, is communicated here and stops all of
them: if a process ended without notice, the others would wait for JAX's timeout of minutes.
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

import keras
import numpy as np
from keras import ops

from keras_transformer.errors import INTERRUPT_STATUS, UserError

Result = TypeVar("Result")

# The most bytes of an error message that are sent to the other processes.
_MESSAGE_BYTES = 2000

# The network libraries of JAX, which are named in their errors.
_NETWORKS = ("Gloo", "NCCL", "oordination service")


@dataclass(frozen=True)
class Processes:
    """The processes of a training, and the index of this one; without arguments, one process.

    All processes must call the same methods in the same order.

    Args:
        index: the index of this process, from 0.
        count: the number of processes.
    """

    index: int = 0
    count: int = 1

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the files of the training."""
        return self.index == 0

    def first(self, function: Callable[[], Any]) -> Any:
        """Call a function in process 0, and return its result in all processes.

        Args:
            function: function without arguments that returns a JSON value.

        Raises:
            UserError: in the other processes, if it raises an error in process 0. Process 0 raises
                the original error.
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
            UserError: in the other processes, if it raises an error in one. That one raises the
                original error.
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
        """Raise this process's error, or report the error of another process, if there is one.

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
        """Return the array of process 0 in all processes.

        Their own arrays have the same shape and dtype.

        Args:
            array: NumPy array, of any shape.
        """
        if self.count == 1:
            return array
        from jax.experimental.multihost_utils import broadcast_one_to_all

        return _told(broadcast_one_to_all, np.asarray(array))

    def assign(self, variables: Iterable[Any], arrays: Sequence[np.ndarray] | None) -> None:
        """Assign the values of process 0 to the variables of all processes.

        Args:
            variables: list of variables.
            arrays: list of their values; None in the other processes.
        """
        for i, variable in enumerate(variables):
            array = np.zeros(variable.shape) if arrays is None else arrays[i]
            # JAX's variables have at most 32 bits; float32 represents every bfloat16.
            dtype = "float32" if "float" in variable.dtype else variable.dtype
            variable.assign(self.from_first(array.astype(dtype)))

    def load(self, model: keras.Model, load: Callable[[], None]) -> None:
        """Load weights in process 0, and assign them in all processes.

        Args:
            model: the model.
            load: function without arguments that loads the weights into the model.
        """
        if self.count == 1:
            load()
            return

        def loaded() -> list[np.ndarray]:
            # All processes must take part in an assignment to a shared variable.
            with keras.StatelessScope() as scope:
                load()
            return [ops.convert_to_numpy(scope.get_current_value(x)) for x in model.weights]

        self.assign(model.weights, self.each(lambda: loaded() if self.is_writer else None))

    def largest(self, number: int) -> Any:
        """Return the largest of the processes' numbers, each an integer of at most 32 bits.

        Args:
            number: this process's number.

        Returns:
            An integer, or an object that `int` converts and waits for: the devices compute it after
            their pending work.
        """
        return number if self.count == 1 else _make_largest()(number)


def exit_at_once_on_error() -> None:
    """Make a process that ends in an error of its own exit without waiting for the others.

    The others then find its connection closed.
    """
    atexit.register(_end_at_once)


def _end_at_once() -> None:
    error = getattr(sys, "last_value", None)  # the error that was printed
    if error is not None and not getattr(error, "is_of_all", False):
        sys.stdout.flush()
        sys.stderr.flush()
        # JAX would wait for the other processes, which wait for this one, and finally abort.
        statuses = {UserError: 2, KeyboardInterrupt: INTERRUPT_STATUS}
        os._exit(next((x for kind, x in statuses.items() if isinstance(error, kind)), 1))


@contextlib.contextmanager
def explain_lost_connections() -> Iterator[None]:
    """Convert errors of computations in the block to a message that another process has ended.

    Raises:
        UserError: if a computation found another process's connection closed.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        # JAX has no exception class for it.
        if isinstance(error, UserError) or not any(word in str(error) for word in _NETWORKS):
            raise
        raise UserError(
            "Another process of the training has ended. See its output for the reason, and start "
            "all processes again with `resume=True`."
        ) from error


def _told(function: Callable[..., Any], *args: Any) -> Any:
    with explain_lost_connections():
        return function(*args)


def _gather(array: np.ndarray) -> np.ndarray:
    """Return the arrays of all processes: `(processes, ...)`."""
    from jax.experimental.multihost_utils import process_allgather

    return _told(process_allgather, array)


def _as_bytes(message: str) -> np.ndarray:
    cut = " ".join(message.splitlines()).encode()[:_MESSAGE_BYTES]
    return np.frombuffer(cut.ljust(_MESSAGE_BYTES, b"\0"), "uint8")


@functools.cache
def _make_largest() -> Callable[[int], Any]:
    """Return the function of `Processes.largest`, whose program is compiled once."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("devices",))
    split, same = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (["devices"], []))
    largest = jax.jit(lambda numbers: numbers.max(), out_shardings=same)
    count = jax.local_device_count()

    def call(number: int) -> Any:
        numbers = np.full(count, number, "int32")
        return _told(largest, jax.make_array_from_process_local_data(split, numbers))

    return call
