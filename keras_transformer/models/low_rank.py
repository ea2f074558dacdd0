"""LoRA: adapt a trained model by training a few low-rank matrices (Hu et al., 2021)."""

import functools
import os
from collections.abc import Sequence
from pathlib import PurePosixPath

import h5py
import keras
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write
from keras_transformer.training.checkpoints import DAMAGE, check_seal, seal
from keras_transformer.training.replication import is_in_scope

_ENDING, _RANK = ".lora.h5", "rank"
_MATRICES = ("lora_kernel_a", "lora_kernel_b")


class LowRankAdapters(keras.Model):
    """A model that can be adapted with low-rank matrices.

    A derived class has `dense_layers()`, which returns a list of the `Dense` layers that LoRA can
    adapt.
    """

    def enable_lora(
        self, rank: int, target_layer_names: Sequence[str] = ("query", "value")
    ) -> None:
        """Freeze the model, and add trainable low-rank matrices to some of its layers.

        ```
        x W  becomes  x (W + A B)
        ```

        with the frozen W `(inputs, outputs)`, and the trainable A `(inputs, rank)` and B `(rank,
        outputs)`. B begins with zeros, so the outputs do not change at first. Afterwards compile
        the model, because its trainable weights have changed, and train it as usual.

        `save_weights`, `save` and presets save the sums `W + A B` in place of W: a plain model
        without LoRA. Weights that are loaded into the model become W; A is kept, and B is set to
        zeros. `save_lora_weights` saves the matrices alone. To quantize the adapted model, save it,
        load it, and quantize the loaded model.

        Args:
            rank: the number of columns of A.
            target_layer_names: names of the layers to adapt in each attention and feed-forward
                network: `"query"`, `"key"`, `"value"`, `"output"` or `"intermediate"`.

        Raises:
            UserError: if an argument is not valid, the model has LoRA already, is quantized, or
                was made in the scope of a `tf.distribute` strategy that is not in scope.
        """
        if type(rank) is not int or rank < 1:
            raise UserError(f"`rank` must be a positive integer. Received: rank={rank}")
        layers = self.dense_layers()
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
        self.trainable = True
        for weight in self.weights:
            weight.trainable = False
        for layer in layers:
            if layer.name in target_layer_names:
                layer.enable_lora(rank)
                layer.load_own_variables = functools.partial(_load_own_variables, layer)
        # Compiled functions use the old list of trainable weights.
        self.train_function = self.test_function = self.predict_function = None

    def save_lora_weights(self, filepath: str | os.PathLike) -> None:
        """Write the matrices A and B alone.

        Args:
            filepath: the file to write, whose name ends with `.lora.h5`.

        Raises:
            UserError: if the name has another ending, or the model does not have LoRA.
        """
        layers = _adapted_layers(self)
        _check_ending(filepath)
        if not layers:
            raise UserError("The model does not have LoRA. Call `enable_lora(rank)` first.")
        with atomic_write(filepath) as new:
            with h5py.File(new, "w") as file:
                file.attrs[_RANK] = layers[0].lora_rank
                for layer in layers:
                    for name in _MATRICES:
                        file[f"{layer.path}/{name}"] = ops.convert_to_numpy(getattr(layer, name))
            seal(new)

    def load_lora_weights(self, filepath: str | os.PathLike) -> None:
        """Load the matrices A and B, and enable LoRA if the model does not have it.

        The model must have the weights W that the matrices were trained with.

        Args:
            filepath: a file that `save_lora_weights` wrote.

        Raises:
            UserError: if the file is damaged, or was saved by a model of another shape or rank.
        """
        _check_ending(filepath)
        rank, matrices = _read(filepath)
        names = {PurePosixPath(path).parent.name for path in matrices}
        layers = [layer for layer in self.dense_layers() if layer.name in names]
        shapes = {path: matrix.shape for path, matrix in matrices.items()}
        adapted = _adapted_layers(self)
        if shapes != _shapes(layers, rank) or adapted not in ([], layers):
            raise UserError(f"The LoRA weights in {filepath} do not fit the layers of the model.")
        if not adapted:
            self.enable_lora(rank, sorted(names))
        elif adapted[0].lora_rank != rank:
            raise UserError(
                f"Expected LoRA weights of the model's rank {adapted[0].lora_rank}. Received: "
                f"{filepath} with rank {rank}"
            )
        for layer in layers:
            for name in _MATRICES:
                getattr(layer, name).assign(matrices[f"{layer.path}/{name}"])


def _adapted_layers(model):
    return [layer for layer in model.dense_layers() if layer.lora_enabled]


def _load_own_variables(layer, store):
    """Load W, and keep A.

    Keras sets both A and B to zeros, so that neither of them has a gradient.
    """
    matrix = ops.copy(layer.lora_kernel_a)
    type(layer).load_own_variables(layer, store)
    layer.lora_kernel_a.assign(matrix)


def _check_ending(filepath):
    if not str(filepath).endswith(_ENDING):
        raise UserError(f"`filepath` must end with {_ENDING}. Received: filepath={filepath}")


def _read(filepath):
    """Return the rank, and the matrices by path."""
    matrices = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            matrices[name] = item[()]

    try:
        check_seal(filepath)
        with h5py.File(filepath) as file:
            file.visititems(keep)
            return int(file.attrs[_RANK]), matrices
    except DAMAGE as error:
        raise UserError(f"{filepath} is not a file of LoRA weights, or it is damaged.") from error


def _shapes(layers, rank):
    """Return the shapes of the layers' matrices, by path."""
    shapes = {}
    for layer in layers:
        inputs, outputs = layer.kernel.shape
        for name, shape in zip(_MATRICES, ((inputs, rank), (rank, outputs))):
            shapes[f"{layer.path}/{name}"] = shape
    return shapes
