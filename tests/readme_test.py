"""The Python of the README does what it says."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["token_ids"].shape[0] == 4
    assert (tmp_path / "model.keras").is_file()
