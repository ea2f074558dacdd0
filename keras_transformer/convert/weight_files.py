"""Files of weights, of safetensors or PyTorch's, of which nothing is run."""

import contextlib
import zipfile

import numpy as np

from keras_transformer.errors import UserError


def open_weights(path):
    """Open a file of weights: `.safetensors`, or what PyTorch wrote.

    Args:
        path: the file.

    Returns:
        An object with `names`, a list, and `tensor`, a function from a name to an array.

    Raises:
        UserError: if the file is damaged, or holds more than tensors.
    """
    return (_Safetensors if path.suffix == ".safetensors" else _TorchFile)(path)


class _Safetensors:
    def __init__(self, path):
        self.path = path
        with self._opened() as file:
            self.names = list(file.keys())

    def tensor(self, name):
        # Opened anew each time: what was read of a mapped file stays in memory until it is closed.
        with self._opened() as file:
            return file.get_tensor(name)

    @contextlib.contextmanager
    def _opened(self):
        import ml_dtypes  # noqa: F401  It tells NumPy of bfloat16.

        try:
            from safetensors import SafetensorError, safe_open
        except ImportError as error:
            raise UserError(_install("safetensors", self.path, error)) from error
        try:
            with safe_open(self.path, framework="numpy") as file:
                yield file
        except SafetensorError as error:
            raise UserError(f"{self.path} is cut short or damaged: {error}") from error
        except (AttributeError, TypeError) as error:  # it has no such type
            raise UserError(f"{self.path} has weights of a type that NumPy lacks.") from error


class _TorchFile:
    def __init__(self, path):
        self.tensors = load_torch_file(path)
        self.names = list(self.tensors)

    def tensor(self, name):
        # A copy: JAX would keep what it is given, and with it the whole file in memory.
        return np.array(self.tensors[name].detach().float())


def load_torch_file(path):
    """The tensors of a file that PyTorch wrote, mapped into memory where the file allows it.

    Only tensors are read: what else is pickled in the file is refused, and never run.

    Args:
        path: the file.

    Returns:
        A dict of name -> tensor of PyTorch, on the CPU.

    Raises:
        UserError: if PyTorch is not installed, or the file is damaged or holds more than tensors.
    """
    try:
        import torch
    except ImportError as error:
        raise UserError(_install("torch", path, error)) from error
    import pickle

    try:
        # Files of before PyTorch 1.6 are no archives, and cannot be mapped.
        mapped = zipfile.is_zipfile(path)
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} is damaged, or holds more than tensors, which is not read because it could "
            "run code."
        ) from error
    except Exception as error:  # of bytes that are no pickle, whatever they led to
        raise UserError(f"{path} is cut short or damaged: {_first_line(error)}") from error
    if not isinstance(tensors, dict) or not all(
        isinstance(tensor, torch.Tensor) for tensor in tensors.values()
    ):
        raise UserError(f"{path} holds no dict of tensors (a PyTorch `state_dict`).")
    return tensors


def _install(package, path, error):
    return (
        f"{path} is read with the package `{package}`, which cannot be imported here ({error}). "
        f"Install it: pip install {package}"
    )


def _first_line(error):
    line = str(error).strip().partition("\n")[0]
    return line if line.endswith((".", "!")) else f"{line}."
