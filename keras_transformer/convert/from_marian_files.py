"""Converter of the models that Marian itself writes, such as OPUS-MT's and Firefox's."""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.convert.embedding_tables import Tables, VocabPermutation, reserve
from keras_transformer.convert.foreign_layers import POST_NORM, PRE_NORM
from keras_transformer.convert.foreign_transformer import (
    ForeignConfig,
    make_transformer,
    marian_wavelength,
)
from keras_transformer.convert.marian_files import (
    MarianFiles,
    opened,
    option,
    read_files,
    read_yaml,
)
from keras_transformer.convert.marian_names import marian_name
from keras_transformer.convert.weight_mapping import (
    ACTIVATIONS,
    assign,
    check_size,
    halves_to_interleaved,
    stack_mappings,
)
from keras_transformer.data.language_selection import language_tokens
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.sentencepiece_model import parse_proto, reordered_proto
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.constraints import BannedTokens, NoUnknownToken, WordPenalty
from keras_transformer.errors import UserError, brief
from keras_transformer.models.encoder_decoder import zero_embeddings
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.format import Preset

logger = logging.getLogger(__name__)

_EPSILON = 1e-6
_MOST_STEPS = 10  # around a sub-layer
_END, _UNKNOWN = "</s>", "<unk>"
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


def convert_marian_files(source: str | Path) -> Preset:
    """Convert a folder or a zip file with a model that Marian wrote: see `marian`."""
    with opened(Path(source)) as folder:
        files = read_files(folder)
        source_side, target_side = _sides(files)
        parts = architecture(files)
        try:
            model = _model(files, parts, source_side.order, target_side.order)
        except UserError as error:
            raise UserError(f"{files.path}: {error}") from error
        tokens = {
            piece[2:-2]: piece
            for piece in source_side.pieces
            if piece.startswith(">>") and piece.endswith("<<")
        }
        is_one = source_side.tokenizer.proto == target_side.tokenizer.proto
        return Preset(
            model=model,
            preprocessor=TranslationPreprocessor(
                target_side.tokenizer,
                target_side.tokenizer if is_one else source_side.tokenizer,
            ),
            metadata={
                "alignment": {"layer": parts.alignment_layer, "heads": [0]},
                **language_tokens(target_lang=("source_prefix", tokens)),
            },
            search=_search(files, target_side.pieces),
        )


# Vocabularies


class _Side(NamedTuple):
    """The vocabulary of source or target."""

    order: VocabPermutation
    pieces: list[str]  # in our order
    tokenizer: Tokenizer


def _sides(files: MarianFiles) -> tuple[_Side, _Side]:
    sizes = option(files.path, files.options, "dim-vocabs", [])
    if len(sizes) != 2 or not all(type(size) is int for size in sizes):
        raise UserError(
            f"{files.path}: unsupported `dim-vocabs`: {brief(sizes)}. Expected the sizes of "
            "one source and one target."
        )
    source, target = (
        _side(path, size, name)
        for path, size, name in zip(files.vocabularies, sizes, ("source", "target"))
    )
    return source, target


