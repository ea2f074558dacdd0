"""A loop on PyTorch whose first step is recorded, and repeated without Keras.

Keras checks and converts the arguments of each layer and operation in Python. For small models
and batches, this takes several times as long as PyTorch's operations themselves. All steps of a
search have the same operations, with tensors of the same shapes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

if TYPE_CHECKING:
    from keras_transformer.annotations import Tensor

# Methods that give a tensor's values to Python, besides operations such as `item`.
_READS = (
    *(torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__),
    *(torch.Tensor.__dlpack__, torch.Tensor.data_ptr, torch.Tensor.untyped_storage),
)


def recorded_loop(
    goes_on: Callable[[Any], "Tensor"], step: Callable[[Any], Any], state: Any
) -> Any:
    """Apply `step` to a state while `goes_on` is true, in `torch.inference_mode`.

    If the first step gives values of tensors to Python, or changes a shape or dtype of the state,
    its record is not used, and `step` is called each time.

    Args:
        goes_on: function of the state; returns a bool scalar.
        step: function of the state; returns the next state. It may change tensors of the state in
            place, if it returns them.
        state: a structure of tensors.

    Returns:
        The last state.
    """
    if not goes_on(state):
        return state

    def next_leaves(*leaves: Any) -> list[Any]:
        after = step(keras.tree.pack_sequence_as(state, leaves))
        return [goes_on(after), *keras.tree.flatten(after)]

    leaves, repeat = keras.tree.flatten(state), next_leaves
    if all(map(torch.is_tensor, leaves)):
        # A tensor that is there twice, or is a constant of the step too, would have two meanings.
        leaves = [x.clone() for x in leaves]
        before = [(x.shape, x.dtype) for x in leaves]
        (is_on, *leaves), recorded = _record(next_leaves, leaves)
        if recorded is not None and before == [(x.shape, x.dtype) for x in leaves]:
            repeat = recorded
    else:
        is_on = True
    while is_on:
        is_on, *leaves = repeat(*leaves)
    return keras.tree.pack_sequence_as(state, leaves)


def _record(
    function: Callable[..., list[Any]], tensors: list[Any]
) -> tuple[list[Any], Callable[..., list[Any]] | None]:
    """Call a function of tensors that returns a list of tensors.

    Returns:
        The pair of its results, and of a function that repeats its operations on other tensors, or
        None if they depend on values.
    """
    recorder, reads = _Recorder(tensors), _Reads()
    with reads, recorder:
        results = function(*tensors)
    if reads.found or recorder.reads:
        return results, None
    return results, recorder.function(results)


class _Reads(TorchFunctionMode):
    """Notices functions that hand a tensor's values to Python."""

    found = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _READS:
            self.found = True
        return func(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):
    """Writes operations on tensors down as lines of Python."""

    def __init__(self, tensors: list[Any]) -> None:
        super().__init__()
        self.reads = False
        self._variables = WeakIdKeyDictionary()  # tensor -> name
        self._count = 0
        self._constants = {}  # name -> tensor, or another object
        self._lines = []
        self._arguments = list(map(self._assigned, tensors))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        results = result if isinstance(result, tuple | list) else [result]
        self.reads = self.reads or any(isinstance(x, bool | int | float) for x in results)
        # Most conversions return what they are given.
        if self.reads or (args and result is args[0] and not func._schema.is_mutable):
            return result
        values = [*map(self._value, args), *(f"{k}={self._value(x)}" for k, x in kwargs.items())]
        targets = "".join(f"{self._assigned(x)}, " for x in results)
        targets = f"[{targets}]" if isinstance(result, tuple | list) else targets[:-2]
        self._lines.append(f"{targets} = {self._constant(func)}({', '.join(values)})")
        return result

    def function(self, results: list[Any]) -> Callable[..., list[Any]]:
        """Return a function of the tensors that repeats the lines."""
        # Defaults are local variables, the fastest ones.
        parameters = ", ".join([*self._arguments, *(f"{name}={name}" for name in self._constants)])
        body = "\n    ".join([*self._lines, f"return {self._value(results)}"])
        scope = dict(self._constants)
        exec(f"def repeat({parameters}):\n    {body}\n", scope)
        repeat = scope.pop("repeat")
        scope.clear()  # Its cycle would keep the tensors until garbage is collected.
        return repeat

    def _assigned(self, x: Any) -> str:
        """Return the name of the variable that a result is assigned to."""
        if x is None:
            return "_"
        if x not in self._variables:
            self._variables[x] = f"x{self._count}"
            self._count += 1
        return self._variables[x]

    def _value(self, x: Any) -> str:
        """Return an argument as Python code."""
        if isinstance(x, torch.Tensor) and x in self._variables:
            return self._variables[x]
        if isinstance(x, list | tuple):
            return f"[{', '.join(map(self._value, x))}]"
        return repr(x) if x is None or isinstance(x, bool | int) else self._constant(x)

    def _constant(self, x: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = x
        return name
