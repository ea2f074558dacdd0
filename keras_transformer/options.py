"""Options as dataclasses that hold one another: those of each stage stand beside its code."""

import dataclasses
import difflib

from keras_transformer.errors import UserError

_MAY_CHANGE = "may_change_on_resume"


def may_change(default=dataclasses.MISSING):
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
        A flat dict of names and values, without the fields made by `may_change`.
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
        UserError: if there is no such option, or one without a default is missing.
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
        elif field.default is dataclasses.MISSING:
            raise UserError(f"The option `{field.name}` is missing. Pass `{field.name}`.")
    return options_class(**values)


def _is_group(field):
    return dataclasses.is_dataclass(field.type)
