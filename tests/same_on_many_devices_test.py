"""`recipes/same_on_many_devices.py` as a reader runs it."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import keras
import pytest

SCRIPT = Path(__file__).parents[1] / "recipes" / "same_on_many_devices.py"
BACKEND = keras.backend.backend()


def run(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        env={**os.environ, "KERAS_BACKEND": BACKEND},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def printed():
    if BACKEND == "torch":
        pytest.skip("PyTorch trains on one device")
    process = run("4")
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.mark.slow
def test_losses_do_not_depend_on_the_number_of_devices(printed):
    header, *rows, worst = (line.split("\t") for line in printed)
    assert header == ["update", "1 device", "4 devices"]
    updates, one, four = zip(*(map(float, row) for row in rows))
    assert updates == tuple(range(1, 11))
    assert one == pytest.approx(four, rel=1e-5)
    assert float(worst[0].split(": ")[1]) <= 1e-5
    assert one[-1] < one[0] - 0.3


@pytest.mark.skipif(BACKEND != "torch", reason="PyTorch's limit")
def test_pytorch_refuses_several_devices(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--train-on", "4"])
    with pytest.raises(SystemExit) as exit:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert exit.value.code == 2
    assert capsys.readouterr().err.startswith("Keras trains on one device with PyTorch")
