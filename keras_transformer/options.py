"""Options as dataclasses that hold one another, defined beside the code of each stage; checks of
arguments."""

import dataclasses
import difflib
import numbers
import operator
import reprlib
import typing
from collections.abc import Iterable

import numpy as np

from keras_transformer.errors import UserError

_MAY_CHANGE = "may_change_on_resume"
_NO_STRINGS = "`{}` must be a list of strings. Received: {}"


def mutable_on_resume(default=dataclasses.MISSING):
    """A field that may have another value when a training goes on: what it learns stays the same.

    Args:
        default: the field's default. Without one it must be given.
    """
    return dataclasses.field(default=default, metadata={_MAY_CHANGE: True})


def fixed_settings(options):
    """What must stay as it is when a training goes on.

    Args:
        options: a dataclass instance; its fields may be dataclasses themselves.

    Returns:
        A flat dict of names and values, without the fields made by `mutable_on_resume`.
    """
    settings = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            settings |= fixed_settings(value)
        elif not field.metadata.get(_MAY_CHANGE):
            settings[field.name] = value
    return settings


def option_names(options_class):
    """The names of all options of a class and of those that its fields hold, in their order."""
    names = []
    for field in dataclasses.fields(options_class):
        names += option_names(field.type) if _is_group(field) else [field.name]
    return names


def from_keywords(options_class, keywords):
    """Make options of flat keyword arguments, whichever of the classes they belong to.

    Args:
        options_class: a dataclass; its fields may be dataclasses themselves.
        keywords: dict of names and values. What is not in it has its default.

    Returns:
        An instance of `options_class`.

    Raises:
        UserError: if there is no such option, one without a default is missing, or an option does
            not have the value.
    """
    names = option_names(options_class)
    for name in keywords:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
            raise UserError(f"There is no option `{name}`. The nearest is `{near[0]}`.")
    return _fill(options_class, keywords)


def _fill(options_class, keywords):
    values = {}
    for field in dataclasses.fields(options_class):
        if _is_group(field):
            values[field.name] = _fill(field.type, keywords)
        elif field.name in keywords:
            values[field.name] = keywords[field.name]
            _check_choice(field, keywords[field.name])
        elif field.default is dataclasses.MISSING:
            raise UserError(f"The option `{field.name}` is missing. Pass `{field.name}`.")
    return options_class(**values)


def _check_choice(field, value):
    """Raise an error if a field is a `Literal`, or one or None, and does not have the value."""
    kinds = (field.type, *typing.get_args(field.type))
    literals = [kind for kind in kinds if typing.get_origin(kind) is typing.Literal]
    choices = [choice for literal in literals for choice in typing.get_args(literal)]
    is_optional = value is None and type(None) in kinds
    if choices and value not in choices and not is_optional:
        raise UserError(
            f"`{field.name}` must be one of {', '.join(map(repr, choices))}. Received: "
            f"{field.name}={value!r}"
        )


def _is_group(field):
    return dataclasses.is_dataclass(field.type)


def check_optional(check, options, *names):
    """Check those of some fields of a dataclass that are not None.

    Args:
        check: function of a name and a value, such as `positive_integer`.
        options: the dataclass instance.
        *names: of the fields.
    """
    for name in names:
        if (value := getattr(options, name)) is not None:
            check(name, value)


def integer(name, value, least, at_least):
    """A Python integer of any integer, NumPy's too.

    Args:
        name: the argument's name.
        value: what was passed for it.
        least: the smallest value that is allowed.
        at_least: words that say so, such as "a positive integer".

    Raises:
        UserError: if it is none, or too small.
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise UserError(f"`{name}` must be {at_least}. Received: {name}={value}")
    return number


def positive_integer(name, value):
    return integer(name, value, 1, "a positive integer")


def whole_number(name, value):
    return integer(name, value, 0, "an integer, 0 or larger")


def real_number(name, value, is_allowed, expected):
    """A Python float of any real number for which `is_allowed` is true.

    Raises:
        UserError: if it is none.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not is_allowed(value):
        raise UserError(f"`{name}` must be {expected}. Received: {name}={value}")
    return float(value)


def not_negative(name, value):
    return real_number(name, value, lambda x: 0 <= x < np.inf, "a number, 0 or larger")


def positive_number(name, value):
    return real_number(name, value, lambda x: 0 < x < np.inf, "a positive number")


def probability(name, value):
    return real_number(name, value, lambda x: 0 <= x < 1, "at least 0 and less than 1")


def check_strings(name, values, first=0):
    """A list of the values, each of which must be a string.

    Args:
        name: the argument's name.
        values: iterable of strings; one string is not a list of them.
        first: the index of the first value, where the list is a part of the argument.

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


def check_options(options):
    """Check a dataclass of options and those that it holds, each by its own method `check`.

    Args:
        options: a dataclass instance.

    Raises:
        UserError: if a value is out of its range.
    """
    for field in dataclasses.fields(options):
        if dataclasses.is_dataclass(value := getattr(options, field.name)):
            check_options(value)
    if hasattr(options, "check"):
        options.check()
