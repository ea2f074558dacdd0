"""The pages of `docs/`."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "what_works.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "| Test |" not in line]

pytestmark = pytest.mark.once


def test_each_line_names_a_test():
    assert len(ROWS) > 30
    for row in ROWS:
        feature, *backends, tests = (cell.strip() for cell in row.strip("|").split("|"))
        assert feature and len(backends) == 3 and all(backends), row
        assert re.findall(r"`\w[\w/]*::\w+`", tests), row


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w[\w/]*::\w+)`", PAGE))))
def test_is_there(name):
    path, function = name.split("::")
    tree = ast.parse((ROOT / "tests" / f"{path}.py").read_text(encoding="utf-8"))
    found = [x.name for x in tree.body if isinstance(x, ast.FunctionDef)]
    assert found.count(function) == 1
