"""Validation of arguments and options: each check raises a `UserError` that names the argument."""

import numbers
import operator
import reprlib
from collections.abc import Callable, Collection, Iterable, Sized
from typing import Any

import numpy as np

from keras_transformer.errors import UserError

_NO_STRINGS = "`{}` must be a list of strings. Received: {}"


def check_optional(check: Callable[[str, Any], Any], options: Any, *names: str) -> None:
    """Validate the fields of a dataclass that are not None.

    Args:
        check: function of a name and a value, such as `positive_integer`.
        options: the dataclass instance.
        *names: the names of the fields.
    """
    for name in names:
        if (value := getattr(options, name)) is not None:
            check(name, value)


def check_choice(name: str, value: str, choices: Collection[str] | None) -> None:
    """Raise a `UserError` if the value of an argument is not one of the choices.

    Args:
        name: the argument's name.
        value: the value that was passed for it.
        choices: the valid values. None allows any.
    """
    if choices is not None and value not in choices:
        raise UserError(f"`{name}` must be one of {', '.join(choices)}. Received: {name}={value!r}")


def integer(name: str, value: Any, least: float, at_least: str) -> int:
    """Convert any integer, such as NumPy's, to a Python integer.

    Args:
        name: the argument's name.
        value: the value that was passed for it.
        least: the smallest allowed value.
        at_least: description of the allowed values in the error, such as "a positive integer".

    Raises:
        UserError: if the value is not an integer, or is too small.
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise UserError(f"`{name}` must be {at_least}. Received: {name}={value!r}")
    return number


def positive_integer(name: str, value: Any) -> int:
    return integer(name, value, 1, "a positive integer")


def whole_number(name: str, value: Any) -> int:
    return integer(name, value, 0, "an integer, 0 or larger")


def real_number(name: str, value: Any, is_allowed: Callable[[Any], bool], expected: str) -> float:
    """Convert a real number for which `is_allowed` is true to a Python float.

    Raises:
        UserError: if the value is not such a number.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not is_allowed(value):
        raise UserError(f"`{name}` must be {expected}. Received: {name}={value!r}")
    return float(value)


def not_negative(name: str, value: Any) -> float:
    return real_number(name, value, lambda x: 0 <= x < np.inf, "a number, 0 or larger")


def positive_number(name: str, value: Any) -> float:
    return real_number(name, value, lambda x: 0 < x < np.inf, "a positive number")


def probability(name: str, value: Any) -> float:
    return real_number(name, value, lambda x: 0 <= x < 1, "at least 0 and less than 1")


def check_strings(name: str, values: Iterable[str], first: int = 0) -> list[str]:
    """Return the values as a list, and require that each is a string.

    Args:
        name: the argument's name.
        values: iterable of strings. A single string is an error.
        first: the index of the first value, if the list is a part of the argument.

    Raises:
        UserError: if the values are one string, or one of them is not a string.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UserError(_NO_STRINGS.format(name, f"{name}={reprlib.repr(values)}"))
    values = list(values)
    for index, value in enumerate(values, first):
        if not isinstance(value, str):
            received = f"{name}[{index}]={reprlib.repr(value)}"
            raise UserError(_NO_STRINGS.format(name, received))
    return values


def check_one_per_source(
    name: str, sources: Sized, values: Sized, kind: str = "translation"
) -> None:
    """Require one value per source.

    Args:
        name: the argument's name.
        sources: list of sources.
        values: list of values.
        kind: the word for a value.

    Raises:
        UserError: if the numbers differ.
    """
    if len(sources) != len(values):
        raise UserError(
            f"`{name}` must hold one {kind} per source. Received: {len(sources):,} sources and "
            f"{len(values):,} {name}"
        )
