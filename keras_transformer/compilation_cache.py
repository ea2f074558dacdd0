"""Programs compiled once and kept on disk, for the next process that needs the same."""

import contextlib
import functools
import logging
import os
from os import PathLike
from pathlib import Path
from typing import Any

import keras

from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)

# The environment variable that names another folder than the user's own, or is OFF.
VARIABLE = "KERAS_TRANSFORMER_COMPILATION_CACHE"
OFF = "off"

# A program that compiles faster than this is not worth a file.
_LEAST_SECONDS = 0.5
# What the user's own folder may hold when a process begins.
_MOST_BYTES = 2**30


def keep_compiled_programs(folder: str | PathLike) -> None:
    """Let the backend keep what it compiles in a folder, and look there first.

    Call it before anything is compiled. JAX keeps all its programs; TensorFlow those of XLA
    (`jit_compile=True`: training), which it still traces. Nothing is kept on PyTorch, where models
    run as they are. A program is found again by a hash of what it computes and for which machine,
    so the folder may be shared by all runs, and deleted at any time. It may run whatever others
    write there: let nobody else do so.

    Args:
        folder: path of the folder; it is made if it is not there. `"off"` for none, also not that
            of `keep_in_user_folder`.

    Raises:
        UserError: if the path is that of a file.
    """
    if str(folder) == OFF:
        os.environ[VARIABLE] = OFF
        return
    folder = Path(folder).absolute()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"The compilation cache must be a folder. {folder} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    if keras.backend.backend() == "jax":
        _keep_of_jax(folder)
    elif keras.backend.backend() == "tensorflow":
        # Read when TensorFlow first uses XLA.
        flag = f"--tf_xla_persistent_cache_directory={folder}"
        os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {flag}".strip()


@functools.cache
def keep_in_user_folder() -> None:
    """Let JAX keep what it compiles in the user's cache folder, unless it has a folder already.

    The tasks and their trainings call it: without, each process compiles anew, seconds for each
    length of a sentence. The setting is the whole process's. The environment variable
    `KERAS_TRANSFORMER_COMPILATION_CACHE` names another folder, or is `off`. Where the folder cannot
    be written nothing is kept; a file in it that is damaged is passed over. Of more than 1 GiB the
    oldest files are deleted.
    """
    if keras.backend.backend() != "jax" or os.environ.get(VARIABLE) == OFF:
        return
    import jax

    config: Any = jax.config
    if config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:
        return
    try:
        folder = user_folder()
        # Nobody else may write programs that this user runs.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _delete_oldest(folder, _MOST_BYTES)
    except (OSError, RuntimeError) as error:  # no such folder can be made; the user has no home
        logger.info("Compiled programs are not kept: %s", error)
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        logger.info("Compiled programs are not kept: %s cannot be written.", folder)
        return
    _keep_of_jax(folder)


def user_folder() -> Path:
    """Where `keep_in_user_folder` keeps programs: by the environment, or the user's cache."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME", "")
    # What is not absolute shall be passed over, says the XDG specification.
    caches = Path(caches) if os.path.isabs(caches) else Path("~/.cache").expanduser()
    return caches / "keras-transformer" / "programs"


def _keep_of_jax(folder):
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)


def _delete_oldest(folder, most_bytes):
    """Delete the files that were not used for the longest time, until the others are few enough.

    (JAX does so itself where `filelock` is installed, which not everybody has.)
    """
    files = []
    for path in folder.rglob("*"):  # XLA's own, of a GPU, lie in folders of theirs.
        with contextlib.suppress(FileNotFoundError):  # Another process has deleted it.
            if path.is_file():
                status = path.stat()
                files.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= most_bytes:
            break
        path.unlink(missing_ok=True)
        total -= size
