"""Tests for the Python examples in the README."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    names = {}
    exec(block, names)
    assert names["token_ids"].shape[0] == 4
    assert (tmp_path / "model.keras").is_file()
