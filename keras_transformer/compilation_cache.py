"""A cache on disk for compiled programs, which later processes use."""

import contextlib
import functools
import logging
import os
from os import PathLike
from pathlib import Path
from typing import Any

from keras_transformer.errors import UserError
from keras_transformer.files import user_cache

logger = logging.getLogger(__name__)

# The environment variable that names another folder than the user's default, or is OFF.
VARIABLE = "KERAS_TRANSFORMER_COMPILATION_CACHE"
OFF = "off"

# Programs that compile faster than this are not kept.
_LEAST_SECONDS = 0.5
# The most bytes that the user's folder may contain when a process starts.
_MOST_BYTES = 2**30


def keep_compiled_programs(folder: str | PathLike) -> None:
    """Let the backend keep its compiled programs in a folder, and look there first.

    Call it before anything is compiled. JAX keeps all programs. TensorFlow keeps XLA's programs
    (`jit_compile=True`: training), which it still traces. PyTorch compiles nothing. Programs are
    found by a hash of their computation and machine, so all runs may share the folder, and it may
    be deleted at any time. Programs in it are executed, so nobody else should be able to write to
    it.

    Args:
        folder: path of the folder, which is made if it does not exist. `"off"` keeps no programs,
            also not in the folder of `keep_in_user_folder`.

    Raises:
        UserError: if the path is a file.
    """
    if str(folder) == OFF:
        os.environ[VARIABLE] = OFF
        return
    folder = Path(folder).absolute()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"The compilation cache must be a folder. Received: the file {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    import keras

    if keras.backend.backend() == "jax":
        _keep_of_jax(folder)
    elif keras.backend.backend() == "tensorflow":
        # Read when TensorFlow first uses XLA.
        flag = f"--tf_xla_persistent_cache_directory={folder}"
        os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {flag}".strip()


@functools.cache
def keep_in_user_folder() -> None:
    """Let JAX keep compiled programs in the user's cache folder, unless another folder is set.

    The tasks and their trainings call it. Otherwise each process would compile again, which takes
    seconds per sentence length. The setting applies to the whole process. The environment variable
    `KERAS_TRANSFORMER_COMPILATION_CACHE` names another folder, or is `off`. If the folder cannot be
    written, nothing is kept; damaged files in it are ignored. Beyond 1 GiB, the oldest files are
    deleted.
    """
    import keras

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
    except (OSError, RuntimeError) as error:  # the folder cannot be made, or the user has no home
        logger.info("Compiled programs are not kept: %s", error)
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        logger.info("Compiled programs are not kept: cannot write to %s.", folder)
        return
    _keep_of_jax(folder)


def user_folder() -> Path:
    """Return the folder of `keep_in_user_folder`: from the environment, or in the user's cache."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser().absolute()
    return user_cache() / "programs"


def _keep_of_jax(folder: Path) -> None:
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)


def _delete_oldest(folder: Path, most_bytes: int) -> None:
    """Delete the files that were unused for the longest time, until the size limit is met.

    (JAX's own limit fails on folders whose files were kept without a limit.)
    """
    files = []
    for path in folder.rglob("*"):  # XLA keeps programs for GPUs in subfolders.
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
