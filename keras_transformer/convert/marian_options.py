"""Marian's own options and names, of models and of `decoder.yml`, for reading and writing."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.convert.foreign_layers import POST_NORM, PRE_NORM
from keras_transformer.convert.foreign_transformer import ForeignConfig, marian_wavelength
from keras_transformer.convert.marian_files import MODEL, MarianFiles, option
from keras_transformer.convert.weight_mapping import ACTIVATIONS
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import BannedTokens, NoUnknownToken, WordPenalty
from keras_transformer.decoding.search import Search
from keras_transformer.errors import UserError, brief
from keras_transformer.models.transformer import Transformer

logger = logging.getLogger(__name__)

EPSILON = 1e-6
"""The number that Marian's layer normalization adds to the variance."""
_MOST_STEPS = 10  # around a sub-layer
# Options that equal a hyperparameter -> its name, and Marian's default.
_EQUAL = {
    "dim-emb": ("hidden_dim", 512),
    "enc-depth": ("num_layers", 6),
    "transformer-heads": ("num_heads", 8),
    "transformer-dim-ffn": ("intermediate_dim", 2048),
    "transformer-ffn-depth": ("feed_forward_depth", 2),
    "transformer-postprocess-emb": ("embedding_steps", "d"),
}
# The decoder's, likewise. The default of these hyperparameters is None: as in the encoder, or none.
_DECODERS = {
    "dec-depth": ("num_decoder_layers", 6),
    "transformer-decoder-dim-ffn": ("decoder_intermediate_dim", 0),
    "transformer-decoder-ffn-depth": ("decoder_feed_forward_depth", 0),
    "transformer-tied-layers": ("tied_decoder_layers", []),
}
_ENCODERS = {
    "num_decoder_layers": "num_layers",
    "decoder_intermediate_dim": "intermediate_dim",
    "decoder_feed_forward_depth": "feed_forward_depth",
}
# Options inside a model, and the only values that `Transformer` has a counterpart of.
_FIXED = {
    "type": ("transformer", ("transformer",)),
    "layer-normalization": (False, (False,)),
    "right-left": (False, (False,)),
    "input-types": ([], ([], ["sequence"], ["sequence", "sequence"])),
    "lemma-dim-emb": (0, (0,)),
    "lemma-dependency": ("", ("",)),
    "factors-dim-emb": (0, (0,)),
    "ulr": (False, (False,)),
    "transformer-attention-mask": ("default", ("default",)),
    "transformer-alibi-shift": (False, (False,)),
    "transformer-alibi-trainable": (False, (False,)),
    "transformer-disable-position-embeddings": (False, (False,)),
    "transformer-pool": (False, (False,)),
    "transformer-rnn-projection": (False, (False,)),
    "transformer-decoder-autoreg": ("self-attention", ("self-attention", "rnn")),
}
_CONTROL = re.compile(r"<0x[01][0-9A-F]>")  # a byte that Marian never returns
# Options of `decoder.yml` without counterparts, and the values that have no effect.
_SEARCHES = {
    "output-sampling": (None, [], False),
    "force-decode": (None, False),
    "weights": (None, [], [1], [1.0]),
    "best-deep": (None, False),
    "shortlist": (None, []),
}
BIAS, POSITIONS = "decoder_ff_logit_out_b", "Wpos"
OUTPUT, LEGACY_OUTPUT = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W"
_ATTENTIONS = {"self_attn": "self", "encoder_attn": "context"}
_NORMS = {"self_attn": "self_Wo", "encoder_attn": "context_Wo", "final": "ffn_ffn"}
_KINDS = {"weight": "scale", "bias": "bias"}  # of a norm


# Options of a model


class Architecture(NamedTuple):
    """The architecture of a model of Marian."""

    hyperparameters: dict[str, Any]
    """Arguments of `Transformer`, except the sizes of the vocabularies."""
    alignment_layer: int
    """Index of the decoder layer whose first head Marian aligns tokens with."""
    has_no_projection: bool
    """Whether attentions have no output projection."""


