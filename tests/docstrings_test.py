"""Each public name says what it takes, of which shapes, and what it refuses."""

import ast
import dataclasses
import inspect
import re
import sys
import textwrap

import pytest

import keras_transformer as kt

pytestmark = pytest.mark.once

NAMESPACES = ("layers", "constraints", "data", "documents", "training", "evaluation", "convert")


def public_callables():
    """name -> class, function or method: of `kt` and its namespaces, and what their classes have
    that is not another library's.
    """
    things = {f"kt.{name}": getattr(kt, name) for name in kt.__all__}
    for namespace in NAMESPACES:
        module = getattr(kt, namespace)
        things |= {f"kt.{namespace}.{name}": getattr(module, name) for name in module.__all__}
    for name, thing in list(things.items()):
        if not inspect.isclass(thing):
            continue
        for method in dir(thing):
            # The first that has it. (What a layer's `call` takes, the class says.)
            home = [base for base in thing.__mro__ if method in vars(base)][-1]
            function = getattr(vars(home)[method], "__func__", vars(home)[method])
            is_ours = home.__module__.startswith("keras_transformer")
            if not method.startswith("_") and inspect.isfunction(function) and is_ours:
                things[f"{name}.{method}"] = function
    return {name: thing for name, thing in things.items() if callable(thing)}


CALLABLES = public_callables()
TENSOR = re.compile(r"\b(?:int|int32|float|float32|bool|boolean|integer) (?:tensor|array)\b", re.I)
SHAPE = re.compile(r"`\([\w`, .*/+-]*\)`|shape|scalar")
ARGUMENTS = ("Args", "Call arguments", "Attributes")


def section(docstring, *titles):
    """The text under titles such as "Args:"."""
    parts = re.findall(r"^([A-Z][A-Za-z ]+):\n((?:    .*\n|\n)*)", f"{docstring}\n", re.MULTILINE)
    return "".join(text for title, text in parts if title in titles)


def entries(docstring):
    """name -> words of the arguments; one entry may be of several."""
    text = section(docstring, *ARGUMENTS)
    found = re.findall(r"^    (\S.*?):(?: |\n)((?:.*\n)(?:     .*\n|\n)*)", text, re.MULTILINE)
    return {
        name.strip("*` "): words for names, words in found for name in re.split(r",| and ", names)
    }


def parameters(thing):
    try:
        names = inspect.signature(thing).parameters
    except ValueError:  # an exception takes a message
        return []
    return [name for name in names if name not in ("self", "cls")]


def described_fields(cls):
    """The fields of a dataclass or tuple that have a string below them, or a comment beside or
    above, in it or a base class."""
    found = set()
    for base in cls.__mro__:
        if base is object or not base.__module__.startswith("keras_transformer"):
            continue
        source = textwrap.dedent(inspect.getsource(base))
        lines, body = source.splitlines(), ast.parse(source).body[0].body
        for node, after in zip(body, [*body[1:], None]):
            if isinstance(node, ast.AnnAssign):
                has_string = isinstance(after, ast.Expr)
                above = lines[node.lineno - 2].strip().startswith("#")
                if has_string or above or "#" in lines[node.end_lineno - 1]:
                    found.add(node.target.id)
    return found


def described(thing):
    """The names of the arguments that are described: of a class, in its bases too."""
    if not inspect.isclass(thing):
        return entries(inspect.getdoc(thing)).keys()
    names = {"args"}  # those of a base
    for base in thing.__mro__:
        names |= entries(vars(base).get("__doc__") and inspect.cleandoc(base.__doc__)).keys()
    if dataclasses.is_dataclass(thing) or issubclass(thing, tuple):
        names |= described_fields(thing)
    return names


def raises_user_error(thing):
    """Whether its code, or a function of its module that it calls, raises a `UserError`."""
    if inspect.isclass(thing):
        own = (vars(thing).get(name) for name in ("__init__", "__post_init__", "__call__", "call"))
        return any(raises_user_error(function) for function in own if inspect.isfunction(function))
    if not (inspect.isfunction(thing) and thing.__module__.startswith("keras_transformer")):
        return False
    if thing.__code__.co_filename == "<string>":  # a dataclass's `__init__`
        return False
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(thing)))
    if "raise UserError" in source:
        return True
    module = vars(sys.modules[thing.__module__])
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    called = (module.get(call.func.id) for call in calls if isinstance(call.func, ast.Name))
    return any(
        "raise UserError" in inspect.getsource(function)
        for function in called
        if inspect.isfunction(function) and function.__module__ == thing.__module__
    )


def faults(name, thing):
    """What the docstring of a public name lacks."""
    docstring = inspect.getdoc(thing)
    # A dataclass or tuple without one gets its signature for one.
    if not docstring or docstring.startswith(f"{name.rpartition('.')[2]}("):
        yield "a docstring"
        return
    yield from set(parameters(thing)) - described(thing)
    if raises_user_error(thing) and "UserError" not in section(docstring, "Raises"):
        yield "Raises"
    for argument, words in entries(docstring).items():
        if TENSOR.search(words) and not SHAPE.search(words):
            yield f"the shape of {argument}"


def test_docstrings_list_arguments_shapes_and_errors():
    found = {name: [*faults(name, thing)] for name, thing in CALLABLES.items()}
    assert not {name: lacks for name, lacks in found.items() if lacks}
    assert len(found) > 200


def test_missing_parts_of_docstrings_are_found():
    def search(model, token_ids, length=3):
        """Search.

        Args:
            model: a model.
            token_ids: int array.
        """
        raise kt.UserError(f"No output of {model}, {token_ids}, {length}.")

    assert set(faults("search", search)) == {"length", "the shape of token_ids"}
    assert raises_user_error(kt.get_variant) and not raises_user_error(search)  # not ours
    assert SHAPE.search("int array `(batch, source)`.")
    assert [*faults("nothing", lambda x: x)] == ["a docstring"]
