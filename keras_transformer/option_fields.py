"""Options as nested dataclasses, one per stage, in modules that do not import Keras."""

import dataclasses
import difflib
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from keras_transformer.errors import UserError

Options = TypeVar("Options")

_MUTABLE = "mutable_on_resume"


def mutable_on_resume(default: Any = dataclasses.MISSING) -> Any:
    """Return a dataclass field that may change when a training resumes.

    It has no effect on the result of the training.

    Args:
        default: the field's default. Without one, a value is required.
    """
    return dataclasses.field(default=default, metadata={_MUTABLE: True})


def default_with_init(default: float, fine_tuned: Callable[[Any, int], float]) -> Any:
    """Return a field's default that has another value if a training begins with a preset.

    It is a number like any other, except that `fine_tuned_defaults` recognizes it: an option that
    was given keeps its value, even if it equals the default.

    Args:
        default: the default of a training from scratch.
        fine_tuned: function that takes the `RunOptions` and the number of updates of the training,
            and returns the default of fine-tuning.
    """
    kind = type(default)
    return type("Default", (kind,), {"fine_tuned": staticmethod(fine_tuned)})(default)


def fine_tuned_defaults(options: Any, run: Any, steps: int, resumed: Mapping[str, Any]) -> Any:
    """Return options with the defaults of fine-tuning: see `default_with_init`.

    Args:
        options: a dataclass instance; its fields may be dataclasses.
        run: the `RunOptions` of the training.
        steps: its number of updates.
        resumed: dict of the options of the training that resumes, whose values take the place of
            defaults.
    """
    changes = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            changes[field.name] = fine_tuned_defaults(value, run, steps, resumed)
        elif hasattr(value, "fine_tuned"):
            changes[field.name] = resumed.get(field.name, value.fine_tuned(run, steps))
    return dataclasses.replace(options, **changes)


def fixed_settings(options: Any) -> dict[str, Any]:
    """Return the options that must not change when a training resumes.

    Args:
        options: a dataclass instance; its fields may be dataclasses.

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


def all_fields(options_class: type) -> list[dataclasses.Field[Any]]:
    """Return the fields of a class and of its nested dataclasses, in order."""
    fields = []
    for field in dataclasses.fields(options_class):
        group = _group_of(field)
        fields += all_fields(group) if group else [field]
    return fields


def option_names(options_class: type) -> list[str]:
    """Return the names of all options of a class and its nested dataclasses, in order."""
    return [field.name for field in all_fields(options_class)]


def from_keywords(options_class: type[Options], keywords: Mapping[str, Any]) -> Options:
    """Make options from flat keyword arguments, including those of nested dataclasses.

    Args:
        options_class: a dataclass; its fields may be dataclasses.
        keywords: dict of names and values. Other options have their defaults.

    Returns:
        An instance of `options_class`.

    Raises:
        UserError: if an option does not exist, a required option is missing, or a value is not one
            of the choices.
    """
    names = option_names(options_class)
    for name in keywords:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
            raise UserError(f"There is no option `{name}`. The most similar one is `{near[0]}`.")
    return _fill(options_class, keywords)


def _fill(options_class: Any, keywords: Mapping[str, Any]) -> Any:
    values = {}
    for field in dataclasses.fields(options_class):
        if group := _group_of(field):
            values[field.name] = _fill(group, keywords)
        elif field.name in keywords:
            values[field.name] = keywords[field.name]
            _check_choice(field, keywords[field.name])
        elif field.default is dataclasses.MISSING:
            raise UserError(f"The option `{field.name}` is required. Pass `{field.name}`.")
    return options_class(**values)


def _check_choice(field: dataclasses.Field[Any], value: Any) -> None:
    """Raise a `UserError` if a field is a `Literal`, or an optional one, and has another value."""
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
    """Validate a dataclass of options and its nested dataclasses with their methods `validate`.

    Args:
        options: a dataclass instance.

    Raises:
        UserError: if a value is out of its range.
    """
    for field in dataclasses.fields(options):
        if dataclasses.is_dataclass(value := getattr(options, field.name)):
            check_options(value)
    if hasattr(options, "validate"):
        options.validate()