def read_architecture(files: MarianFiles) -> Architecture:
    """Read the architecture of a model from its options and arrays.

    Args:
        files: `MarianFiles`.

    Raises:
        UserError: if `ForeignTransformer` does not support an option.
    """

    def get(name: str, default: Any, *supported: Any) -> Any:
        return option(files.path, files.options, name, default, supported)

    for name, (default, supported) in _FIXED.items():
        get(name, default, *supported)
    is_ssru = get("transformer-decoder-autoreg", "self-attention") == "rnn"
    if is_ssru:
        get("dec-cell", "gru", "ssru")
    own = {ours: get(name, default) for name, (ours, default) in _EQUAL.items()}
    decoders = {ours: get(name, default) or None for name, (ours, default) in _DECODERS.items()}
    depth, tied = decoders["num_decoder_layers"] or 0, decoders["tied_decoder_layers"] or ()
    _validate_sizes(files, own["hidden_dim"])
    _validate_depth(files, "enc", own["num_layers"])
    _validate_depth(files, "dec", depth, tied)
    for name, encoders in _ENCODERS.items():
        if decoders[name] == own[encoders]:
            decoders[name] = None
    activation = get("transformer-ffn-activation", "swish", "relu", "swish", "gelu")
    hyperparameters = {
        **own,
        **decoders,
        "activation": ACTIVATIONS[activation],
        "layer_norm_epsilon": EPSILON,
        "use_bias": any(name.endswith(("_bq", "_bk", "_bv")) for name in files.arrays),
        "decoder_type": "ssru" if is_ssru else "attention",
        "zero_start": True,
        # Marian does not store it, and its default is 0: dropout of 0.1 ruins a student.
        "dropout": 0.0,
        **_read_steps(files, is_ssru),
        **_read_positions(files, own["hidden_dim"]),
    }
    last = get("transformer-guided-alignment-layer", "last")
    layer = depth if last == "last" else int(last) if last.isdigit() else 0
    if not 1 <= layer <= depth:
        raise UserError(
            f"{files.path}: unsupported `transformer-guided-alignment-layer`: {brief(last)}. "
            f"Expected a layer from 1 to {depth}."
        )
    return Architecture(hyperparameters, layer - 1, get("transformer-no-projection", False))


def _validate_sizes(files: MarianFiles, hidden_dim: int) -> None:
    """Compare `dim-emb` with the embeddings, before anything is built."""
    for name in table_names(files.arrays)[:2]:
        shape = files.arrays[name].shape if name in files.arrays else None
        if shape is not None and (len(shape) != 2 or shape[1] != hidden_dim):
            raise UserError(
                f"{files.path}: `dim-emb` and `{name}` do not match. Received: dim-emb="
                f"{brief(hidden_dim)}, an array of the shape {shape}"
            )


def _validate_depth(files: MarianFiles, stack: str, depth: int, tied: Sequence[Any] = ()) -> None:
    """Compare the number of layers of a stack with its arrays.

    Args:
        files: `MarianFiles`.
        stack: `"enc"` or `"dec"`.
        depth: the number of layers.
        tied: for each layer, the number of the layer whose arrays it has. Defaults to its own.
    """
    if not all(type(layer) is int and 1 <= layer <= len(tied) for layer in tied):
        raise UserError(
            f"{files.path}: unsupported `transformer-tied-layers`: {brief(tied)}. Expected the "
            "number of a layer for each layer."
        )
    pattern = re.compile(rf"{stack}oder_l(\d+)_")
    found = max((int(x[1]) for name in files.arrays if (x := pattern.match(name))), default=0)
    if found != max(tied, default=depth) or len(tied) not in (0, depth):
        raise UserError(
            f"{files.path}: `{stack}-depth` and the arrays do not match. Received: "
            f"{stack}-depth={brief(depth)}, arrays of {found} layers"
        )


def _read_steps(files: MarianFiles, is_ssru: bool) -> dict[str, Any]:
    """Return the options of the order of dropout, residual connections and norms."""
    found = {}
    for name, default, known in (
        ("transformer-preprocess", "", "dn"),
        ("transformer-postprocess", "dan", "dan"),
        ("transformer-postprocess-emb", "d", "dn"),
        ("transformer-postprocess-top", "", "dan"),
    ):
        found[name] = steps = option(files.path, files.options, name, default)
        if set(steps) - set(known) or len(steps) > _MOST_STEPS:
            raise UserError(
                f"{files.path}: unsupported `{name}`: {brief(steps)}. Expected at most "
                f"{_MOST_STEPS} of the letters {', '.join(known)}."
            )
    # Dropout before a sub-layer would need its own mask in training only.
    before, after, _, final = found.values()
    steps = f"{before}s{after}"
    standard = {POST_NORM: False, PRE_NORM: True}
    final = final.removeprefix("d") if final == "dn" else final
    options: dict[str, Any] = {"normalize_first": standard.get(steps, False)}
    if steps not in standard:
        options["sublayer_steps"] = steps
    if final in ("", "n"):
        is_usual = (final == "n") == options["normalize_first"]
        options["final_norm"] = None if is_usual else final == "n"
    else:
        options["final_steps"] = final
    if "n" in before and not is_ssru:
        options["normalize_keys"] = False
        logger.warning(
            "%s is a pre-norm model. Marian trains its decoder with normalized keys and values of "
            "the self-attention, and translates without normalizing them. The converted model does "
            "as Marian does when it translates.",
            files.path,
        )
    return options


