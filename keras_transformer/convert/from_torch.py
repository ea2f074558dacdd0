"""The state dict of a `torch.nn.Transformer` with embeddings."""

import re
from pathlib import Path

import numpy as np
from keras import ops

from keras_transformer.convert.embedding_tables import Tables
from keras_transformer.convert.hf_checkpoint import find_weights
from keras_transformer.convert.torch_names import bias_of, find_names
from keras_transformer.convert.vocabulary import reserve
from keras_transformer.convert.weight_files import open_weights
from keras_transformer.convert.weights import assign, stack_places
from keras_transformer.data.sentencepiece_model import RESERVED
from keras_transformer.errors import UserError
from keras_transformer.layers import SinePositionEncoding
from keras_transformer.models.encoder_decoder import zero_embeddings
from keras_transformer.models.transformer import Transformer

# Parts of names: as `weights.stack_places` has them, and as PyTorch does.
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
    source,
    num_heads,
    source_embedding=None,
    target_embedding=None,
    output=None,
    positions=None,
    reserved_ids=(0, 1, 2, 3),
    activation="relu",
    normalize_first=False,
    scale_embeddings=True,
    layer_norm_epsilon=1e-5,
    dropout=0.1,
    ignore=(),
):
    """Make a `Transformer` of the weights of a model around `torch.nn.Transformer`.

    ```python
    torch.save(model.state_dict(), "model.pt")
    ours = kt.convert.torch("model.pt", num_heads=8, reserved_ids=(1, 2, 3, 0))
    ```

    Sizes, biases and final normalisations are those of the tensors. Without a table of positions,
    or where the table holds them, positions are the paper's sinusoids (section 3.5).

    Args:
        source: the state dict, of tensors or arrays, or a file of it: `.safetensors`, or what
            `torch.save` writes; or a folder or `hf://user/repository` with one such file. Of a file
            only tensors are read; nothing in it is run.
        num_heads: `nhead` of the `torch.nn.Transformer`, which no tensor tells.
        source_embedding: name of the source's embedding matrix, `(source vocabulary, hidden_dim)`,
            such as `"src_tok_emb.weight"`. Defaults to a guess by names and shapes, as the next
            three do.
        target_embedding: name of the target's embedding matrix, `(vocabulary, hidden_dim)`.
        output: name of the matrix that makes logits, `(vocabulary, hidden_dim)`, which may have a
            bias. Where there is none, the target's embedding matrix makes them (section 3.4).
        positions: name of the table of positions, `(positions, hidden_dim)` and axes of size 1; or
            a pair of names, the source's and the target's.
        reserved_ids: the ids there of the padding, start, end and unknown token. Here they are 0,
            1, 2 and 3, and the other tokens follow in their order.
        activation: of the feed-forward networks: `"relu"`, `"gelu"`, or a function of Keras's.
        normalize_first: `norm_first` of the `torch.nn.Transformer`.
        scale_embeddings: whether the model multiplies embeddings by sqrt(d_model) (section 3.4).
        layer_norm_epsilon: `layer_norm_eps` of the `torch.nn.Transformer`.
        dropout: P_drop, for further training.
        ignore: names of further tensors, on which logits do not depend.

    Returns:
        A `Transformer` that gives the same logits. What it calls padding, start and end token is
        known to all searches.

    Raises:
        UserError: if the file is missing or damaged, it cannot be guessed which tensor is what, or
            there are tensors that a `Transformer` has no place for.
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
    tables_of_positions = _positions([state[name] for name in names.positions])
    if tables_of_positions:
        options |= {"position_encoding": "learned", "max_length": len(tables_of_positions[0])}
    with zero_embeddings():
        model = Transformer(**options, **_sizes(state, names), **tables.hyperparameters())
    assign(stack_places(model), _by_our_names(state, names.prefix))
    tables.assign(model)
    for stack, table in zip((model.encoder, model.decoder), tables_of_positions):
        stack.position_encoding.embeddings.assign(table)
    state.check_all_read(ignore)
    return model


class _StateDict:
    """Tensors by their names, of which it knows which were read.

    Args:
        source: a dict of tensors or arrays, or a file.
    """

    def __init__(self, source):
        if isinstance(source, str | Path):
            file = open_weights(find_weights(source))
            self._names, self._tensor = list(file.names), file.tensor
        elif hasattr(source, "items"):
            self._names, self._tensor = list(source), source.__getitem__
        else:
            raise UserError(
                "Expected a state dict, or the path of a file of one. "
                f"Received: {type(source).__name__}"
            )
        self._read = set()

    def __iter__(self):
        return iter(self._names)

    def __contains__(self, name):
        return name in self._names

    def shape(self, name):
        return tuple(self._tensor(name).shape)

    def __getitem__(self, name):
        """A float32 array."""
        if name not in self:
            raise UserError(f"The state dict has no tensor {name!r}, which its others call for.")
        self._read.add(name)
        tensor = self._tensor(name)
        if hasattr(tensor, "detach"):  # NumPy cannot read PyTorch's bfloat16
            tensor = tensor.detach().float().cpu().numpy()
        return np.asarray(tensor, "float32")

    def check_all_read(self, ignore):
        left = [name for name in self if name not in self._read and name not in ignore]
        if left:
            raise UserError(
                "The state dict has tensors that a `Transformer` has no place for: "
                f"{', '.join(left)}. If the logits do not depend on them, name them in `ignore`."
            )


def _sizes(state, names):
    """Those of the stacks: arguments of `Transformer`."""
    stacks = [f"{names.prefix}{stack}." for stack in ("encoder", "decoder")]
    has_norm = [f"{stack}norm.weight" in state for stack in stacks]
    if has_norm[0] != has_norm[1]:
        raise UserError(
            "A `Transformer` has a normalisation after both stacks or after none. Received a state "
            f"dict with one after the {'encoder' if has_norm[0] else 'decoder'} alone."
        )
    layers = [_num_layers(state, stack) for stack in stacks]
    inner = [state.shape(f"{stack}layers.0.linear1.weight")[0] for stack in stacks]
    return {
        "hidden_dim": state.shape(names.source_embedding)[1],
        "num_layers": layers[0],
        "num_decoder_layers": layers[1] if layers[1] != layers[0] else None,
        "intermediate_dim": inner[0],
        "decoder_intermediate_dim": inner[1] if inner[1] != inner[0] else None,
        "use_bias": f"{stacks[0]}layers.0.self_attn.in_proj_bias" in state,
        "final_norm": has_norm[0],
    }


def _num_layers(state, stack):
    pattern = re.compile(rf"{re.escape(stack)}layers\.(\d+)\.")
    found = [int(match[1]) for name in state if (match := pattern.match(name))]
    if not found:
        raise UserError(f"The state dict has no layers of names that begin with {stack}")
    return max(found) + 1


def _by_our_names(state, prefix):
    """A function from the names of `stack_places` to arrays."""

    def tensor(name):
        theirs = prefix + _their_name(name)
        projection = _PROJECTION.search(theirs)
        if projection:
            part, kind = projection.groups()
            fused = state[f"{theirs[: projection.start()]}.in_proj_{kind}"]
            return np.split(fused, 3)["qkv".index(part)]
        if theirs.endswith(".bias") and theirs not in state:  # a model with `bias=False`
            return np.zeros(state.shape(f"{theirs.removesuffix('bias')}weight")[0], "float32")
        return state[theirs]

    return tensor


def _their_name(name):
    parts = name.split(".")
    return ".".join(_PARTS[parts[0]].get(part, part) for part in parts)


def _tables(state, names, reserved_ids):
    if len(reserved_ids) != len(RESERVED):
        raise UserError(
            "`reserved_ids` must be the four ids of the padding, start, end and unknown token. "
            f"Received: reserved_ids={reserved_ids}"
        )
    pad, start, end, unknown = reserved_ids
    order, source_order = (
        reserve(state.shape(name)[0], start=start, end=end, unknown=unknown, pad=pad)
        for name in (names.target_embedding, names.source_embedding)
    )
    matrices = (
        names.source_embedding,
        names.target_embedding,
        names.output or names.target_embedding,
    )
    bias = bias_of(state, names.output)
    bias = None if bias is None else state[bias]
    return Tables.of_names(state.__getitem__, matrices, order, source_order, bias)


def _positions(tables):
    """Tables `(positions, hidden_dim)`, the source's and the target's; none, if there are none or
    they hold the paper's sinusoids.
    """
    tables = [table.reshape(-1, table.shape[-1]) for table in tables]
    if all(map(_is_sinusoids, tables)):
        return []
    if len(tables[0]) != len(tables[-1]):
        raise UserError(
            "Source and target must have as many positions. Received tables of "
            f"{len(tables[0])} and {len(tables[-1])} rows."
        )
    return [tables[0], tables[-1]]


def _is_sinusoids(table):
    expected = SinePositionEncoding(dtype="float32")(ops.zeros((1, *table.shape)))
    # Angles in float32 are the less exact the larger they are.
    bounds = 1e-6 * (10 + np.arange(len(table)))[:, None]
    return bool(np.all(np.abs(table - ops.convert_to_numpy(expected)[0]) <= bounds))
