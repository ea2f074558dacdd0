"""The second process finds what the first has compiled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer import compilation_cache
from keras_transformer.compilation_cache import (
    OFF,
    VARIABLE,
    keep_compiled_programs,
    keep_in_user_folder,
    user_folder,
)
from keras_transformer.decoding import compilation
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.translation.translator import Translator
from tests.helpers import wait_for
from tests.small_corpus import new_model, tokenizer

PROGRAM = """
import json, random, sys
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
random.seed(1)  # from which Keras takes seeds; its own function imports TensorFlow everywhere
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=True)
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


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() == "torch", reason="nothing is compiled")
def test_compiled_programs_are_found_by_the_next_process(tmp_path):
    losses, files, hits = train_in_a_process(tmp_path / "cache")
    assert files
    assert not hits
    again, files_again, hits = train_in_a_process(tmp_path / "cache")
    assert again == losses
    assert files_again == files  # none is written anew
    if keras.backend.backend() == "jax":
        assert hits


def test_a_file_in_place_of_the_cache_folder_is_refused(tmp_path):
    path = tmp_path / "cache"
    path.write_text("")
    with pytest.raises(ValueError, match="must be a folder"):
        keep_compiled_programs(path)


# The user's own folder


@pytest.mark.once
def test_user_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    programs = Path("keras-transformer", "programs")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert user_folder() == tmp_path / "home" / ".cache" / programs
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert user_folder() == tmp_path / "caches" / programs
    monkeypatch.setenv(VARIABLE, "~/mine")
    assert user_folder() == tmp_path / "home" / "mine"


@pytest.mark.once
def test_oldest_files_are_deleted(tmp_path):
    (tmp_path / "folder").mkdir()
    for name, age in (("oldest", 3), ("folder/old", 2), ("new", 1)):
        path = tmp_path / name
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    # What is read again stays.
    os.utime(tmp_path / "oldest", (1e9, 1e9 - 3))
    for most_bytes, left in ((300, 3), (299, 2), (100, 1), (0, 0)):
        compilation_cache._delete_oldest(tmp_path, most_bytes)
        names = [path.name for path in tmp_path.rglob("*") if path.is_file()]
        assert sorted(names) == sorted(["oldest", "new", "old"][:left])


@pytest.mark.once
def test_off_is_passed_to_child_processes(monkeypatch):
    monkeypatch.setenv(VARIABLE, "x")
    keep_compiled_programs(OFF)
    assert os.environ[VARIABLE] == OFF


@pytest.fixture
def jax_config():
    """JAX's settings, as they were before the test at its end."""
    jax = pytest.importorskip("jax")
    if keras.backend.backend() != "jax":
        pytest.skip("a matter of JAX")
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    keep_in_user_folder.cache_clear()
    yield jax.config
    keep_in_user_folder.cache_clear()
    for name, value in before.items():
        jax.config.update(name, value)


def test_off_sets_no_cache_folder(jax_config):
    keep_in_user_folder()
    assert jax_config.jax_compilation_cache_dir is None


def test_a_folder_that_the_user_has_set_stays(jax_config, monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "ours"))
    jax_config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    keep_in_user_folder()
    assert jax_config.jax_compilation_cache_dir == str(tmp_path / "theirs")
    assert not (tmp_path / "ours").exists()


def test_a_task_sets_the_cache_folder(jax_config, monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "programs"))
    assert jax_config.jax_compilation_cache_dir is None  # importing has not
    Translator(new_model(), tokenizer())
    assert jax_config.jax_compilation_cache_dir == str(tmp_path / "programs")
    # What is in it will be run: nobody else may write there.
    assert (tmp_path / "programs").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_not_used(jax_config, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "programs"))
    keep_in_user_folder()
    assert jax_config.jax_compilation_cache_dir is None


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="a matter of JAX")
def test_damaged_files_are_ignored(tmp_path):
    folder = tmp_path / "cache"
    losses, files, _ = train_in_a_process(folder)
    for name in files:
        (folder / name).write_bytes(b"damaged")
    again, _, hits = train_in_a_process(folder)
    assert again == losses and not hits


def test_a_long_compilation_is_logged_once(caplog, monkeypatch):
    if keras.backend.backend() != "jax":
        pytest.skip("nothing is compiled for each shape")
    caplog.set_level("INFO")
    compilation._log_notice.cache_clear()
    monkeypatch.setattr(compilation, "_SECONDS_BEFORE_NOTICE", 0.01)

    def function(model, x):
        wait_for(lambda: caplog.messages)  # while it is traced
        return x + 1

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    for shape in ((1, 2), (1, 2), (1, 3)):
        run_compiled(function, model, np.zeros(shape, "float32"))
    (message,) = caplog.messages
    assert "compiling" in message
    compilation._log_notice.cache_clear()
