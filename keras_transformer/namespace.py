"""Public namespaces: tables of what is loaded when it is first asked for (PEP 562)."""

import importlib


def load_on_demand(namespace, homes):
    """The `__getattr__` and `__dir__` of a package that loads its public names on demand.

    Args:
        namespace: name of the package.
        homes: dict of name -> the module that has it, below `keras_transformer`.

    Returns:
        The two functions.
    """

    def get(name):
        if name not in homes:
            raise AttributeError(f"module {namespace!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"keras_transformer.{homes[name]}"), name)

    return get, lambda: sorted(homes)
