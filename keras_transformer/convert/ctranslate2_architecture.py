"""The architecture of a CTranslate2 model as options of a `Transformer`."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
from keras import ops

from keras_transformer.convert.ctranslate2_files import CTranslate2Files, Variables
from keras_transformer.convert.foreign_layers import ForeignSinePositionEncoding
from keras_transformer.convert.foreign_transformer import marian_wavelength
from keras_transformer.errors import UserError, brief

# CTranslate2's numbers of activations. It also has 1, GELUTanh, and 4, GELUSigmoid.
_ACTIVATIONS = {0: "relu", 2: "silu", 3: "gelu", 5: "tanh", 6: "sigmoid"}
_EPSILON = 1e-5  # CTranslate2's default

# Tolerance for a table of sinusoids, which also covers models in bfloat16.
_CLOSE = 5e-3
_FIRST_POSITIONS = range(3)
# Number of rows of a table of sinusoids, if the other stack has learned positions.
_POSITIONS = 2048

# Names of the supported variables.
_KNOWN = re.compile(
    r"(encoder|decoder)/(embeddings(_0)?/(weight|weight_scale|multiply_by_sqrt_depth)"
    r"|position_encodings/encodings|layer_norm/(gamma|beta)|projection/(weight|weight_scale|bias)"
    r"|layer_\d+/(self_attention|attention|ffn)/(layer_norm/(gamma|beta)"
    r"|linear_[012]/(weight|weight_scale|bias)|queries_scale|head_dim)"
    r"|num_heads|pre_norm|activation|scale_embeddings|start_from_zero_embedding"
    r"|embeddings_merge|alignment_(layer|heads)|alibi_use_positive_positions|scale_alibi)"
    r"|num_heads|pre_norm|activation|embeddings_merge|alignment_(layer|heads)"
    r"|with_(source|target)_(bos|eos)|user_decoder_start_tokens|(unk|bos|eos)_token"
)
# Numbers of axes of variables, by the last part of the name.
_RANKS = {"weight": 2, "encodings": 2, "gamma": 1, "beta": 1, "bias": 1}
# Other variables, which have no effect if they have this value.
_WITHOUT_EFFECT = {
    "alibi": 0,
    "multi_query": 0,
    "multi_query_attention": 0,
    "sliding_window": 0,
    "final_logit_softcapping": 0,
    "scale_outputs": 1,
    "layer_scalar": 1,
}


class Architecture(NamedTuple):
    """The architecture of a CTranslate2 model."""

    hyperparameters: dict[str, Any]
    """Arguments of `Transformer`, except the sizes of the vocabularies."""
    in_halves: bool
    """Whether its sinusoids are in halves: all sines, then all cosines."""
    tables: dict[str, np.ndarray] | None
    """Learned positions, `(max_length, hidden_dim)` for "encoder" and "decoder", or None."""


def architecture(files: CTranslate2Files) -> Architecture:
    """Read the architecture of a model from the shapes and flags of its variables.

    Args:
        files: `CTranslate2Files`.

    Returns:
        An `Architecture`.

    Raises:
        UserError: if `Transformer` does not support a part of the model.
    """
    variables = files.variables
    _validate_names(variables)
    _validate_ranks(variables)
    layers = {stack: _num_layers(variables, stack) for stack in ("encoder", "decoder")}
    inner = {stack: _inner_sizes(variables, stack, n) for stack, n in layers.items()}
    hidden_dim = variables.shape("decoder/embeddings/weight")[1]
    if (num_heads := _common(variables, "num_heads", 8)) < 1:
        _refuse(f"{num_heads} attention heads")
    head_dim = _head_dim(variables, num_heads, layers)
    positions, in_halves, tables = _positions(variables, hidden_dim)
    pre_norm = bool(_common(variables, "pre_norm", 1))
    final_norm = {f"{stack}/layer_norm/gamma" in variables for stack in layers}
    if len(final_norm) > 1:
        _refuse("a normalization after only one of its two stacks")
    epsilon = files.config.get("layer_norm_epsilon")
    hyperparameters = {
        "num_layers": layers["encoder"],
        "num_decoder_layers": _if_other(layers["decoder"], layers["encoder"]),
        "hidden_dim": hidden_dim,
        "intermediate_dim": inner["encoder"],
        "decoder_intermediate_dim": _if_other(inner["decoder"], inner["encoder"]),
        "num_heads": num_heads,
        "key_dim": _if_other(head_dim, hidden_dim / num_heads),
        "activation": _activation(_common(variables, "activation", 0)),
        "normalize_first": pre_norm,
        "final_norm": _if_other(final_norm.pop(), pre_norm),
        "layer_norm_epsilon": _EPSILON if epsilon is None else epsilon,
        "use_bias": any(re.search(r"attention/linear_\d/bias", name) for name in variables),
        "scale_embeddings": _scale_embeddings(variables, hidden_dim),
        **positions,
    }
    return Architecture(hyperparameters, in_halves, tables)


def _validate_names(variables: Variables) -> None:
    """Raise a `UserError` if a variable is not supported."""
    for name in variables:
        leaf = name.rpartition("/")[2]
        if _KNOWN.fullmatch(name):
            continue
        if leaf in _WITHOUT_EFFECT and variables.scalar(name) == _WITHOUT_EFFECT[leaf]:
            continue
        if leaf == "num_heads_kv" and variables.scalar(name) == _common(variables, "num_heads", 8):
            continue
        _refuse(f"the variable {brief(name)}")
    for name in variables:
        if name.endswith("layer_norm/gamma") and name.replace("gamma", "beta") not in variables:
            _refuse(f"a normalization without {brief(name.replace('gamma', 'beta'))}")


def _validate_ranks(variables: Variables) -> None:
    """Raise a `UserError` if a matrix or a vector has another number of axes."""
    for name in variables:
        shape, rank = variables.shape(name), _RANKS.get(name.rpartition("/")[2])
        if rank is not None and len(shape) != rank:
            raise UserError(
                f"The CTranslate2 model is damaged: {brief(name)} must have {rank} axes. "
                f"Received: shape {brief(shape)}"
            )


def _refuse(part: str) -> NoReturn:
    raise UserError(f"The CTranslate2 model has {part}, which Transformer does not support.")


def _if_other(value: Any, usual: Any) -> Any:
    """Return a value, or None if it is the usual one, the option's default."""
    return None if value == usual else value


