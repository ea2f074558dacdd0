"""`kt.data`, `kt.training` and others: what they name is there, documented, loaded late.
And the library leaves to command lines what is theirs.
"""

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_transformer as kt

pytestmark = pytest.mark.once

PACKAGE = Path(kt.__file__).parent
NAMESPACES = (
    *("convert", "data", "documents", "evaluation", "parsing", "training", "translation"),
    "visualization",
)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_each_public_name_exists_and_is_documented(namespace):
    module = getattr(kt, namespace)
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        value = getattr(module, name)
        # A dataclass or tuple without a docstring gets its signature for one.
        assert inspect.getdoc(value) and not inspect.getdoc(value).startswith(f"{name}("), name
        assert f"`{name}`" in module.__doc__, f"{name} is missing in the table of contents"


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_public_names_differ_from_module_names(namespace):
    # Whichever was loaded last would be meant.
    module = importlib.import_module(f"keras_transformer.{namespace}")
    modules = {path.stem for path in Path(module.__file__).parent.iterdir()}
    assert not modules & set(module.__all__)


def test_an_unknown_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="keras_transformer.data.*ParalelText"):
        _ = kt.data.ParalelText


@pytest.mark.slow
def test_jedi_resolves_each_name():
    import jedi

    project = jedi.Project(PACKAGE.parent)
    names = [f"{namespace}.{name}" for namespace in NAMESPACES for name in public(namespace)]
    lines = ["import keras_transformer as kt", *(f"kt.{name}" for name in names), "kt.data.Paralel"]
    script = jedi.Script("\n".join(lines), project=project)
    unresolved = [
        line
        for number, line in enumerate(lines[1:], 2)
        if not any(
            found.type in ("class", "function")
            for found in script.goto(number, len(line), follow_imports=True)
        )
    ]
    assert unresolved == ["kt.data.Paralel"]


@pytest.mark.slow
def test_pyright_resolves_each_name_and_finds_misspelt_ones(tmp_path):
    names = [f"kt.{namespace}.{name}" for namespace in NAMESPACES for name in public(namespace)]
    misspelt = [f"kt.{namespace}.no_such_name" for namespace in NAMESPACES]
    lines = ["import keras_transformer as kt", *(f"print({name})" for name in names + misspelt)]
    (tmp_path / "names.py").write_text("\n".join(lines))
    settings = {"include": ["names.py"], "extraPaths": [str(PACKAGE.parent)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    process = subprocess.run([*command, "-p", tmp_path], capture_output=True, text=True)
    wrong = [
        lines[error["range"]["start"]["line"]]
        for error in json.loads(process.stdout)["generalDiagnostics"]
    ]
    assert wrong == [f"print({name})" for name in misspelt]


def public(namespace):
    return getattr(kt, namespace).__all__


def test_each_public_name_has_one_namespace():
    homes = {}
    for namespace in (*NAMESPACES, "constraints", "layers", None):
        module = getattr(kt, namespace) if namespace else kt
        for name in module.__all__:
            homes.setdefault(name, []).append(namespace or "kt")
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert not twice


# What belongs to command lines

# Those that talk to a terminal: commands, and bars of progress.
MAY_PRINT = (
    "commands/",
    "command_line.py",
    "parsing/evalb.py",
    "training/fit_progress.py",
)
# Options of the compilers of the backends.
NOT_OURS = ("compilation_cache.py", "training/distribution.py")


def prints_and_flags(source):
    """The calls of `print`, and the flags in strings, of a module: lists of line numbers."""
    prints, flags = [], []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            prints.append(node.lineno)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            flags += [node.lineno] * bool(re.search(r"(?<![\w-])--[a-z]", node.value))
    return prints, flags


@pytest.mark.parametrize(
    "path", sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
)
def test_library_prints_nothing_and_names_no_flag(path):
    prints, flags = prints_and_flags((PACKAGE / path).read_text("utf-8"))
    assert not prints or path.startswith(MAY_PRINT)
    assert not flags or path.startswith((*MAY_PRINT, *NOT_OURS))


def test_prints_and_flags_are_found():
    assert prints_and_flags('x = 1\nprint(x)\ny = "pass --resume"\n') == ([2], [3])
    assert prints_and_flags('x = f"-- {1} --"\n') == ([], [])