def _side(path: Path, size: int, side: str) -> _Side:
    if path.suffix == ".spm":
        proto = path.read_bytes()
        try:
            model = parse_proto(proto)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        tokens = [piece.piece for piece in model.pieces]
        spec = model.trainer_spec
        end, unknown = spec.eos_id, spec.unk_id
        # Control tokens that this package put there. Marian trains without them.
        start = spec.bos_id if spec.bos_id >= 0 else end
        pad = spec.pad_id if spec.pad_id >= 0 else unknown
    else:
        ids = read_yaml(path.read_bytes(), path, all_text=True)
        tokens = _in_order(path, ids)
        # The names of Nematus, in older files.
        end, unknown = (
            tokens.index(name) if name in tokens else i for i, name in enumerate((_END, _UNKNOWN))
        )
        start, pad = end, unknown
        proto = _pieces_file(path, side).read_bytes()
    if len(tokens) != size:
        raise UserError(
            f"{path} and the model do not match. {path.name} has {len(tokens):,} tokens; the model "
            f"expects {size:,} (`dim-vocabs`)."
        )
    # Marian has no start token and no padding, but a vector of zeros and a mask: ours are copies.
    order = reserve(len(tokens), start, end, unknown, pad)
    pieces = order.pieces(tokens)
    surface = None if path.suffix == ".spm" else ""
    try:
        return _Side(order, pieces, Tokenizer(reordered_proto(proto, pieces, unknown=surface)))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _in_order(path: Path, ids: Any) -> list[str]:
    """Return the tokens of a vocabulary in YAML in the order of their ids."""
    try:
        tokens = sorted(ids, key=lambda token: int(ids[token]))
        is_whole = [int(ids[token]) for token in tokens] == [*range(len(tokens))]
    except (TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged. Expected a number for each token.") from error
    if not is_whole or len(tokens) < 2:
        raise UserError(f"{path} is damaged. Expected the ids 0, 1, 2, ... without gaps.")
    return tokens


def _pieces_file(vocabulary: Path, side: str) -> Path:
    """Return the SentencePiece model that splits text into the pieces of a vocabulary in YAML."""
    if (path := vocabulary.with_name(f"{side}.spm")).is_file():
        return path
    if (bpe := vocabulary.with_name(f"{side}.bpe")).is_file():
        raise UserError(
            f"{bpe}: text split by subword-nmt is not supported. Expected {path.name}, a model of "
            "SentencePiece."
        )
    raise UserError(f"{path} is missing, which splits text into the tokens of {vocabulary.name}.")


# Model


class Architecture(NamedTuple):
    """The architecture of a model of Marian."""

    hyperparameters: dict[str, Any]
    """Arguments of `Transformer`, except the sizes of the vocabularies."""
    alignment_layer: int
    """Index of the decoder layer whose first head Marian aligns tokens with."""
    has_no_projection: bool
    """Whether attentions have no output projection."""


def architecture(files: MarianFiles) -> Architecture:
    """Read the architecture of a model from its options and arrays.

    Args:
        files: `MarianFiles`.

    Raises:
        UserError: if `Transformer` does not support an option.
    """

    def get(name: str, default: Any, *supported: Any) -> Any:
        return option(files.path, files.options, name, default, supported)

    for name, (default, supported) in _FIXED.items():
        get(name, default, *supported)
    is_ssru = get("transformer-decoder-autoreg", "self-attention") == "rnn"
    if is_ssru:
        get("dec-cell", "gru", "ssru")
    hidden_dim, width = get("dim-emb", 512), get("transformer-dim-ffn", 2048)
    layers, decoder_layers = get("enc-depth", 6), get("dec-depth", 6)
    decoder_width = get("transformer-decoder-dim-ffn", 0) or width
    depth = get("transformer-ffn-depth", 2)
    decoder_depth = get("transformer-decoder-ffn-depth", 0) or depth
    tied = get("transformer-tied-layers", [])
    _check_sizes(files, hidden_dim)
    _check_depth(files, "enc", layers)
    _check_depth(files, "dec", decoder_layers, tied)
    activation = get("transformer-ffn-activation", "swish", "relu", "swish", "gelu")
    before, after = get("transformer-preprocess", ""), get("transformer-postprocess", "dan")
    hyperparameters = {
        "num_layers": layers,
        "num_decoder_layers": _if_other(decoder_layers, layers),
        "hidden_dim": hidden_dim,
        "intermediate_dim": width,
        "decoder_intermediate_dim": _if_other(decoder_width, width),
        "feed_forward_depth": depth,
        "decoder_feed_forward_depth": _if_other(decoder_depth, depth),
        "num_heads": get("transformer-heads", 8),
        "activation": ACTIVATIONS[activation],
        "layer_norm_epsilon": _EPSILON,
        "use_bias": any(name.endswith(("_bq", "_bk", "_bv")) for name in files.arrays),
        "decoder_type": "ssru" if is_ssru else "attention",
        "tied_decoder_layers": tied or None,
        "zero_start": True,
        **_steps(files, before, after, is_ssru),
        **_positions(files, hidden_dim),
    }
    last = get("transformer-guided-alignment-layer", "last")
    layer = decoder_layers if last == "last" else int(last) if last.isdigit() else 0
    if not 1 <= layer <= decoder_layers:
        raise UserError(
            f"{files.path}: unsupported `transformer-guided-alignment-layer`: {brief(last)}. "
            f"Expected a layer from 1 to {decoder_layers}."
        )
    return Architecture(hyperparameters, layer - 1, get("transformer-no-projection", False))


def _check_sizes(files: MarianFiles, hidden_dim: int) -> None:
    """Compare `dim-emb` with the embeddings, before anything is built."""
    for name in _table_names(files.arrays)[:2]:
        shape = files.arrays[name].shape if name in files.arrays else None
        if shape is not None and (len(shape) != 2 or shape[1] != hidden_dim):
            raise UserError(
                f"{files.path}: `dim-emb` and `{name}` do not match. Received: dim-emb="
                f"{brief(hidden_dim)}, an array of the shape {shape}"
            )


def _check_depth(files: MarianFiles, stack: str, depth: int, tied: Sequence[Any] = ()) -> None:
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


def _steps(files: MarianFiles, before: str, after: str, is_ssru: bool) -> dict[str, Any]:
    """Return the options of the order of dropout, residual connections and norms."""
    embedding = option(files.path, files.options, "transformer-postprocess-emb", "d")
    final = option(files.path, files.options, "transformer-postprocess-top", "")
    for name, steps, known in (
        ("transformer-preprocess", before, "dn"),
        ("transformer-postprocess", after, "dan"),
        ("transformer-postprocess-emb", embedding, "dn"),
        ("transformer-postprocess-top", final, "dan"),
    ):
        if set(steps) - set(known) or len(steps) > _MOST_STEPS:
            raise UserError(
                f"{files.path}: unsupported `{name}`: {brief(steps)}. Expected at most "
                f"{_MOST_STEPS} of the letters {', '.join(known)}."
            )
    # Dropout before a sub-layer would need its own mask in training only.
    steps = f"{before}s{after}"
    standard = {POST_NORM: False, PRE_NORM: True}
    final = final.removeprefix("d") if final == "dn" else final
    options = {"normalize_first": standard.get(steps, False), "embedding_steps": embedding}
    if steps not in standard:
        options["sublayer_steps"] = steps
    if final in ("", "n"):
        options["final_norm"] = _if_other(final == "n", options["normalize_first"])
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


def _positions(files: MarianFiles, hidden_dim: int) -> dict[str, Any]:
    if _POSITIONS in files.arrays:
        if files.arrays[_POSITIONS].ndim != 2:
            raise UserError(f"{files.path} is damaged: `{_POSITIONS}` must be a matrix.")
        return {
            "position_encoding": "learned",
            "max_length": len(files.arrays[_POSITIONS]),
            "scale_embeddings": False,
        }
    # Marian has an option of trained positions that its Transformer does not read. So what matters
    # is whether they are in the file.
    return {"max_wavelength": marian_wavelength(hidden_dim)}


def _if_other(value: Any, usual: Any) -> Any:
    """Return a value, or None if it is the usual one, the option's default."""
    return None if value == usual else value


def _model(
    files: MarianFiles,
    parts: Architecture,
    source_order: VocabPermutation,
    target_order: VocabPermutation,
) -> Transformer:
    arrays = dict(files.arrays)
    names = _table_names(arrays)
    if names[2] == _LEGACY_OUTPUT:
        arrays[_LEGACY_OUTPUT] = arrays[_LEGACY_OUTPUT].T
    used = {_BIAS, _POSITIONS}

    def tensor(name: str) -> np.ndarray:
        if name not in arrays:
            raise UserError(f"`{name}` is missing.")
        used.add(name)
        return np.asarray(arrays[name], "float32")

    for name, order in zip(names, (source_order, target_order, target_order)):
        expected = (order.rows.max() + 1, parts.hyperparameters["hidden_dim"])
        if tensor(name).shape != expected:
            raise UserError(
                f"`{name}` and the vocabulary do not match. Expected the shape {expected}. "
                f"Received: {arrays[name].shape}"
            )
    bias = np.ravel(tensor(_BIAS)) if _BIAS in arrays else None
    if bias is not None and len(bias) != target_order.rows.max() + 1:
        raise UserError(f"`{_BIAS}` and the vocabulary do not match. It has {len(bias):,} rows.")
    tables = Tables.of_names(tensor, names, target_order, source_order, bias)
    arguments = {**tables.hyperparameters(), **parts.hyperparameters}
    check_size(arguments, sum(array.size for array in arrays.values()))
    with zero_embeddings():
        model = make_transformer(**arguments)
    config = ForeignConfig.from_config(model.config)
    hidden_dim = config.hidden_dim
    is_learned = model.config.max_length is not None
    hidden_order = None if is_learned else halves_to_interleaved(hidden_dim)

    def weight(name: str) -> np.ndarray:
        name, is_matrix = marian_name(name, config)
        # Without a projection, the heads are the output: the projection is 1.
        if parts.has_no_projection and name.endswith(("_Wo", "_bo")) and name not in arrays:
            return np.eye(hidden_dim) if is_matrix else np.zeros(hidden_dim)
        return tensor(name).T if is_matrix else tensor(name).ravel()

    assign(stack_mappings(model), weight, hidden_order)
    tables.assign(model, hidden_order)
    if is_learned:
        for stack in (model.encoder, model.decoder):
            stack.position_encoding.embeddings.assign(tensor(_POSITIONS))
    if unread := sorted({*arrays} - used):
        raise UserError(f"unsupported arrays: {brief(unread)}. Transformer has no such parts.")
    return model


_BIAS, _POSITIONS = "decoder_ff_logit_out_b", "Wpos"
_OUTPUT, _LEGACY_OUTPUT = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W"


def _table_names(arrays: Mapping[str, np.ndarray]) -> tuple[str, str, str]:
    """Return the names of the matrices of source, target and logits: the file has those that are
    not tied.
    """
    source, target = (
        "Wemb" if "Wemb" in arrays else f"{stack}_Wemb" for stack in ("encoder", "decoder")
    )
    output = next((name for name in (_OUTPUT, _LEGACY_OUTPUT) if name in arrays), target)
    return source, target, output


# Search


def _search(files: MarianFiles, pieces: Sequence[str]) -> BeamSearch:
    """Return the search of `decoder.yml`, with Marian's defaults; greedy search without one."""
    path, options = files.path.with_name("decoder.yml"), files.search
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
        if options.get(name) not in values
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
