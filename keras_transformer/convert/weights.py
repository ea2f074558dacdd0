"""HuggingFace's BART family: its configurations, and where its weights lie in our model.

Marian, M2M-100 and FSMT have one architecture and one set of names. `stack_places` gives these as
data, by which a model is read (`assign`) and written (`foreign_array`). A format of other names is
read by a function that takes these.
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.errors import UserError

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu", "tanh": "tanh"}
"""Names of activations: in HuggingFace's configurations, and in Keras."""

TABLES = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""Names of the matrix that source and target share, of the source's, the target's and that of
logits, in Marian and M2M-100. A file may have each of them, or those that differ."""

TORCH_NORM_EPSILON = 1e-5
"""That of PyTorch's layer normalisations, where no configuration says another."""


class Place(NamedTuple):
    """A weight of ours and its name there."""

    name: str  # such as "encoder.layers.0.self_attn.q_proj.weight"
    variable: Any  # a `keras.Variable`
    is_transposed: bool  # there (outputs, inputs), here (inputs, outputs)
    hidden_axes: tuple[int, ...]  # the variable's axes that are d_model


def hyperparameters(folder, fixed=None):
    """The hyperparameters that the family's configurations name alike.

    Args:
        folder: a `ForeignFolder`.
        fixed: dict of options that must have these values, if they are there.

    Returns:
        A dict of arguments of `Transformer`: layers, sizes, heads, dropout, activation and whether
        embeddings are scaled.

    Raises:
        UserError: if an option is missing, or is not there in this package.
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


def names_of_shared(folder, is_tied):
    """The names of the matrices of source, target and logits, where both sides share one.

    Versions before transformers 5 had one for both if that of logits was another; since then they
    are apart in the file, if not in the model.

    Args:
        folder: a `ForeignFolder`.
        is_tied: whether that of logits is the same too.

    Returns:
        A tuple of three names.
    """
    shared, source, target, output = TABLES
    if is_tied:
        return 3 * (next((name for name in TABLES if name in folder.names), shared),)
    source, target = (name if name in folder.names else shared for name in (source, target))
    return source, target, output


def stack_places(model):
    """The places of all weights of both stacks: layers, and norms after them where there are.

    Embeddings and the output bias are not among them: see `assign_embeddings`.

    The names are
    `{encoder|decoder}.layers.{i}.{self_attn|encoder_attn}.{q|k|v|out}_proj.{weight|bias}`,
    `....{self_attn|encoder_attn|final}_layer_norm.{weight|bias}`, `....{fc1|fc2}.{weight|bias}`,
    and `{encoder|decoder}.layer_norm.{weight|bias}`.

    Args:
        model: a `Transformer`, not quantized.

    Returns:
        A list of `Place`.
    """
    places = []
    for stack in (model.encoder, model.decoder):
        for index, layer in enumerate(stack.layers):
            places += _layer_places(f"{stack.name}.layers.{index}", layer)
        if stack.layer_norm is not None:
            places += _norm_places(f"{stack.name}.layer_norm", stack.layer_norm)
    return places


def assign(places, tensor, order=None):
    """Give our weights the values of another model's.

    Args:
        places: list of `Place`.
        tensor: function of a name; returns its float array, of the shape that it has there.
        order: int array `(hidden_dim,)`: which of their positions of d_model each of ours is.
            Defaults to the same.

    Raises:
        UserError: if one has another shape than ours.
    """
    for place in places:
        values = tensor(place.name)
        values = values.T if place.is_transposed else values
        shape = tuple(place.variable.shape)
        if values.shape != shape:
            raise UserError(_other_shape(place.name, values.shape, shape))
        for axis in place.hidden_axes if order is not None else ():
            values = np.take(values, order, axis)
        place.variable.assign(values)


def foreign_array(place, order=None):
    """The inverse of `assign` for one place: float32 array, as it is there.

    Args:
        place: a `Place`.
        order: as for `assign`.

    Returns:
        A float32 array.
    """
    values = np.asarray(ops.convert_to_numpy(place.variable), "float32")
    for axis in place.hidden_axes if order is not None else ():
        values = np.take(values, np.argsort(order), axis)
    return np.ascontiguousarray(values.T if place.is_transposed else values)


def assign_embeddings(variable, table, rows, order=None, transposed=False):
    """Give an embedding matrix some rows of another's.

    Args:
        variable: a `keras.Variable` `(tokens, hidden_dim)`.
        table: float array `(their tokens, hidden_dim)`.
        rows: int array `(tokens,)`: which of theirs each of our tokens is; each of theirs is one.
        order: as for `assign`.
        transposed: whether `variable` is `(hidden_dim, tokens)`: the `reverse_embeddings` of a
            projection to logits that is a matrix of its own.

    Raises:
        UserError: if the matrix has another `hidden_dim`, or fewer or more rows.
    """
    hidden_dim = variable.shape[0 if transposed else 1]
    tokens = int(rows.max()) + 1
    if table.shape != (tokens, hidden_dim):
        raise UserError(_other_shape("embeddings", table.shape, (tokens, hidden_dim)))
    order = np.arange(hidden_dim) if order is None else order
    # Both at once: a large matrix is copied one time less.
    values = table[rows[None], order[:, None]] if transposed else table[rows[:, None], order]
    del table  # before a backend copies the other, if this was the last that held it
    variable.assign(values)


def halves_to_interleaved(hidden_dim):
    """The `order` of a model whose sinusoids are in halves: all sines, then all cosines.

    Ours are interleaved (section 3.5). A permutation of d_model in all weights makes one the other.

    Args:
        hidden_dim: d_model, an even number.

    Returns:
        Int array `(hidden_dim,)`: 0, hidden_dim / 2, 1, hidden_dim / 2 + 1, ...
    """
    return np.arange(hidden_dim).reshape(2, -1).T.ravel()


def _layer_places(name, layer):
    places = _attention_places(f"{name}.self_attn", layer.self_attention)
    places += _norm_places(f"{name}.self_attn_layer_norm", layer.self_attention_norm)
    if hasattr(layer, "cross_attention"):
        places += _attention_places(f"{name}.encoder_attn", layer.cross_attention)
        places += _norm_places(f"{name}.encoder_attn_layer_norm", layer.cross_attention_norm)
    feed_forward = layer.feed_forward
    places += _dense_places(f"{name}.fc1", feed_forward.intermediate_dense, inputs_are_hidden=True)
    places += _dense_places(f"{name}.fc2", feed_forward.output_dense, inputs_are_hidden=False)
    return places + _norm_places(f"{name}.final_layer_norm", layer.feed_forward_norm)


def _attention_places(name, attention):
    inputs = {
        "q_proj": attention.query_dense,
        "k_proj": attention.key_dense,
        "v_proj": attention.value_dense,
    }
    places = []
    for part, dense in inputs.items():
        places += _dense_places(f"{name}.{part}", dense, inputs_are_hidden=True)
    return places + _dense_places(
        f"{name}.out_proj", attention.output_dense, inputs_are_hidden=False
    )


def _dense_places(name, dense, inputs_are_hidden):
    """Either inputs or outputs are d_model, in a Transformer."""
    places = [Place(f"{name}.weight", dense.kernel, True, (0,) if inputs_are_hidden else (1,))]
    if dense.use_bias:
        places.append(Place(f"{name}.bias", dense.bias, False, () if inputs_are_hidden else (0,)))
    return places


def _norm_places(name, norm):
    return [
        Place(f"{name}.weight", norm.gamma, False, (0,)),
        Place(f"{name}.bias", norm.beta, False, (0,)),
    ]


def _other_shape(name, shape, expected):
    return (
        f"The weights {name!r} have the shape {tuple(shape)}, and not {tuple(expected)} as the "
        "configuration or the vocabulary says: they do not belong together."
    )
