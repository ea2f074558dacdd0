"""Public namespaces, whose names are loaded on first use (PEP 562)."""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path


def load_on_demand(
    namespace: str, path: str
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package that loads names on first use.

    The names are listed once, in the stub next to the package's `__init__.py`, as lines `from
    module import name as name`. Editors and type checkers read the same stub.

    Args:
        namespace: `__name__` of the package.
        path: `__file__` of the package.

    Returns:
        The list of the public names in the order of the stub, and the two functions.
    """
    stub = ast.parse(Path(path).with_suffix(".pyi").read_text("utf-8"))
    modules = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {namespace!r} has no attribute {name!r}")
        module, original = modules[name]
        loaded = importlib.import_module(module)
        if module == namespace or not hasattr(loaded, original):  # the name of a module
            return importlib.import_module(f"{module}.{original}")
        return getattr(loaded, original)

    return list(modules), get, lambda: sorted(modules)
