"""Tests for what the distribution requires, what it holds, and what users are told to install."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.wheel import differences

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REQUIRED = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = {
    name: [Requirement(text) for text in texts]
    for name, texts in PROJECT["optional-dependencies"].items()
}
PLATFORMS = {
    "Linux": {"sys_platform": "linux", "platform_machine": "x86_64"},
    "Linux on ARM": {"sys_platform": "linux", "platform_machine": "aarch64"},
    "Mac": {"sys_platform": "darwin", "platform_machine": "arm64"},
    "Intel Mac": {"sys_platform": "darwin", "platform_machine": "x86_64"},
    "Windows": {"sys_platform": "win32", "platform_machine": "AMD64"},
}
ALL = {"tensorflow", "tensorflow-text", "tensorboard", "keras-hub"}


@pytest.mark.parametrize(
    ("platform", "python", "expected"),
    [
        *((name, "3.13", ALL) for name in ("Linux", "Linux on ARM", "Mac")),
        ("Windows", "3.13", ALL - {"tensorflow-text"}),
        ("Windows", "3.14", {"keras-hub"}),
        *((name, "3.14", set()) for name in ("Linux", "Linux on ARM", "Mac", "Intel Mac")),
        ("Intel Mac", "3.13", set()),
    ],
)
def test_tensorflow_is_required_where_it_has_wheels(platform, python, expected):
    environment = {**PLATFORMS[platform], "python_version": python}
    names = {x.name for x in REQUIRED if x.marker is None or x.marker.evaluate(environment)}
    assert names & ALL == expected
    assert names - ALL == {x.name for x in REQUIRED} - ALL


def test_only_the_tests_pin_pytorch():
    pinned = {
        name
        for name, requirements in EXTRAS.items()
        for requirement in requirements
        if requirement.name == "torch" and "==" in str(requirement.specifier)
    }
    assert pinned == {"test"}


def test_extras_of_the_project_itself_exist():
    own = [x for extra in EXTRAS.values() for x in extra if x.name == PROJECT["name"]]
    assert len(own) == 3 and all(x.extras <= {*EXTRAS} for x in own)


def test_no_page_installs_the_project_from_an_index():
    # The name keras-transformer belongs to other people's code, and ours is not registered yet.
    # The file of a wheel, and a checkout, are what pages install from.
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder, suffixes in {
        "keras_transformer": (".py", ".pyi", ".html"),
        "recipes": (".py", ".md"),
        "benchmarks": (".py", ".md"),
        "docs": (".py", ".md", ".ipynb"),
    }.items():
        found = [path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
        assert found
        texts += found
    for path in texts:
        for hint in installations(path.read_text("utf-8")):
            assert not is_ours(hint), f"{path.relative_to(ROOT)}: {hint}"


def installations(text):
    """Return what follows each `pip install`, and each name of the project with extras."""
    return [
        *re.findall(r"\b(?:pip|pipx|uv|conda)3? (?:add|install) ([^\n`]*)", text),
        *re.findall(r"keras[-_]transformer(?:[-_]zoo)?\[\w[^\]]*\]", text),
    ]


def is_ours(hint):
    return bool(re.search(r"keras[-_]transformer(?!\S*\.whl)", hint))


def test_hints_that_name_the_project_are_found():
    text = """Install it: pip install "keras-transformer[svg]".
    `uv pip install keras_transformer_zoo`
    pip install dist/keras_transformer_zoo-0.2.0-py3-none-any.whl
    pip install ".[convert]"
    pip install svgling
    needs 'keras-transformer-zoo[ray]'"""
    assert [is_ours(hint) for hint in installations(text)] == [
        *(True, True, False, False, False, True, True)
    ]


def test_a_wheel_holds_the_package_and_nothing_else():
    tracked = ["keras_transformer/a.py", "keras_transformer/a.pyi"]
    packed = ["keras_transformer/a.py", "keras_transformer_zoo-1.dist-info/METADATA", "tests/b.py"]
    assert differences(packed, tracked) == (["keras_transformer/a.pyi"], ["tests/b.py"])
