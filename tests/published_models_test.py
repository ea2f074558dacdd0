"""The script that compares Firefox's models with their own engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "published_models.py"


@pytest.mark.once
def test_rows_that_were_measured_are_read_and_not_measured_again(tmp_path):
    (tmp_path / "dev.pt").write_text("o gato dorme\na casa é azul\n", "utf-8")
    texts = {"engine": ["o gato dorme", "a casa azul"], "jax": ["o gato dorme", "a casa é azul"]}
    for system, outputs in texts.items():
        row = {"outputs": outputs, "seconds": [1.0, 0.5], "first": 0.25}
        (tmp_path / f"en-pt.{system}.1.json").write_text(json.dumps(row), "utf-8")
    options = ["--wheel", "none.whl", "--data-dir", tmp_path, "--output-dir", tmp_path]
    rows = ["--rows", "en-pt.engine.1", "en-pt.jax.1"]
    command = [sys.executable, SCRIPT, *options, *rows]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "| en-pt.jax.1 | 100.00 | 100.00 | 1 of 2 | 2.0 | 4.0 | 0.2 s |" in table
    assert "| en-pt.engine.1 |" in table and "2 of 2" in table and "tok:13a" in table
