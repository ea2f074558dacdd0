"""Which tensors of a state dict are what, in a model made with `torch.nn.Transformer`."""

import re
from typing import NamedTuple

from keras_transformer.errors import UserError

_FIRST_LAYER = "encoder.layers.0.self_attn.in_proj_weight"


def _words(*words):
    """A pattern of names that have one of these words between dots and underscores."""
    return re.compile(rf"(?:^|[._])(?:{'|'.join(words)})(?=$|[._\d])", re.IGNORECASE)


_OF_SOURCE = _words("src", "source", "enc", "encoder", "input", "in")
_OF_TARGET = _words("tgt", "trg", "target", "dec", "decoder")
_OF_POSITIONS = _words("pe", "pos", "position", "positions", "positional")
_OF_OUTPUT = _words("generator", "out", "output", "head", "proj", "projection", "fc", "logits")


class Names(NamedTuple):
    """The names of what a model has around its `torch.nn.Transformer`."""

    prefix: str  # of the names of the `torch.nn.Transformer` itself
    source_embedding: str
    target_embedding: str
    output: str | None  # None: the target's embedding projects to logits too
    positions: tuple[str, ...]  # no table, one for both, or the source's and the target's


def find_names(state, source_embedding=None, target_embedding=None, output=None, positions=None):
    """Take the names that are given, and guess the others.

    Args:
        state: `StateDict`.
        source_embedding: name of the source's embedding matrix, or None to guess.
        target_embedding: name of the target's, or None to guess.
        output: name of the matrix that makes logits, or None to guess.
        positions: tuple of names of tables of positions, or None to guess.

    Returns:
        `Names`.

    Raises:
        UserError: if there is no such tensor, or it cannot be guessed which it is.
    """
    prefix = _prefix(state)
    hidden_dim = state.shape(prefix + _FIRST_LAYER)[1]
    given = [source_embedding, target_embedding, output, *(positions or ())]
    for name in given:
        if name is not None and name not in state:
            raise UserError(
                f"The state dict has no tensor {name!r}. It has, apart from the Transformer's: "
                f"{_list(_others(state, prefix))}"
            )
    others = [name for name in _others(state, prefix) if name not in given]
    if positions is None:
        positions = _guess_positions(others)
        others = [name for name in others if name not in positions]
    matrices = [name for name in others if _is_matrix(state.shape(name), hidden_dim)]
    if output is None:
        output = _guess_output(state, matrices)
        matrices = [name for name in matrices if name != output]
    source_embedding, target_embedding = _embeddings(matrices, source_embedding, target_embedding)
    return Names(prefix, source_embedding, target_embedding, output, tuple(positions))


def _prefix(state):
    found = [name.removesuffix(_FIRST_LAYER) for name in state if name.endswith(_FIRST_LAYER)]
    if len(found) != 1:
        raise UserError(
            "Expected the state dict of a model with one `torch.nn.Transformer`. Received one in "
            f"which {len(found)} tensors have names that end with {_FIRST_LAYER}"
        )
    return found[0]


def _others(state, prefix):
    stacks = (f"{prefix}encoder.", f"{prefix}decoder.")
    of_stack = re.compile(r"layers\.\d+\.|norm\.")
    return [
        name
        for name in state
        if not any(name.startswith(s) and of_stack.match(name, len(s)) for s in stacks)
    ]


def _is_matrix(shape, hidden_dim):
    return len(shape) == 2 and shape[1] == hidden_dim


def _guess_positions(names):
    found = [name for name in names if _OF_POSITIONS.search(name)]
    if len(found) < 2:
        return found
    return [
        _only(found, of_side, f"the {side}'s positions", "positions")
        for side, of_side in (("source", _OF_SOURCE), ("target", _OF_TARGET))
    ]


def _guess_output(state, matrices):
    """A matrix with a bias, or one whose name says so."""
    found = [name for name in matrices if bias_of(state, name)]
    found = found or [name for name in matrices if _OF_OUTPUT.search(name)]
    if len(found) > 1:
        raise _unclear(found, "makes the logits", "output")
    return found[0] if found else None


def bias_of(state, name):
    """The name of the bias that goes with a matrix, or None."""
    bias = f"{name.removesuffix('weight')}bias" if name and name.endswith("weight") else None
    return bias if bias in state else None


def _embeddings(matrices, source, target):
    """The two names, which are one if there is one matrix."""
    if source is None and target is None and len(matrices) == 1:
        return matrices[0], matrices[0]
    if source is not None or target is not None:
        # Of two matrices the one that is not given; of one, the same again.
        left = matrices or [source or target]
        if len(left) == 1:
            return source or left[0], target or left[0]
    if source is None:
        source = _only(matrices, _OF_SOURCE, "the source's embedding", "source_embedding")
    if target is None:
        target = _only(matrices, _OF_TARGET, "the target's embedding", "target_embedding")
    return source, target


def _only(names, pattern, what, argument):
    found = [name for name in names if pattern.search(name)]
    if len(found) != 1:
        raise _unclear(names, f"is {what}", argument)
    return found[0]


def _unclear(names, what, argument):
    return UserError(
        f"It cannot be guessed which tensor {what}. Name it with `{argument}`. The state dict has: "
        f"{_list(names)}"
    )


def _list(names):
    return ", ".join(names) or "none"
