"""Converter of the state dict of a `torch.nn.Transformer` with embeddings."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.convert.embedding_tables import Tables, reserve
from keras_transformer.convert.hf_checkpoint import find_weights, open_weights
from keras_transformer.convert.weights import assign, check_size, stack_mappings
from keras_transformer.data.sentencepiece_model import RESERVED
from keras_transformer.errors import UserError, brief
from keras_transformer.layers import SinePositionEncoding
from keras_transformer.models.encoder_decoder import zero_embeddings
from keras_transformer.models.transformer import Transformer

# Parts of names: in `weights.stack_mappings`, and in PyTorch.
_SHARED = {"fc1": "linear1", "fc2": "linear2", "layer_norm": "norm"}
_PARTS = {
    "encoder": {**_SHARED, "self_attn_layer_norm": "norm1", "final_layer_norm": "norm2"},
    "decoder": {
        **_SHARED,
        "encoder_attn": "multihead_attn",
        "self_attn_layer_norm": "norm1",
        "encoder_attn_layer_norm": "norm2",
        "final_layer_norm": "norm3",
    },
}
_PROJECTION = re.compile(r"\.([qkv])_proj\.(weight|bias)$")


def torch(
    source: str | Path | Mapping[str, Any],
    num_heads: int,
    source_embedding: str | None = None,
    target_embedding: str | None = None,
    output: str | None = None,
    positions: str | Sequence[str] | None = None,
    reserved_ids: Sequence[int] = (0, 1, 2, 3),
    activation: str | Callable[..., Any] = "relu",
    normalize_first: bool = False,
    scale_embeddings: bool = True,
    layer_norm_epsilon: float = 1e-5,
    dropout: float = 0.1,
    ignore: Iterable[str] = (),
) -> Transformer:
    """Convert the weights of a model around `torch.nn.Transformer`.

    ```python
    torch.save(model.state_dict(), "model.pt")
    ours = kt.convert.torch("model.pt", num_heads=8, reserved_ids=(1, 2, 3, 0))
    ```

    Sizes, biases and final normalizations follow from the tensors. Without a table of positions, or
    if the table holds them, positions are the paper's sinusoids (section 3.5).

    Args:
        source: the state dict, of tensors or arrays; or a file of it: `.safetensors`, or the output
            of `torch.save`; or a folder or `hf://user/repository` with one such file. Only tensors
            are read from a file; no code in it is run.
        num_heads: `nhead` of the `torch.nn.Transformer`, which no tensor shows.
        source_embedding: name of the source's embedding matrix, `(source vocabulary, hidden_dim)`,
            such as `"src_tok_emb.weight"`. Defaults to a guess from names and shapes, as for the
            next three arguments.
        target_embedding: name of the target's embedding matrix, `(vocabulary, hidden_dim)`.
        output: name of the matrix that projects to logits, `(vocabulary, hidden_dim)`, which may
            have a bias. Without one, the target's embedding matrix is used (section 3.4).
        positions: name of the table of positions, `(positions, hidden_dim)` and axes of size 1; or
            a pair of names, the source's and the target's.
        reserved_ids: the foreign ids of the padding, start, end and unknown token. Our ids are 0,
            1, 2 and 3, and the other tokens follow in their order.
        activation: activation of the feed-forward networks: `"relu"`, `"gelu"`, or a function of
            Keras.
        normalize_first: `norm_first` of the `torch.nn.Transformer`.
        scale_embeddings: whether the model multiplies embeddings by sqrt(d_model) (section 3.4).
        layer_norm_epsilon: `layer_norm_eps` of the `torch.nn.Transformer`.
        dropout: P_drop, for further training.
        ignore: names of further tensors on which logits do not depend.

    Returns:
        A `Transformer` with the same logits. All searches know its padding, start and end token.

    Raises:
        UserError: if the file is missing or damaged, the role of a tensor cannot be guessed, or a
            tensor is not supported by `Transformer`.
    """
    positions = (positions,) if isinstance(positions, str) else positions
    state = _StateDict(source)
    names = find_names(state, source_embedding, target_embedding, output, positions)
    options = {
        "num_heads": num_heads,
        "activation": activation,
        "normalize_first": normalize_first,
        "scale_embeddings": scale_embeddings,
        "layer_norm_epsilon": layer_norm_epsilon,
        "dropout": dropout,
    }
    tables = _tables(state, names, reserved_ids)
    hidden_dim = state.matrix_shape(names.source_embedding)[1]
    tables_of_positions = _positions([state[name] for name in names.positions], hidden_dim)
    if tables_of_positions:
        options |= {"position_encoding": "learned", "max_length": len(tables_of_positions[0])}
    options |= {**_sizes(state, names), **tables.hyperparameters()}
    check_size(options, sum(math.prod(state.shape(name)) for name in state))
    with zero_embeddings():
        model = Transformer(**options)
    assign(stack_mappings(model), _by_our_names(state, names.prefix))
    tables.assign(model)
    for stack, table in zip((model.encoder, model.decoder), tables_of_positions):
        stack.position_encoding.embeddings.assign(table)
    state.check_all_read(ignore)
    return model


class _StateDict:
    """Tensors by name, with a record of the tensors that were read.

    Args:
        source: a dict of tensors or arrays, or a file.
    """

    def __init__(self, source: str | Path | Mapping[str, Any]):
        self._tensor: Callable[[str], Any]
        self._shape: Callable[[str], tuple[int, ...]]
        if isinstance(source, str | Path):
            file = open_weights(find_weights(source))
            self._names, self._tensor, self._shape = list(file.names), file.tensor, file.shape
        elif hasattr(source, "items"):
            self._names, self._tensor = list(source), source.__getitem__
            self._shape = lambda name: tuple(source[name].shape)
        else:
            raise UserError(
                "Expected a state dict, or the path of a file of one. "
                f"Received: {type(source).__name__}"
            )
        self._read: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self:
            raise UserError(f"The state dict has no tensor {brief(name)}.")
        return self._shape(name)

    def matrix_shape(self, name: str) -> tuple[int, int]:
        """Return the shape of a tensor, which must be a matrix."""
        shape = self.shape(name)
        if len(shape) != 2:
            raise UserError(f"The tensor {brief(name)} must be a matrix. Received: shape {shape}")
        return shape[0], shape[1]

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a float32 array."""
        if name not in self:
            raise UserError(
                f"The state dict has no tensor {brief(name)}, which its others require."
            )
        self._read.add(name)
        tensor = self._tensor(name)
        if hasattr(tensor, "detach"):  # NumPy cannot read PyTorch's bfloat16
            tensor = tensor.detach().float().cpu().numpy()
        return np.asarray(tensor, "float32")

    def check_all_read(self, ignore: Iterable[str]) -> None:
        ignored = {*ignore}
        left = [name for name in self if name not in self._read and name not in ignored]
        if left:
            raise UserError(
                "The state dict has tensors that `Transformer` does not support: "
                f"{', '.join(left)}. If the logits do not depend on them, name them in `ignore`."
            )


