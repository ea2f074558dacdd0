"""What TensorFlow says of itself when it starts, and what of that is passed on."""

import os
import subprocess
import sys

import keras
import pytest

from keras_transformer.startup import filtered
from tests.helpers import MODULES_ALONE

ROOT = os.path.dirname(os.path.dirname(__file__))


@pytest.mark.once
def test_warnings_and_errors_are_passed_on(capfd):
    with pytest.raises(KeyError), filtered():
        for line in (
            "WARNING: All log messages before absl::InitializeLog() is called are written",
            "I0000 00:00:1.2    7086 port.cc:153] oneDNN custom operations are on.",
            "E0000 00:00:1.2    7086 x.cc:5] The disk is full.",
            "W0000 00:00:1.2    7086 x.cc:5] This is slow.",
            "2026-01-02 03:04:05.6: I tensorflow/core/x.cc:1] This binary is optimized",
        ):
            os.write(2, f"{line}\n".encode())
        print("Python's own", file=sys.stderr)
        raise KeyError
    output, errors = capfd.readouterr()
    assert output == ""
    assert sorted(line.split("] ")[-1] for line in errors.splitlines()) == [
        "Python's own",
        "The disk is full.",
        "This is slow.",
    ]


@pytest.mark.once
def test_information_is_passed_on_at_level_0_alone(tmp_path):
    """Of a module in TensorFlow's place: what TensorFlow itself logs depends on the machine."""
    line = "I0000 00:00:1.2    7086 port.cc:153] oneDNN custom operations are on."
    (tmp_path / "tensorflow.py").write_text(
        f"import os\nos.write(2, {line.encode()!r})\n"
        "class config:\n    list_physical_devices = staticmethod(list)\n"
    )
    script = f"{MODULES_ALONE}\nimport keras_transformer.startup, tensorflow"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for level, expected in {None: "", "1": "", "0": line}.items():
        environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
        if level:
            environment["TF_CPP_MIN_LOG_LEVEL"] = level
        process = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True
        )
        assert (process.returncode, process.stderr) == (0, expected), level


# Imported by Keras, as TensorFlow's backend, or later: the others stand for that.
@pytest.mark.each_backend if keras.backend.backend() == "tensorflow" else pytest.mark.slow
def test_starts_in_silence():
    environment = {key: x for key, x in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    environment["KERAS_BACKEND"] = keras.backend.backend()  # with which it is imported now or later
    script = (
        "import keras_transformer, tensorflow as tf; print(tf.ones(3).shape);"
        "assert tf.__loader__ is tf.__spec__.loader and 'Source' in type(tf.__loader__).__name__"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (process.stdout, process.stderr) == ("(3,)\n", "")
