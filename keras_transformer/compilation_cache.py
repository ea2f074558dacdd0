"""Programs compiled once and kept on disk, for the next process that needs the same."""

import os
from pathlib import Path

import keras

from keras_transformer.errors import UserError

# A program that compiles faster than this is not worth a file.
_LEAST_SECONDS = 0.5


def keep_compiled_programs(folder):
    """Let the backend keep what it compiles in a folder, and look there first.

    Call it before anything is compiled. JAX keeps all its programs; TensorFlow those of XLA
    (`jit_compile=True`: training), which it still traces. Nothing is kept on PyTorch, where models
    run as they are. A program is found again by a hash of what it computes and for which machine,
    so the folder may be shared by all runs, and deleted at any time.

    Args:
        folder: path of the folder; it is made if it is not there.

    Raises:
        UserError: if the path is that of a file.
    """
    folder = Path(folder).absolute()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"The compilation cache must be a folder. {folder} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    if keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)
    elif keras.backend.backend() == "tensorflow":
        # Read when TensorFlow first uses XLA.
        flag = f"--tf_xla_persistent_cache_directory={folder}"
        os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {flag}".strip()
