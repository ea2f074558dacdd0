"""HuggingFace's BART family: its configurations, and the mapping of its weights to our model.

Marian, M2M-100 and FSMT share one architecture and one set of names. `stack_mappings` returns these
names as data, by which a model is read (`assign`) and written (`foreign_layout`). Converters of
formats with other names translate these names.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.convert.foreign_transformer import ForeignConfig, ForeignTransformer
from keras_transformer.errors import UserError, brief
from keras_transformer.models.transformer import Transformer
from keras_transformer.weights.model_shapes import weight_shapes

if TYPE_CHECKING:
    from keras_transformer.convert.hf_checkpoint import HFCheckpoint

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu", "tanh": "tanh"}
"""Names of activations: in HuggingFace's configurations, and in Keras."""

TABLES = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""Names of the matrix that source and target share, the source's, the target's and the matrix of
logits, in Marian and M2M-100. A file has all of them, or only the matrices that differ."""

TORCH_NORM_EPSILON = 1e-5
"""Epsilon of PyTorch's layer normalization, if no configuration gives another one."""


# Rows of embeddings can be copied, and a matrix can be used for source, target and logits.
_LARGEST_RATIO = 4


class WeightMapping(NamedTuple):
    """One weight of our model and its name in the other format."""

    name: str  # such as "encoder.layers.0.self_attn.q_proj.weight"
    variable: keras.Variable
    is_transposed: bool  # (outputs, inputs) in the other format, (inputs, outputs) in ours
    hidden_axes: tuple[int, ...]  # the variable's axes that are d_model


