"""Searches and constraints as frozen dataclasses: what of them a program is compiled for, and what
it takes as tensors.

A program is compiled for a template, in which tensors have a `...` in their place. So two searches
that differ in their temperature alone share one program.
"""

import dataclasses
import difflib
import numbers
import reprlib

import keras
import numpy as np

from keras_transformer.errors import UserError

# What a field is to a compiled program.
_SHARED, _ROWS = "shared", "rows"


def shared(dtype, default=dataclasses.MISSING, off=None):
    """A field that programs take as a tensor, the same for all sentences.

    Args:
        dtype: the tensor's dtype.
        default: the field's default, if it has one.
        off: a value with which the field does nothing. It is compiled in, and so costs nothing.
    """
    return dataclasses.field(
        default=default, metadata={"kind": _SHARED, "dtype": dtype, "off": off}
    )


def rows(default=dataclasses.MISSING):
    """A field that programs take as an int32 tensor with a row for each sentence of the batch, or
    None.
    """
    return dataclasses.field(
        default=default, metadata={"kind": _ROWS, "dtype": "int32", "off": None}
    )


_SHORT = reprlib.Repr()
_SHORT.maxtuple, _SHORT.maxother = 8, 200


class Settings:
    """What frozen dataclasses with such fields have in common."""

    def template(self):
        """Itself with `...` in place of tensors: what a program is compiled for, by value."""
        names = [*self._values(_SHARED), *self._values(_ROWS)]
        return self._with(dict.fromkeys(names, ...))

    def shared_tensors(self):
        """The tensors that all sentences share: name -> array."""
        return {
            name: np.asarray(value, self._field(name).metadata["dtype"])
            for name, value in self._values(_SHARED).items()
        }

    def row_tensors(self):
        """The tensors that have a row for each sentence: name -> int32 tensor `(batch, ...)`."""
        values = self._values(_ROWS)
        return {
            name: keras.ops.convert_to_tensor(
                np.asarray(x, "int32") if isinstance(x, tuple) else x, "int32"
            )
            for name, x in values.items()
        }

    def filled(self, tensors):
        """Itself with tensors in the place of the fields that they are named after.

        Args:
            tensors: dict of name -> tensor.
            rows: of a search, a list of such dicts, those of its constraints.
        """
        return self._with(tensors)

    def __repr__(self):
        """As a call that makes the same, without what is not there; long tuples cut short."""
        fields = {x.name: getattr(self, x.name) for x in dataclasses.fields(self)}
        shown = [f"{name}={_SHORT.repr(x)}" for name, x in fields.items() if x is not None]
        return f"{type(self).__name__}({', '.join(x for x in shown if not x.endswith('=()'))})"

    def get_config(self):
        """JSON values that make the same again: see `from_config`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_config(cls, config):
        """Make what `get_config` is of.

        Args:
            config: a dict, as `get_config` returns.
        """
        return cls(**config)

    def _values(self, kind):
        """The fields of a kind that are not off: name -> value."""
        fields = [field for field in dataclasses.fields(self) if field.metadata.get("kind") == kind]
        values = {field: getattr(self, field.name) for field in fields}
        return {
            field.name: value
            for field, value in values.items()
            if value is ... or not (value is None or _equals(value, field.metadata["off"]))
        }

    def _field(self, name):
        return next(field for field in dataclasses.fields(self) if field.name == name)

    def _with(self, values):
        new = object.__new__(type(self))  # the values are no user's: they are not checked again
        for field in dataclasses.fields(self):
            value = values.get(field.name, getattr(self, field.name))
            object.__setattr__(new, field.name, value)
        return new


def _equals(value, off):
    return off is not None and isinstance(value, numbers.Number) and value == off


def serialize(settings):
    """A search or a constraint as JSON values: `{"class_name": ..., "config": {...}}`."""
    name = keras.saving.get_registered_name(type(settings))
    return {"class_name": name, "config": settings.get_config()}


def deserialize(config):
    """The search or constraint that `serialize` wrote.

    Raises:
        UserError: if it is of no class that is known here, or its class refuses the values.
    """
    try:
        name, values = config["class_name"], dict(config["config"])
    except (KeyError, TypeError, ValueError):
        raise UserError(
            'Expected a search or a constraint as {"class_name": ..., "config": {...}}. '
            f"Received: {config!r}"
        ) from None
    cls = keras.saving.get_registered_object(name)
    if not (isinstance(cls, type) and issubclass(cls, Settings)):
        raise UserError(
            f"There is no search or constraint {name!r} here. Import the module that registers it "
            "with `keras.saving.register_keras_serializable` first."
        )
    check_names(values, cls)
    return cls.from_config(values)


def check_names(options, cls, also=()):
    """Raise a `UserError` if an option is none of a dataclass's fields, nor one of `also`."""
    known = [*(field.name for field in dataclasses.fields(cls)), *also]
    for name in options:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean `{nearest[0]}`?" if nearest else ""
            raise UserError(
                f"{cls.__name__} has no option `{name}`.{hint} It has: {', '.join(known)}."
            )