# Names of tensors

_FIRST_LAYER = "encoder.layers.0.self_attn.in_proj_weight"


def _words(*words: str) -> re.Pattern[str]:
    """Return a pattern of names that have one of these words between dots and underscores."""
    return re.compile(rf"(?:^|[._])(?:{'|'.join(words)})(?=$|[._\d])", re.IGNORECASE)


_OF_SOURCE = _words("src", "source", "enc", "encoder", "input", "in")
_OF_TARGET = _words("tgt", "trg", "target", "dec", "decoder")
_OF_POSITIONS = _words("pe", "pos", "position", "positions", "positional")
_OF_OUTPUT = _words("generator", "out", "output", "head", "proj", "projection", "fc", "logits")


class Names(NamedTuple):
    """The names of the tensors around the `torch.nn.Transformer`."""

    prefix: str  # of the names of the `torch.nn.Transformer` itself
    source_embedding: str
    target_embedding: str
    output: str | None  # None: the target's embedding projects to logits too
    positions: tuple[str, ...]  # no table, one for both sides, or the source's and the target's


def find_names(
    state: _StateDict,
    source_embedding: str | None = None,
    target_embedding: str | None = None,
    output: str | None = None,
    positions: Sequence[str] | None = None,
) -> Names:
    """Find the names of the tensors around the `torch.nn.Transformer`.

    Args:
        state: the `_StateDict`.
        source_embedding: name of the source's embedding matrix, or None to guess.
        target_embedding: name of the target's embedding matrix, or None to guess.
        output: name of the matrix that projects to logits, or None to guess.
        positions: names of tables of positions, or None to guess.

    Returns:
        `Names`.

    Raises:
        UserError: if there is no such tensor, or a name cannot be guessed.
    """
    prefix = _prefix(state)
    hidden_dim = state.matrix_shape(prefix + _FIRST_LAYER)[1]
    given = [source_embedding, target_embedding, output, *(positions or ())]
    for name in given:
        if name is not None and name not in state:
            raise UserError(
                f"The state dict has no tensor {brief(name)}. It has, apart from the "
                f"Transformer's: {_list(_others(state, prefix))}"
            )
    others = [name for name in _others(state, prefix) if name not in given]
    if positions is None:
        positions = _guess_positions(others)
        others = [name for name in others if name not in positions]
    matrices = [name for name in others if _is_matrix(state.shape(name), hidden_dim)]
    if output is None:
        output = _guess_output(state, matrices)
        matrices = [name for name in matrices if name != output]
    source, target = _embeddings(matrices, source_embedding, target_embedding)
    return Names(prefix, source, target, output, tuple(positions))