def _read_positions(files: MarianFiles, hidden_dim: int) -> dict[str, Any]:
    if POSITIONS in files.arrays:
        if files.arrays[POSITIONS].ndim != 2:
            raise UserError(f"{files.path} is damaged: `{POSITIONS}` must be a matrix.")
        return {
            "position_encoding": "learned",
            "max_length": len(files.arrays[POSITIONS]),
            "scale_embeddings": False,
        }
    # Marian has an option of trained positions that its Transformer does not read. So what matters
    # is whether they are in the file.
    return {"max_wavelength": marian_wavelength(hidden_dim)}


def write_options(model: Transformer) -> dict[str, Any]:
    """Return the options inside a model's file."""
    config = ForeignConfig.from_config(model.config)
    before, after = config.steps.split("s")
    activations = {keras_name: name for name, keras_name in ACTIVATIONS.items() if name != "silu"}
    is_shared = config.source_vocabulary_size is None
    is_ssru = config.decoder_type == "ssru"
    size = config.vocabulary_size
    return {
        "type": "transformer",
        "dim-vocabs": [config.source_vocabulary_size or size, size],
        **{name: getattr(config, ours) for name, (ours, _) in _EQUAL.items()},
        **{name: getattr(config, ours) or x for name, (ours, x) in _DECODERS.items()},
        "dec-depth": config.decoder_layers,
        "dec-cell": "ssru" if is_ssru else "gru",
        "layer-normalization": False,
        "right-left": False,
        "input-types": [],
        "tied-embeddings": config.tie_weights and not is_shared,
        "tied-embeddings-src": is_shared and not config.tie_weights,
        "tied-embeddings-all": config.tie_weights and is_shared,
        "output-omit-bias": not config.output_bias,
        "lemma-dim-emb": 0,
        "ulr": False,
        "transformer-no-projection": False,
        "transformer-rnn-projection": False,
        "transformer-pool": False,
        "transformer-ffn-activation": activations[str(config.activation)],
        "transformer-decoder-autoreg": "rnn" if is_ssru else "self-attention",
        "transformer-preprocess": before,
        "transformer-postprocess": after,
        "transformer-postprocess-top": config.steps_at_the_end,
        "transformer-train-position-embeddings": False,
        "transformer-guided-alignment-layer": "last",
        "version": "v1.12.0",
    }


# Names of arrays


def table_names(arrays: Mapping[str, np.ndarray]) -> tuple[str, str, str]:
    """Return the names of the matrices of source, target and logits: the file has those that are
    not tied.
    """
    source, target = (
        "Wemb" if "Wemb" in arrays else f"{stack}_Wemb" for stack in ("encoder", "decoder")
    )
    output = next((name for name in (OUTPUT, LEGACY_OUTPUT) if name in arrays), target)
    return source, target, output


def marian_name(name: str, config: ForeignConfig) -> tuple[str, bool]:
    """Return the name of a weight in Marian's files, and whether it is a matrix.

    Matrices are `(inputs, outputs)` there, and vectors have the shape `(1, size)`.

    Args:
        name: a name of `weight_mapping.stack_mappings`.
        config: the `ForeignConfig`. A tied layer has the first such layer's name.
    """
    path, _, kind = name.rpartition(".")
    stack, _, part = path.partition(".")
    if part == "layer_norm":
        return f"{stack}_top_ln_{_KINDS[kind]}", False
    if part == "layernorm_embedding":
        return f"{stack}_emb_ln_{_KINDS[kind]}_pre", False
    _, number, part = part.split(".", 2)
    index = int(number) + 1
    if stack == "decoder" and config.tied_decoder_layers is not None:
        index = config.tied_decoder_layers[int(number)]
    layer = f"{stack}_l{index}"
    is_ssru = stack == "decoder" and config.decoder_type == "ssru" and "self_attn" in part
    if part.endswith("layer_norm"):
        return f"{layer}_{_norm_name(part, kind, config, is_ssru)}", False
    letter = {"weight": "W", "bias": "b"}[kind]
    if part.startswith("fc"):
        return f"{layer}_ffn_{letter}{part.removeprefix('fc')}", kind == "weight"
    attention, projection = part.split(".")
    if is_ssru:
        gate = "f" if projection == "forget_proj" else ""
        return f"{layer}_rnn_{letter}{gate}", kind == "weight"
    return f"{layer}_{_ATTENTIONS[attention]}_{letter}{projection[0]}", kind == "weight"


