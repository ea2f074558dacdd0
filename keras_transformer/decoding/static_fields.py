"""Searches and constraints as frozen dataclasses, whose fields are static, traced or per example.

A program is compiled for the static part of a search, and takes the traced and the per-example
fields as tensors. Two searches that differ only in their temperature share one program.
"""

import dataclasses
import difflib
import numbers
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import PAD_ID

# Kinds of fields, to a compiled program. Fields without a kind are static.
_TRACED, _PER_EXAMPLE = "traced", "per_example"


def traced(dtype: str, default: Any = dataclasses.MISSING, off: float | None = None) -> Any:
    """Declare a field that programs take as a tensor, the same for all sentences.

    Args:
        dtype: the tensor's dtype.
        default: the default of the field.
        off: the value that disables the field. It is compiled in, so it costs nothing.
    """
    return dataclasses.field(
        default=default, metadata={"kind": _TRACED, "dtype": dtype, "off": off}
    )


def per_example(default: Any = dataclasses.MISSING) -> Any:
    """Declare a field that programs take as an int32 tensor with one row per sentence of the batch;
    its value may be None.
    """
    return dataclasses.field(
        default=default, metadata={"kind": _PER_EXAMPLE, "dtype": "int32", "off": None}
    )


_SHORT = reprlib.Repr()
_SHORT.maxtuple, _SHORT.maxother = 8, 200