def _prefix(state: _StateDict) -> str:
    found = [name.removesuffix(_FIRST_LAYER) for name in state if name.endswith(_FIRST_LAYER)]
    if len(found) != 1:
        raise UserError(
            "Expected the state dict of a model with one `torch.nn.Transformer`. Received a state "
            f"dict in which {len(found)} tensors have names that end with {_FIRST_LAYER}"
        )
    return found[0]


def _others(state: _StateDict, prefix: str) -> list[str]:
    stacks = (f"{prefix}encoder.", f"{prefix}decoder.")
    of_stack = re.compile(r"layers\.\d+\.|norm\.")
    return [
        name
        for name in state
        if not any(name.startswith(s) and of_stack.match(name, len(s)) for s in stacks)
    ]


def _is_matrix(shape: tuple[int, ...], hidden_dim: int) -> bool:
    return len(shape) == 2 and shape[1] == hidden_dim


def _guess_positions(names: Iterable[str]) -> list[str]:
    found = [name for name in names if _OF_POSITIONS.search(name)]
    if len(found) < 2:
        return found
    return [
        _only(found, of_side, f"the {side}'s positions", "positions")
        for side, of_side in (("source", _OF_SOURCE), ("target", _OF_TARGET))
    ]


def _guess_output(state: _StateDict, matrices: Iterable[str]) -> str | None:
    """Return the matrix with a bias, or the matrix with a typical name."""
    found = [name for name in matrices if bias_name(state, name)]
    found = found or [name for name in matrices if _OF_OUTPUT.search(name)]
    if len(found) > 1:
        raise _unclear(found, "projects to the logits", "output")
    return found[0] if found else None


def bias_name(state: _StateDict, name: str | None) -> str | None:
    """Return the name of the bias that belongs to a matrix, or None."""
    bias = f"{name.removesuffix('weight')}bias" if name and name.endswith("weight") else None
    return bias if bias is not None and bias in state else None


def _embeddings(matrices: Sequence[str], source: str | None, target: str | None) -> tuple[str, str]:
    """Return the names of both embeddings, which are equal if there is one matrix."""
    if source is None and target is None and len(matrices) == 1:
        return matrices[0], matrices[0]
    given = source or target
    if given is not None:
        # Of two matrices, take the one that is not given; of one, take it twice.
        left = matrices or [given]
        if len(left) == 1:
            return source or left[0], target or left[0]
    if source is None:
        source = _only(matrices, _OF_SOURCE, "the source's embedding", "source_embedding")
    if target is None:
        target = _only(matrices, _OF_TARGET, "the target's embedding", "target_embedding")
    return source, target


def _only(names: Sequence[str], pattern: re.Pattern[str], what: str, argument: str) -> str:
    found = [name for name in names if pattern.search(name)]
    if len(found) != 1:
        raise _unclear(names, f"is {what}", argument)
    return found[0]


def _unclear(names: Iterable[str], what: str, argument: str) -> UserError:
    return UserError(
        f"Cannot guess which tensor {what}. Name it with `{argument}`. The state dict has: "
        f"{_list(names)}"
    )


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


# Sizes and weights