def _common(variables: Variables, name: str, default: int) -> int:
    """Return a flag or number that both stacks must share."""
    encoder, decoder = (
        variables.scalar(f"{stack}/{name}", default) for stack in ("encoder", "decoder")
    )
    if encoder != decoder:
        _refuse(f"a different {name} in the encoder ({encoder}) and the decoder ({decoder})")
    return encoder


def _num_layers(variables: Variables, stack: str) -> int:
    layers = {m[1] for name in variables if (m := re.match(rf"{stack}/layer_(\d+)/", name))}
    if not layers:
        _refuse(f"no layers in the {stack}")
    return len(layers)


def _inner_sizes(variables: Variables, stack: str, num_layers: int) -> int:
    """Return d_ff of a stack."""
    sizes = [
        variables.shape(f"{stack}/layer_{i}/ffn/linear_0/weight")[0] for i in range(num_layers)
    ]
    if len({*sizes}) > 1:
        _refuse(f"layers of different sizes in the {stack} ({brief(sizes)})")
    return sizes[0]


def _head_dim(variables: Variables, num_heads: int, layers: Mapping[str, int]) -> int:
    """Return d_k of all attentions, which equals d_v."""
    sizes = set()
    for stack, num_layers in layers.items():
        for i in range(num_layers):
            scope = f"{stack}/layer_{i}/self_attention"
            width = variables.shape(f"{scope}/linear_1/weight")[1]
            sizes.add(variables.scalar(f"{scope}/head_dim", width // num_heads))
    if len(sizes) > 1:
        _refuse(f"attention heads of different sizes ({brief(sorted(sizes))})")
    return sizes.pop()


def _activation(number: int) -> str:
    if number not in _ACTIVATIONS:
        _refuse(f"the activation {number}")
    return _ACTIVATIONS[number]


def _scale_embeddings(variables: Variables, hidden_dim: int) -> bool:
    """Return whether the embeddings are multiplied by sqrt(d_model)."""
    scales = []
    for stack in ("encoder", "decoder"):
        name = f"{stack}/scale_embeddings"
        if name not in variables:  # in earlier models
            name = f"{stack}/embeddings/multiply_by_sqrt_depth"
        scale = variables.scalar(name, 1)
        # A flag, or the factor itself.
        is_factor = name in variables and variables.is_float(name)
        scales.append(scale if is_factor else hidden_dim**0.5 if scale else 1.0)
    for usual, is_scaled in ((hidden_dim**0.5, True), (1.0, False)):
        if np.allclose(scales, usual):
            return is_scaled
    _refuse(f"embeddings multiplied by {scales[0]:g} and {scales[1]:g}")


def _positions(
    variables: Variables, hidden_dim: int
) -> tuple[dict[str, Any], bool, dict[str, np.ndarray] | None]:
    """Return the options of the positions, whether they are in halves, and learned tables."""
    tables, found = {}, []
    for stack in ("encoder", "decoder"):
        name = f"{stack}/position_encodings/encodings"
        if name in variables:
            tables[stack] = variables.array(name)
            found.append(_recognize_sinusoids(tables[stack]))
        else:
            found.append(_own_sinusoids(hidden_dim))
    if found[0] == found[1] and found[0] is not None:
        max_wavelength, first_position, in_halves = found[0]
        options = {"max_wavelength": max_wavelength, "first_position": first_position}
        return options, in_halves, None
    for stack in {"encoder", "decoder"} - {*tables}:
        tables[stack] = _sinusoids(_POSITIONS, hidden_dim, *_own_sinusoids(hidden_dim))
    max_length = min(map(len, tables.values()))
    tables = {stack: table[:max_length] for stack, table in tables.items()}
    return {"position_encoding": "learned", "max_length": max_length}, False, tables


def _recognize_sinusoids(table: np.ndarray) -> tuple[float, int, bool] | None:
    """Return the wavelength, first position and order of a table of sinusoids; None for others."""
    length, hidden_dim = table.shape
    if hidden_dim % 2:
        return None
    for max_wavelength in (10000, marian_wavelength(hidden_dim)):
        for first_position in _FIRST_POSITIONS:
            for in_halves in (False, True):
                found = (max_wavelength, first_position, in_halves)
                if np.allclose(table, _sinusoids(length, hidden_dim, *found), 0, _CLOSE):
                    return found
    return None


def _own_sinusoids(hidden_dim: int) -> tuple[float, int, bool]:
    """Return the sinusoids of models without a table: fairseq's, from position 1."""
    return marian_wavelength(hidden_dim), 1, True


def _sinusoids(
    length: int, hidden_dim: int, max_wavelength: float, first_position: int, in_halves: bool
) -> np.ndarray:
    layer = ForeignSinePositionEncoding(max_wavelength, first_position, dtype="float32")
    table = ops.convert_to_numpy(layer(ops.zeros((1, length, hidden_dim))))[0]
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1) if in_halves else table
