"""Programs on PyTorch: operations that are recorded once, and repeated without Keras.

Keras checks and converts the arguments of each layer and operation in Python. For small models
and batches, this takes several times as long as PyTorch's operations themselves. All steps of a
search have the same operations, with tensors of the same shapes, and so have searches of one shape.
"""

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import keras
import torch
from torch.overrides import TorchFunctionMode
from torch.overrides import _pop_mode_temporarily as _pop_function_mode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _pop_mode_temporarily as _pop_dispatch_mode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

if TYPE_CHECKING:
    from keras_transformer.annotations import Tensor

# Methods that give a tensor's values to Python, besides operations such as `item`.
_READS = (
    *(torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__),
    *(torch.Tensor.__dlpack__, torch.Tensor.data_ptr, torch.Tensor.untyped_storage),
)

_VARIABLE = re.compile(r"\bx\d+\b")

_recorder: ContextVar["_Recorder | None"] = ContextVar("_recorder", default=None)


def record(
    function: Callable[..., Any], tensors: Sequence[Any], weights: Sequence[Any] = ()
) -> tuple[Any, Callable[..., Any] | None]:
    """Call a function of tensors in `torch.inference_mode`, and record its operations.

    Args:
        function: function of tensors; returns a structure of tensors.
        tensors: list of tensors, its arguments.
        weights: list of further tensors that it uses, which other calls may replace.

    Returns:
        The pair of its results, and of a function of `*weights, *tensors` that repeats its
        operations. The latter is `None` if the operations may differ in another call: if values of
        tensors are given to Python or decide on a shape, if the function changes a tensor in place
        that it did not make, or if a `recorded_loop` in it makes no step.
    """
    # A tensor that is there twice would have two meanings.
    tensors = [x.detach() for x in tensors]
    recorder = _Recorder([*weights, *tensors])
    results = recorder.run(function, *tensors)
    return results, recorder.program(results)


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
    recorder = _recorder.get()
    if recorder is not None:
        return recorder.loop(goes_on, step, state)
    recorder = _Recorder([])
    return recorder.run(recorder.loop, goes_on, step, state)