def _norm_name(part: str, kind: str, config: ForeignConfig, is_ssru: bool) -> str:
    """Return the name of a norm of a sub-layer, after the layer's."""
    sublayer = part.removesuffix("_layer_norm").removesuffix("_pre")
    # The only norm of a sub-layer may be before or after it.
    is_before = part.endswith("_pre_layer_norm") or "n" not in config.steps.partition("s")[2]
    if is_ssru:
        prefix = "rnn" if is_before else "rnn_ffn"
    else:
        prefix = _NORMS[sublayer]
    return f"{prefix}_ln_{_KINDS[kind]}{'_pre' if is_before else ''}"


# Languages


def target_languages(pieces: Sequence[str]) -> dict[str, str]:
    """Return the tokens that select the target language, by its name.

    Args:
        pieces: list of strings, the source's vocabulary.

    Returns:
        A dict such as `{"deu": ">>deu<<"}`, which is empty if there is only one language.
    """
    return {
        piece[2:-2]: piece for piece in pieces if piece.startswith(">>") and piece.endswith("<<")
    }


# Options of a search


def read_search(files: MarianFiles, pieces: Sequence[str]) -> BeamSearch:
    """Return the search of `files.search`, with Marian's defaults; greedy search without any."""
    path, options = files.search_path, files.search
    constraints = []
    if not option(path, options, "allow-unk", False):
        constraints.append(NoUnknownToken())
    controls = [i for i, piece in enumerate(pieces) if _CONTROL.fullmatch(piece)]
    if controls and not option(path, options, "allow-special", False):
        constraints.append(BannedTokens(tuple(controls)))
    if not options:
        return BeamSearch.greedy(constraints=tuple(constraints), max_length_factor=3.0)
    if penalty := option(path, options, "word-penalty", 0.0):
        constraints.append(WordPenalty(penalty))
    others = [
        f"{name}={brief(options[name])}"
        for name, values in _SEARCHES.items()
        if options.get(name) not in values and not (name == "shortlist" and files.shortlist)
    ]
    if others:
        logger.warning(
            "%s: the converted model ignores %s, so its outputs may differ.",
            path,
            ", ".join(others),
        )
    return BeamSearch(
        option(path, options, "beam-size", 12),
        alpha=float(option(path, options, "normalize", 0.0)),
        length_penalty="power",
        constraints=tuple(constraints),
        max_length_factor=float(option(path, options, "max-length-factor", 3.0)),
    )


def write_search(search: Search, vocabularies: Sequence[str]) -> dict[str, Any]:
    """Return the options of `decoder.yml`. A warning names the parts that Marian lacks.

    Args:
        search: the `Search`.
        vocabularies: names of the files of source and target.
    """
    penalties = [x.penalty for x in search.constraints if isinstance(x, WordPenalty)]
    allows_unknown = not any(isinstance(x, NoUnknownToken) for x in search.constraints)
    options: dict[str, Any] = {
        "relative-paths": True,
        "models": [MODEL],
        "vocabs": [*vocabularies],
        "beam-size": 1,
        "normalize": 0.0,
        "word-penalty": sum(penalties),
        "allow-unk": allows_unknown,
    }
    known = (NoUnknownToken, WordPenalty)
    others = [str(x) for x in search.constraints if not isinstance(x, known)]
    if isinstance(search, BeamSearch):
        options |= {"beam-size": search.beam_size, "normalize": float(search.alpha)}
        if search.max_length_factor is not None:
            options["max-length-factor"] = search.max_length_factor
        others += _unsupported_parts(search)
    else:
        others.append(str(search))
    if others:
        logger.warning(
            "Outputs may differ, because Marian does not have these parts of the search: %s",
            ", ".join(others),
        )
    return options


def _unsupported_parts(search: BeamSearch) -> list[str]:
    # Marian only limits an output by a multiple of its source, which is 3 by default.
    parts = [f"extra_length={search.extra_length}"]
    if search.max_length_factor is None:
        parts.append("max_length_factor=None")
    if search.alpha and search.length_penalty != "power":
        parts.append(f"length_penalty={search.length_penalty}")
    if search.coverage_penalty:
        parts.append(f"coverage_penalty={search.coverage_penalty}")
    return parts
