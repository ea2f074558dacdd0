"""LoRA: adapt a trained model by training a few low-rank matrices (Hu et al., 2021)."""

import functools
import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import h5py
import keras
import numpy as np
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write
from keras_transformer.models.replication import is_in_scope
from keras_transformer.weights.weights_file import datasets, opened, write_checksum

_ENDING, _RANK = ".lora.h5", "rank"
_MATRICES = ("lora_kernel_a", "lora_kernel_b")


def enable_lora(
    model: Any, rank: int, target_layer_names: Sequence[str] = ("query", "value")
) -> None:
    """Implement `Transformer.enable_lora`."""
    if type(rank) is not int or rank < 1:
        raise UserError(f"`rank` must be a positive integer. Received: rank={rank!r}")
    layers = model.dense_layers()
    names = {layer.name for layer in layers}
    if isinstance(target_layer_names, str) or not set(target_layer_names) <= names:
        raise UserError(
            f"`target_layer_names` must be some of {', '.join(sorted(names))}. "
            f"Received: {target_layer_names!r}"
        )
    if any(layer.lora_enabled for layer in layers):
        raise UserError("Cannot enable LoRA: the model has LoRA already.")
    if any(layer.quantization_mode for layer in layers):
        raise UserError(
            "Cannot enable LoRA for a quantized model: its logits have no gradient. Adapt the "
            "model in floats, save it, and quantize the saved model."
        )
    if not is_in_scope(layers[0].kernel):
        raise UserError(
            "`enable_lora` and `load_lora_weights` must be called in the scope of the model's "
            "`tf.distribute` strategy: within `with strategy.scope():`."
        )
    model.trainable = True
    for weight in model.weights:
        weight.trainable = False
    for layer in layers:
        if layer.name in target_layer_names:
            layer.enable_lora(rank)
            layer.load_own_variables = functools.partial(_load_own_variables, layer)
    # Compiled functions use the old list of trainable weights.
    model.train_function = model.test_function = model.predict_function = None


def save_lora_weights(model: Any, filepath: str | os.PathLike) -> None:
    """Implement `Transformer.save_lora_weights`."""
    layers = _adapted_layers(model)
    _validate_ending(filepath)
    if not layers:
        raise UserError("The model does not have LoRA. Call `enable_lora(rank)` first.")
    with atomic_write(filepath) as new:
        with h5py.File(new, "w") as file:
            file.attrs[_RANK] = layers[0].lora_rank
            for layer in layers:
                for name in _MATRICES:
                    file[f"{layer.path}/{name}"] = ops.convert_to_numpy(getattr(layer, name))
        write_checksum(new)


def load_lora_weights(model: Any, filepath: str | os.PathLike) -> None:
    """Implement `Transformer.load_lora_weights`."""
    _validate_ending(filepath)
    rank, matrices = _read(filepath)
    names = {PurePosixPath(path).parent.name for path in matrices}
    layers = [layer for layer in model.dense_layers() if layer.name in names]
    shapes = {path: matrix.shape for path, matrix in matrices.items()}
    adapted = _adapted_layers(model)
    if shapes != _shapes(layers, rank) or adapted not in ([], layers):
        raise UserError(f"The LoRA weights in {filepath} do not fit the layers of the model.")
    if not adapted:
        enable_lora(model, rank, sorted(names))
    elif adapted[0].lora_rank != rank:
        raise UserError(
            f"Expected LoRA weights of the model's rank {adapted[0].lora_rank}. Received: "
            f"{filepath} with rank {rank}"
        )
    for layer in layers:
        for name in _MATRICES:
            getattr(layer, name).assign(matrices[f"{layer.path}/{name}"])


def _adapted_layers(model: Any) -> list[keras.layers.Dense]:
    return [layer for layer in model.dense_layers() if layer.lora_enabled]


def _load_own_variables(layer: Any, store: Any) -> None:
    """Load W, and keep A.

    Keras sets both A and B to zeros, so that neither of them has a gradient.
    """
    matrix = ops.copy(layer.lora_kernel_a)
    type(layer).load_own_variables(layer, store)
    layer.lora_kernel_a.assign(matrix)


def _validate_ending(filepath: str | os.PathLike) -> None:
    if not str(filepath).endswith(_ENDING):
        raise UserError(f"`filepath` must end with {_ENDING}. Received: filepath={filepath}")


def _read(filepath: str | os.PathLike) -> tuple[int, dict[str, np.ndarray]]:
    """Return the rank, and the matrices by path."""
    try:
        with opened(filepath) as file:
            return int(file.attrs[_RANK]), {x: item[()] for x, item in datasets(file).items()}
    except UserError as error:
        raise UserError(f"{filepath} is not a file of LoRA weights, or it is damaged.") from error


def _shapes(layers: Sequence[keras.layers.Dense], rank: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the layers' matrices, by path."""
    return {
        f"{layer.path}/{name}": (rank, size) if name == _MATRICES[1] else (size, rank)
        for layer in layers
        for name, size in zip(_MATRICES, layer.kernel.shape)
    }