class _Reads(TorchFunctionMode):
    """Notices functions that hand a tensor's values to Python."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _READS and (recorder := _recorder.get()) is not None:
            recorder.is_complete = False
        return func(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):
    """Writes operations on tensors down as lines of Python."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        super().__init__()
        self.is_complete = True  # the lines of the function or loop that runs
        self._lines: list[str] = []
        self._variables = WeakIdKeyDictionary()  # tensor -> name
        self._count = 0
        self._constants = {}  # name -> tensor, or another object
        self._names = {}  # constant -> name
        self._used = {}  # name -> tensor, from before the loop that runs
        self._given = _storages(tensors)  # not made by the recorded function
        self._arguments = list(map(self._assigned, tensors))
        self._first = self._count  # the number of variables before the loop

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, and write its operations down."""
        token = _recorder.set(self)
        try:
            with _Reads(), self:
                return function(*arguments)
        finally:
            _recorder.reset(token)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        # Most conversions return their argument. `torch.tensor` calls `detach_`.
        is_read = not func._schema.is_mutable or func is torch.ops.aten.detach_.default
        is_same = is_read and args and result is args[0]
        if self.is_complete and not is_same:
            self._write(func, args, kwargs or {}, result)
        return result

    def _write(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        results = result if isinstance(result, tuple | list) else [result]
        if any(isinstance(x, bool | int | float | complex) for x in results):
            # The value of a constant is a constant.
            self.is_complete = not any(x in self._variables for x in tree_leaves((args, kwargs)))
            return
        values = [*map(self._value, args), *(f"{k}={self._value(x)}" for k, x in kwargs.items())]
        if func._schema.is_mutable:
            changed = [x for argument, x in zip(func._schema.arguments, args) if argument.is_write]
            self.is_complete = not _storages([changed, kwargs]) & self._given
        elif func is not torch.ops.aten.index.Tensor:  # Its indices may be booleans.
            self.is_complete = torch.Tag.dynamic_output_shape not in func.tags
        targets = "".join(f"{self._assigned(x)}, " for x in results)
        targets = f"[{targets}]" if isinstance(result, tuple | list) else targets[:-2]
        self._lines.append(f"{targets} = {self._value(func)}({', '.join(values)})")

    def loop(
        self, goes_on: Callable[[Any], "Tensor"], step: Callable[[Any], Any], state: Any
    ) -> Any:
        """Run a `recorded_loop`, and write it down."""
        outside, first, is_complete = self._lines, self._first, self.is_complete
        leaves = keras.tree.flatten(state)
        if all(map(torch.is_tensor, leaves)):
            # A tensor that is there twice, or is a constant too, would have two meanings.
            leaves = [x.clone() for x in leaves]
            names = list(map(self._assigned, leaves))
            self._lines, self._first, self.is_complete = [], self._count, True
            state = keras.tree.pack_sequence_as(state, leaves)
            is_on = goes_on(state)
            self._lines.append(f"if not {self._value(is_on)}: break")
            if self._is_true(is_on):
                state = step(state)
                results = keras.tree.flatten(state)
                if self.is_complete and list(map(_form, results)) == list(map(_form, leaves)):
                    targets, values = ", ".join(names), ", ".join(map(self._value, results))
                    body = _indented([*self._lines, f"{targets}, = {values},"])
                    code = f"while True:\n{body}"
                    repeat = self._function(names, [code], names)  # the other steps
                    with _pop_dispatch_mode(), _pop_function_mode():
                        leaves = [x.detach() for x in repeat(*results)]
                    self._variables.update(zip(leaves, names))
                    self._lines, self._first = [*outside, code], first
                    self.is_complete = is_complete
                    return keras.tree.pack_sequence_as(state, leaves)
        self._lines, self._first, self.is_complete = outside, first, False
        while self._is_true(goes_on(state)):
            state = step(state)
        return state

    def _is_true(self, condition: Any) -> bool:
        with _pop_dispatch_mode(), _pop_function_mode():
            return bool(condition)

    def program(self, results: Any) -> Callable[..., Any] | None:
        """Return a function of the arguments that repeats all lines, or None."""
        values = list(map(self._value, keras.tree.flatten(results)))
        if not self.is_complete:
            return None
        # Activations that are not used any more would fill the memory.
        last = {name: i for i, x in enumerate(self._lines) for name in _VARIABLE.findall(x)}
        lines = [[line] for line in self._lines]
        for name in last.keys() - {*self._arguments, *values}:
            lines[last[name]].append(f"{name} = None")
        self._used.clear()
        lines = [*itertools.chain(*lines)]
        # Compiled when it is first repeated.
        repeat = functools.cache(lambda: self._function(self._arguments, lines, values))
        form = keras.tree.map_structure(lambda _: 0, results)
        return lambda *tensors: keras.tree.pack_sequence_as(form, repeat()(*tensors))

    def _function(
        self, arguments: Sequence[str], lines: Sequence[str], results: Sequence[str]
    ) -> Callable[..., list[Any]]:
        """Return a function of Python lines."""
        scope = {**self._constants, **self._used}
        # Defaults are local variables, the fastest ones.
        parameters = [*arguments, *(f"{name}={name}" for name in scope if name not in arguments)]
        body = _indented([*lines, f"return [{', '.join(results)}]"])
        exec(f"def repeat({', '.join(parameters)}):\n{body}\n", scope)
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
            if int(self._variables[x][1:]) < self._first:
                self._used[self._variables[x]] = x
            return self._variables[x]
        if isinstance(x, list | tuple):
            return f"[{', '.join(map(self._value, x))}]"
        return repr(x) if x is None or isinstance(x, bool | int) else self._constant(x)

    def _constant(self, x: Any) -> str:
        key = (float, repr(x)) if isinstance(x, float) else x  # 0.0 == -0.0
        if key not in self._names:
            self._names[key] = f"c{len(self._names)}"
            self._constants[self._names[key]] = x
            self._given |= _storages([x])
        return self._names[key]


def _form(x: Any) -> Any:
    return (x.shape, x.dtype) if torch.is_tensor(x) else None


def _storages(values: Any) -> set[int]:
    """Return the addresses of the memory of tensors in a structure."""
    with torch._C.DisableTorchFunction():
        tensors = filter(torch.is_tensor, tree_leaves(values))
        return {x.untyped_storage().data_ptr() for x in tensors} - {0}


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(["", *lines]).replace("\n", "\n    ")[1:]