def hyperparameters(
    folder: "HFCheckpoint", fixed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the hyperparameters that all configurations of the family name alike.

    Args:
        folder: an `HFCheckpoint`.
        fixed: dict of options that must have these values if they are set.

    Returns:
        A dict of arguments of `Transformer`: layers, sizes, heads, dropout, activation and whether
        embeddings are scaled.

    Raises:
        UserError: if an option is missing or its value is not supported.
    """
    for name, value in {"quantization_config": None, **(fixed or {})}.items():
        folder.option(name, value)
    num_heads = folder.size("encoder_attention_heads")
    folder.choice("decoder_attention_heads", {num_heads: None})
    num_layers, decoder_layers = folder.size("encoder_layers"), folder.size("decoder_layers")
    inner, decoder_inner = folder.size("encoder_ffn_dim"), folder.size("decoder_ffn_dim")
    return {
        "num_layers": num_layers,
        "num_decoder_layers": None if decoder_layers == num_layers else decoder_layers,
        "hidden_dim": folder.size("d_model"),
        "intermediate_dim": inner,
        "decoder_intermediate_dim": None if decoder_inner == inner else decoder_inner,
        "num_heads": num_heads,
        "dropout": folder.number("dropout", 0.1),
        "attention_dropout": folder.number("attention_dropout", 0.0),
        "activation": folder.choice("activation_function", ACTIVATIONS),
        "scale_embeddings": folder.option("scale_embedding", False, True),
    }


def shared_table_names(folder: "HFCheckpoint", is_tied: bool) -> tuple[str, str, str]:
    """Return the names of the matrices of source, target and logits if both sides share one.

    Files written before transformers 5 hold one matrix for both sides if the matrix of logits is
    another; since then a file holds both, even if they are one matrix in the model.

    Args:
        folder: an `HFCheckpoint`.
        is_tied: whether the matrix of logits is shared too.

    Returns:
        A tuple of three names.
    """
    shared, source, target, output = TABLES
    if is_tied:
        name = next((name for name in TABLES if name in folder.names), shared)
        return name, name, name
    source, target = (name if name in folder.names else shared for name in (source, target))
    return source, target, output


def is_finite(value: float) -> bool:
    """Return whether a number is finite and, if it is an integer, has a float of about its size."""
    return -sys.float_info.max <= value <= sys.float_info.max


def validate_size(arguments: Mapping[str, Any], num_weights: int) -> None:
    """Compare the size of a model with the arrays of another library's model, before it is built.

    `assign` compares each shape. This check only keeps a model that is many times larger than its
    file from filling the memory.

    Args:
        arguments: dict of the arguments of `Transformer`.
        num_weights: the number of weights in the file.

    Raises:
        UserError: if the model would be much larger.
    """
    weight_shapes(ForeignTransformer, ForeignConfig(**arguments), _LARGEST_RATIO * num_weights)


def stack_mappings(model: Transformer) -> list[WeightMapping]:
    """Return the mappings of all weights of both stacks: the layers and the norms after them.

    Embeddings and the output bias are not included: see `assign_embeddings`.

    The names are
    `{encoder|decoder}.layers.{i}.{self_attn|encoder_attn}.{q|k|v|out}_proj.{weight|bias}`,
    `....{self_attn|encoder_attn|final}_layer_norm.{weight|bias}`, `....{fc1|fc2}.{weight|bias}`,
    and `{encoder|decoder}.layer_norm.{weight|bias}`. Models that only Marian has also have
    `{encoder|decoder}.layernorm_embedding`, `....{self_attn|encoder_attn|final}_pre_layer_norm`,
    `....fc3` and so on, and an SSRU's `decoder.layers.{i}.self_attn.{input|forget}_proj`.

    Args:
        model: a `Transformer`, not quantized.

    Returns:
        A list of `WeightMapping`.
    """
    mappings = []
    for stack in (model.encoder, model.decoder):
        for index, layer in enumerate(stack.layers):
            mappings += _layer_mappings(f"{stack.name}.layers.{index}", layer)
        for name, norm in (
            ("layernorm_embedding", getattr(stack, "embedding_norm", None)),
            ("layer_norm", stack.layer_norm),
        ):
            if norm is not None:
                mappings += _norm_mappings(f"{stack.name}.{name}", norm)
    return mappings


def assign(
    mappings: Iterable[WeightMapping],
    tensor: Callable[[str], np.ndarray],
    order: np.ndarray | None = None,
) -> None:
    """Assign the values of another model to our weights.

    Args:
        mappings: list of `WeightMapping`.
        tensor: function of a name; returns its float array, in the shape of the other format.
        order: int array `(hidden_dim,)`: the position in the other model's d_model of each of our
            positions. Defaults to the same positions.

    Raises:
        UserError: if a weight does not have our shape.
    """
    for mapping in mappings:
        values = tensor(mapping.name)
        values = values.T if mapping.is_transposed else values
        shape = tuple(mapping.variable.shape)
        if values.shape != shape:
            raise UserError(_other_shape(mapping.name, values.shape, shape))
        if order is not None:
            for axis in mapping.hidden_axes:
                values = np.take(values, order, axis)
        mapping.variable.assign(values)


def foreign_layout(mapping: WeightMapping, order: np.ndarray | None = None) -> np.ndarray:
    """Return a weight in the layout of the other format: the inverse of `assign`.

    Args:
        mapping: a `WeightMapping`.
        order: as for `assign`.

    Returns:
        A float32 array.
    """
    values = to_float32(mapping.variable)
    if order is not None:
        for axis in mapping.hidden_axes:
            values = np.take(values, np.argsort(order), axis)
    return np.ascontiguousarray(values.T if mapping.is_transposed else values)


def to_float32(variable: Any) -> np.ndarray:
    """Return a variable or a tensor as a float32 array."""
    return np.asarray(ops.convert_to_numpy(variable), "float32")


def assign_embeddings(
    variable: keras.Variable,
    table: np.ndarray,
    rows: np.ndarray,
    order: np.ndarray | None = None,
    transposed: bool = False,
) -> None:
    """Assign rows of another model's embeddings to an embedding matrix.

    Args:
        variable: a `keras.Variable` `(tokens, hidden_dim)`.
        table: float array `(foreign tokens, hidden_dim)`.
        rows: int array `(tokens,)`: the row of `table` for each of our tokens. Every row of `table`
            is used.
        order: as for `assign`.
        transposed: whether `variable` is `(hidden_dim, tokens)`: the `reverse_embeddings` of an
            untied projection to logits.

    Raises:
        UserError: if the matrix has another `hidden_dim` or another number of rows.
    """
    hidden_dim = variable.shape[0 if transposed else 1]
    tokens = int(rows.max()) + 1
    if table.shape != (tokens, hidden_dim):
        raise UserError(_other_shape("embeddings", table.shape, (tokens, hidden_dim)))
    order = np.arange(hidden_dim) if order is None else order
    # Index both axes at once, which saves a copy of a large matrix.
    values = table[rows[None], order[:, None]] if transposed else table[rows[:, None], order]
    del table  # Free the matrix before a backend copies the values.
    variable.assign(values)


def halves_to_interleaved(hidden_dim: int) -> np.ndarray:
    """Return the `order` for a model whose sinusoids are in halves: all sines, then all cosines.

    Our sinusoids are interleaved (section 3.5). A permutation of d_model in all weights converts
    one form into the other.

    Args:
        hidden_dim: d_model, an even number.

    Returns:
        Int array `(hidden_dim,)`: 0, hidden_dim / 2, 1, hidden_dim / 2 + 1, ...
    """
    return np.arange(hidden_dim).reshape(2, -1).T.ravel()


def _layer_mappings(name: str, layer: Any) -> list[WeightMapping]:
    self_attention = layer.self_attention
    if hasattr(self_attention, "query_dense"):
        mappings = _attention_mappings(f"{name}.self_attn", self_attention)
    else:  # an SSRU
        mappings = []
        for part, dense in zip(("input", "forget"), self_attention.dense_layers):
            part_name = f"{name}.self_attn.{part}_proj"
            mappings += _dense_mappings(part_name, dense, hidden_inputs=True, hidden_outputs=True)
    mappings += _layer_norm_mappings(f"{name}.self_attn", layer, "self_attention")
    if hasattr(layer, "cross_attention"):
        mappings += _attention_mappings(f"{name}.encoder_attn", layer.cross_attention)
        mappings += _layer_norm_mappings(f"{name}.encoder_attn", layer, "cross_attention")
    dense_layers = layer.feed_forward.dense_layers
    for i, dense in enumerate(dense_layers):
        mappings += _dense_mappings(
            f"{name}.fc{i + 1}",
            dense,
            hidden_inputs=i == 0,
            hidden_outputs=i == len(dense_layers) - 1,
        )
    return mappings + _layer_norm_mappings(f"{name}.final", layer, "feed_forward")


def _layer_norm_mappings(name: str, layer: Any, sublayer: str) -> list[WeightMapping]:
    """Map the norms of a sub-layer, of which there are none, one or two."""
    mappings = []
    for kind, attribute in (("layer_norm", "norm"), ("pre_layer_norm", "pre_norm")):
        if (norm := getattr(layer, f"{sublayer}_{attribute}", None)) is not None:
            mappings += _norm_mappings(f"{name}_{kind}", norm)
    return mappings


def _attention_mappings(name: str, attention: Any) -> list[WeightMapping]:
    inputs = {
        "q_proj": attention.query_dense,
        "k_proj": attention.key_dense,
        "v_proj": attention.value_dense,
    }
    mappings = []
    for part, dense in inputs.items():
        mappings += _dense_mappings(f"{name}.{part}", dense, hidden_inputs=True)
    return mappings + _dense_mappings(
        f"{name}.out_proj", attention.output_dense, hidden_outputs=True
    )


def _dense_mappings(
    name: str, dense: Any, hidden_inputs: bool = False, hidden_outputs: bool = False
) -> list[WeightMapping]:
    """Map a dense layer, whose inputs or outputs, or both, have size d_model."""
    axes = (*((0,) if hidden_inputs else ()), *((1,) if hidden_outputs else ()))
    mappings = [WeightMapping(f"{name}.weight", dense.kernel, True, axes)]
    if dense.use_bias:
        axes = (0,) if hidden_outputs else ()
        mappings.append(WeightMapping(f"{name}.bias", dense.bias, False, axes))
    return mappings


def _norm_mappings(name: str, norm: Any) -> list[WeightMapping]:
    return [
        WeightMapping(f"{name}.weight", norm.gamma, False, (0,)),
        WeightMapping(f"{name}.bias", norm.beta, False, (0,)),
    ]


def _other_shape(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> str:
    return (
        f"The weights {brief(name)} do not match the configuration or the vocabulary. Expected the "
        f"shape {tuple(expected)}. Received: {tuple(shape)}"
    )
