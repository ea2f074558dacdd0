"""The second process finds what the first has compiled."""

import json
import os
import subprocess
import sys

import keras
import pytest

from keras_transformer.compilation_cache import keep_compiled_programs

PROGRAM = """
import json, sys
from pathlib import Path
import keras
import numpy as np
from keras_transformer import compilation_cache

# All programs, however quick: which take over half a second depends on what else the machine does.
compilation_cache._LEAST_SECONDS = 0.0
hits = []
if keras.backend.backend() == "jax":
    import jax
    jax.monitoring.register_event_listener(
        lambda event, **_: hits.append(event) if "cache_hits" in event else None
    )
compilation_cache.keep_compiled_programs(sys.argv[1])
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=True)
losses = [float(model.train_on_batch(np.ones((2, 4)), np.ones((2, 1)))) for _ in range(2)]
files = {path.name: path.stat().st_mtime_ns for path in Path(sys.argv[1]).iterdir()}
print(json.dumps([losses, files, len(hits)]))
"""


def train_in_a_process(folder):
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="nothing is compiled")
def test_found_by_the_next_process(tmp_path):
    losses, files, hits = train_in_a_process(tmp_path / "cache")
    assert files
    assert not hits
    again, files_again, hits = train_in_a_process(tmp_path / "cache")
    assert again == losses
    assert files_again == files  # none is written anew
    if keras.backend.backend() == "jax":
        assert hits


def test_a_file_in_the_way(tmp_path):
    path = tmp_path / "cache"
    path.write_text("")
    with pytest.raises(ValueError, match="must be a folder"):
        keep_compiled_programs(path)