def _sizes(state: _StateDict, names: Names) -> dict[str, Any]:
    """Return the sizes of the stacks as arguments of `Transformer`."""
    stacks = [f"{names.prefix}{stack}." for stack in ("encoder", "decoder")]
    has_norm = [f"{stack}norm.weight" in state for stack in stacks]
    if has_norm[0] != has_norm[1]:
        raise UserError(
            "`Transformer` has a normalization after both stacks or after none. Received a state "
            f"dict with one after the {'encoder' if has_norm[0] else 'decoder'} only."
        )
    layers = [_num_layers(state, stack) for stack in stacks]
    inner = [state.matrix_shape(f"{stack}layers.0.linear1.weight")[0] for stack in stacks]
    return {
        "hidden_dim": state.matrix_shape(names.source_embedding)[1],
        "num_layers": layers[0],
        "num_decoder_layers": layers[1] if layers[1] != layers[0] else None,
        "intermediate_dim": inner[0],
        "decoder_intermediate_dim": inner[1] if inner[1] != inner[0] else None,
        "use_bias": f"{stacks[0]}layers.0.self_attn.in_proj_bias" in state,
        "final_norm": has_norm[0],
    }


def _num_layers(state: _StateDict, stack: str) -> int:
    pattern = re.compile(rf"{re.escape(stack)}layers\.(\d+)\.")
    found = [int(match[1]) for name in state if (match := pattern.match(name))]
    if not found:
        raise UserError(f"The state dict has no layers with names that begin with {stack}")
    return max(found) + 1


def _by_our_names(state: _StateDict, prefix: str) -> Callable[[str], np.ndarray]:
    """Return a function from the names of `stack_mappings` to arrays."""

    def tensor(name: str) -> np.ndarray:
        theirs = prefix + _their_name(name)
        projection = _PROJECTION.search(theirs)
        if projection:
            part, kind = projection.groups()
            fused = state[f"{theirs[: projection.start()]}.in_proj_{kind}"]
            if not fused.ndim or len(fused) % 3:
                raise UserError(
                    f"The tensor of {brief(theirs)} must have three parts. Received: shape "
                    f"{fused.shape}"
                )
            return np.split(fused, 3)["qkv".index(part)]
        if theirs.endswith(".bias") and theirs not in state:  # a model with `bias=False`
            size, *_ = (*state.shape(f"{theirs.removesuffix('bias')}weight"), 0)
            return np.zeros(size, "float32")
        return state[theirs]

    return tensor


def _their_name(name: str) -> str:
    parts = name.split(".")
    return ".".join(_PARTS[parts[0]].get(part, part) for part in parts)


def _tables(state: _StateDict, names: Names, reserved_ids: Sequence[int]) -> Tables:
    if len(reserved_ids) != len(RESERVED):
        raise UserError(
            "`reserved_ids` must be the four ids of the padding, start, end and unknown token. "
            f"Received: reserved_ids={reserved_ids}"
        )
    pad, start, end, unknown = reserved_ids
    order, source_order = (
        reserve(state.matrix_shape(name)[0], start=start, end=end, unknown=unknown, pad=pad)
        for name in (names.target_embedding, names.source_embedding)
    )
    matrices = (
        names.source_embedding,
        names.target_embedding,
        names.output or names.target_embedding,
    )
    name_of_bias = bias_name(state, names.output)
    bias = None if name_of_bias is None else state[name_of_bias]
    rows = state.matrix_shape(names.target_embedding)[0]
    if bias is not None and bias.shape != (rows,):
        raise UserError(
            f"{brief(name_of_bias)} and the target's embeddings do not match. Expected the shape "
            f"({rows},). Received: {bias.shape}"
        )
    return Tables.of_names(state.__getitem__, matrices, order, source_order, bias)


def _positions(tables: Sequence[np.ndarray], hidden_dim: int) -> list[np.ndarray]:
    """Return the source's and the target's table `(positions, hidden_dim)`; no tables if there are
    none or they hold the paper's sinusoids.
    """
    for table in tables:
        if table.shape[-1:] != (hidden_dim,) or not table.size:
            raise UserError(
                f"A table of positions must be (positions, {hidden_dim}), with axes of size 1. "
                f"Received: shape {table.shape}"
            )
    tables = [table.reshape(-1, table.shape[-1]) for table in tables]
    if all(map(_is_sinusoids, tables)):
        return []
    if len(tables[0]) != len(tables[-1]):
        raise UserError(
            "Source and target must have the same number of positions. Received tables of "
            f"{len(tables[0])} and {len(tables[-1])} rows."
        )
    return [tables[0], tables[-1]]


def _is_sinusoids(table: np.ndarray) -> bool:
    expected = SinePositionEncoding(dtype="float32")(ops.zeros((1, *table.shape)))
    # The larger an angle, the larger is its rounding error in float32.
    bounds = 1e-6 * (10 + np.arange(len(table)))[:, None]
    return bool(np.all(np.abs(table - ops.convert_to_numpy(expected)[0]) <= bounds))