class StaticFields:
    """Base class of frozen dataclasses with such fields."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]

    def static_part(self) -> Self:
        """Return a copy with `...` in place of tensors: a program is compiled for it, by value."""
        names = [*self._values(_TRACED), *self._values(_PER_EXAMPLE)]
        return self._with(dict.fromkeys(names, ...))

    def traced_tensors(self) -> dict[str, Any]:
        """Return the tensors that are the same for all sentences: name -> array."""
        return {
            name: np.asarray(value, self._field(name).metadata["dtype"])
            for name, value in self._values(_TRACED).items()
        }

    def per_example_tensors(self) -> Any:
        """Return the tensors with one row per sentence: name -> int32 tensor `(batch, ...)`."""
        values = self._values(_PER_EXAMPLE)
        return {
            name: ops.convert_to_tensor(
                np.asarray(x, "int32") if isinstance(x, tuple) else x, "int32"
            )
            for name, x in values.items()
        }

    def bind(self, tensors: Mapping[str, Any]) -> Self:
        """Return a copy with tensors in the fields.

        Args:
            tensors: dict of field name -> tensor.
        """
        return self._with(tensors)

    def __repr__(self) -> str:
        """Return the call that makes it, without empty fields, with long tuples cut short."""
        fields = {x.name: getattr(self, x.name) for x in dataclasses.fields(self)}
        shown = [f"{name}={_SHORT.repr(x)}" for name, x in fields.items() if x is not None]
        return f"{type(self).__name__}({', '.join(x for x in shown if not x.endswith('=()'))})"

    def get_config(self) -> dict[str, Any]:
        """Return JSON values for `from_config`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Make an object from the result of `get_config`.

        Args:
            config: a dict.
        """
        return cls(**config)

    def _values(self, kind: str) -> dict[str, Any]:
        """Return the fields of a kind that are not disabled: name -> value."""
        fields = [field for field in dataclasses.fields(self) if field.metadata.get("kind") == kind]
        values = {field: getattr(self, field.name) for field in fields}
        return {
            field.name: value
            for field, value in values.items()
            if value is ... or not (value is None or _equals(value, field.metadata["off"]))
        }

    def _field(self, name: str) -> dataclasses.Field:
        return next(field for field in dataclasses.fields(self) if field.name == name)

    def _with(self, values: Mapping[str, Any]) -> Self:
        new = object.__new__(type(self))  # without `__post_init__`: the values may be tensors
        for field in dataclasses.fields(self):
            value = values.get(field.name, getattr(self, field.name))
            object.__setattr__(new, field.name, value)
        return new


def _equals(value: Any, off: float | None) -> bool:
    return off is not None and isinstance(value, numbers.Number) and value == off


def serialize(fields: StaticFields) -> dict[str, Any]:
    """Return a search or a constraint as JSON values: `{"class_name": ..., "config": {...}}`."""
    name = keras.saving.get_registered_name(type(fields))
    return {"class_name": name, "config": fields.get_config()}


def deserialize(config: dict[str, Any]) -> Any:
    """Return the search or constraint that `serialize` wrote.

    Raises:
        UserError: if its class is not registered, or the class rejects the values.
    """
    try:
        name, values = config["class_name"], dict(config["config"])
    except (KeyError, TypeError, ValueError):
        raise UserError(
            'Expected a search or a constraint as {"class_name": ..., "config": {...}}. '
            f"Received: {config!r}"
        ) from None
    cls = keras.saving.get_registered_object(name)
    if not (isinstance(cls, type) and issubclass(cls, StaticFields)):
        raise UserError(
            f"Unknown search or constraint {name!r}. Import the module that registers it with "
            "`keras.saving.register_keras_serializable` first."
        )
    validate_option_names(values, cls)
    return cls.from_config(values)


def validate_option_names(options: Iterable[str], cls: type, also: Iterable[str] = ()) -> None:
    """Raise a `UserError` if an option is neither a field of a dataclass nor one of `also`."""
    known = [*(field.name for field in dataclasses.fields(cls)), *also]
    for name in options:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean `{nearest[0]}`?" if nearest else ""
            raise UserError(
                f"{cls.__name__} has no option `{name}`.{hint} It has: {', '.join(known)}."
            )


def validate_padding(name: str, token_ids: np.ndarray) -> None:
    """Raise a `UserError` if a row has padding before a token.

    Args:
        name: the argument's name.
        token_ids: int array `(batch, length)`.
    """
    is_token = token_ids != PAD_ID
    is_gap = (is_token[:, 1:] > is_token[:, :-1]).any(axis=1)
    if is_gap.any():
        row = is_gap.argmax()
        raise UserError(
            f"`{name}` must be padded with 0 at the end, and only there. "
            f"Received: row {row}={token_ids[row].tolist()}"
        )


def validate_integers(name: str, values: Any) -> Tensor:
    """Return integers as an array, or as the tensor that was passed.

    Args:
        name: the argument's name.
        values: array, nested lists, or a tensor.

    Raises:
        UserError: if the values are not integers, or rows differ in length.
    """
    expected = f"`{name}` must be an array of 32-bit integers, with rows of one length."
    is_ragged = hasattr(values, "row_splits")  # a tensor of TensorFlow
    if ops.is_tensor(values) and not is_ragged:
        if "int" not in keras.backend.standardize_dtype(values.dtype):
            raise UserError(f"{expected} Received: dtype={values.dtype}")
        return values
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):  # NumPy's errors for lists of different lengths
        is_ragged = True
    if is_ragged:
        raise UserError(f"{expected} Received: {reprlib.repr(values)}")
    is_integer = array.dtype.kind in "iu" or not array.size  # an empty list becomes floats
    if not is_integer or (array != array.astype("int32")).any():
        raise UserError(f"{expected} Received: dtype={array.dtype}, {reprlib.repr(values)}")
    return array.astype("int32")


def hashable_rows(name: str, values: Any) -> Any:
    """Return integers as nested tuples, which are equal by value and can be written as JSON.

    Args:
        name: the argument's name.
        values: array, nested lists, a tensor, or None.

    Returns:
        Nested tuples; None for None; in a program that is being compiled, the tensor.

    Raises:
        UserError: if the values are not integers, or rows differ in length.
    """
    if values is None:
        return None
    values = validate_integers(name, values)
    array = known_values(values)
    return values if array is None else _as_tuples(array.tolist())


def _as_tuples(values: Any) -> Any:
    return tuple(map(_as_tuples, values)) if isinstance(values, list) else values


def known_values(tensor: Any) -> np.ndarray | None:
    """Return the values of a tensor as an array; None for None or while a program is compiled."""
    if tensor is None:
        return None
    if isinstance(tensor, tuple):
        return np.asarray(tensor, "int32")
    try:
        return np.asarray(ops.convert_to_numpy(tensor))
    except (NotImplementedError, TypeError):
        return None
