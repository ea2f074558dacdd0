"""Every public function, constructor and method is annotated."""

import inspect
from pathlib import Path

import pytest

import keras_transformer as kt
from tests.namespaces_test import NAMESPACES

pytestmark = pytest.mark.once

PACKAGE = Path(kt.__file__).parent
OTHERS = ("layers", "constraints")


def functions_of(path, value):
    """Yield the functions of a public name that this package defines, with their names."""
    if inspect.isclass(value):
        for name, member in vars(value).items():
            member = inspect.unwrap(getattr(member, "__func__", member))
            member = member.fget if isinstance(member, property) else member
            is_public = not name.startswith("_") or name in ("__init__", "__call__")
            if is_public and inspect.isfunction(member) and is_ours(member):
                yield f"{path}.{name}", member
    elif inspect.isfunction(value) and is_ours(value):
        yield path, value


def is_ours(function):
    # A dataclass's constructor has no file.
    return Path(function.__code__.co_filename).is_relative_to(PACKAGE)


def without_types(function):
    """Return the parameters of a function that are not annotated, and "return"."""
    signature = inspect.signature(function)
    missing = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.annotation is parameter.empty and name not in ("self", "cls")
    ]
    is_constructor = function.__name__ == "__init__"
    if signature.return_annotation is signature.empty and not is_constructor:
        missing.append("return")
    return missing


@pytest.mark.parametrize("namespace", ["", *NAMESPACES, *OTHERS])
def test_public_functions_are_annotated(namespace):
    module = getattr(kt, namespace) if namespace else kt
    names = [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
    found = {
        path: missing
        for name in names
        for path, function in functions_of(f"{namespace}.{name}", getattr(module, name))
        if (missing := without_types(function))
    }
    assert names and not found


def test_a_missing_annotation_is_found():
    def function(x: int, y, *rest, **options: int):
        return x

    assert without_types(function) == ["y", "rest", "return"]
