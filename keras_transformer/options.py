"""Options as dataclasses that contain one another, each defined next to the stage that uses it."""

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from keras_transformer.errors import UserError

Options = TypeVar("Options")

_MUTABLE = "mutable_on_resume"


def mutable_on_resume(default: Any = dataclasses.MISSING) -> Any:
    """A field that may have another value when a training goes on: what it learns stays the same.

    Args:
        default: the field's default. Without one it must be given.
    """
    return dataclasses.field(default=default, metadata={_MUTABLE: True})


def fixed_settings(options: Any) -> dict[str, Any]:
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
        elif not field.metadata.get(_MUTABLE):
            settings[field.name] = value
    return settings


def option_names(options_class: type) -> list[str]:
    """The names of all options of a class and of those that its fields hold, in their order."""
    names = []
    for field in dataclasses.fields(options_class):
        group = _group_of(field)
        names += option_names(group) if group else [field.name]
    return names


def from_keywords(options_class: type[Options], keywords: Mapping[str, Any]) -> Options:
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
        if group := _group_of(field):
            values[field.name] = _fill(group, keywords)
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


def _group_of(field: dataclasses.Field[Any]) -> type | None:
    """Return the dataclass that a field holds, or None if the field is a single option."""
    kind = field.type
    return kind if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def check_options(options: Any) -> None:
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
