"""Converter of the models that Marian itself writes, such as OPUS-MT's and Firefox's."""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.convert.embedding_tables import (
    Side,
    Tables,
    VocabPermutation,
    build_model,
    make_side,
    reserve,
)
from keras_transformer.convert.foreign_transformer import ForeignConfig
from keras_transformer.convert.marian_files import (
    MarianFiles,
    opened,
    option,
    read_files,
    read_yaml,
)
from keras_transformer.convert.marian_options import (
    BIAS,
    LEGACY_OUTPUT,
    POSITIONS,
    Architecture,
    marian_name,
    read_architecture,
    read_search,
    table_names,
    target_languages,
)
from keras_transformer.data.language_selection import language_tokens
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.sentencepiece_model import parse_proto
from keras_transformer.data.shortlist import Shortlist
from keras_transformer.errors import UserError, brief
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.format import Preset

logger = logging.getLogger(__name__)

_END, _UNKNOWN = "</s>", "<unk>"


def convert_marian_files(source: str | Path) -> Preset:
    """Convert a folder or a zip file with a model that Marian wrote: see `marian`."""
    with opened(Path(source)) as folder:
        files = read_files(folder)
        source_side, target_side = _sides(files)
        parts = read_architecture(files)
        try:
            model = _model(files, parts, source_side.order, target_side.order)
        except UserError as error:
            raise UserError(f"{files.path}: {error}") from error
        tokens = target_languages(source_side.pieces)
        is_one = source_side.tokenizer.proto == target_side.tokenizer.proto
        return Preset(
            model=model,
            preprocessor=TranslationPreprocessor(
                target_side.tokenizer,
                target_side.tokenizer if is_one else source_side.tokenizer,
            ),
            metadata={
                "alignment": {"layer": parts.alignment_layer, "heads": [0]},
                **_languages(files),
                **language_tokens(target_lang=("source_prefix", tokens)),
            },
            search=read_search(files, target_side.pieces),
            shortlist=_shortlist(files, source_side, target_side),
        )


def _languages(files: MarianFiles) -> dict[str, str]:
    """Return the languages in the names of Firefox's files, such as `vocab.enpt.spm`."""
    pairs = {tuple(path.name.split(".")[1:-1]) for path in files.vocabularies}
    pair = "".join(*pairs) if len(pairs) == 1 else ""
    is_named = len(pair) == 4 and pair.isalpha() and files.path.name.startswith(f"model.{pair}.")
    return {"source": pair[:2], "target": pair[2:]} if is_named else {}


# Vocabularies


def _sides(files: MarianFiles) -> tuple[Side, Side]:
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


def _side(path: Path, size: int, side: str) -> Side:
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
    return make_side(path, order, tokens, proto, None if path.suffix == ".spm" else "")


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


def _shortlist(files: MarianFiles, source: Side, target: Side) -> Shortlist | None:
    if files.shortlist is None:
        return None
    tokens = [[side.pieces[i] for i in side.order.new_ids()] for side in (source, target)]
    if files.shortlist.suffix == ".bin":
        shortlist = Shortlist.from_marian(files.shortlist, *map(len, tokens))
    else:
        limits: Any = files.search["shortlist"][1:4]
        shortlist = Shortlist.from_marian_text(files.shortlist, tokens[0], tokens[1], *limits)
    return shortlist.in_order(source.order.rows, target.order.new_ids())


# Model


def _model(
    files: MarianFiles,
    parts: Architecture,
    source_order: VocabPermutation,
    target_order: VocabPermutation,
) -> Transformer:
    arrays = dict(files.arrays)
    names = table_names(arrays)
    if names[2] == LEGACY_OUTPUT:
        arrays[LEGACY_OUTPUT] = arrays[LEGACY_OUTPUT].T
    used = {BIAS, POSITIONS}

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
    bias = np.ravel(tensor(BIAS)) if BIAS in arrays else None
    if bias is not None and len(bias) != target_order.rows.max() + 1:
        raise UserError(f"`{BIAS}` and the vocabulary do not match. It has {len(bias):,} rows.")
    tables = Tables.from_names(tensor, names, target_order, source_order, bias)
    config = ForeignConfig(**{**tables.hyperparameters(), **parts.hyperparameters})
    hidden_dim, is_learned = config.hidden_dim, config.max_length is not None

    def weight(name: str) -> np.ndarray:
        name, is_matrix = marian_name(name, config)
        # Without a projection, the heads are the output: the projection is 1.
        if parts.has_no_projection and name.endswith(("_Wo", "_bo")) and name not in arrays:
            return np.eye(hidden_dim) if is_matrix else np.zeros(hidden_dim)
        return tensor(name).T if is_matrix else tensor(name).ravel()

    num_weights = sum(array.size for array in arrays.values())
    model = build_model(tables, parts.hyperparameters, weight, num_weights, not is_learned)
    if is_learned:
        for stack in (model.encoder, model.decoder):
            stack.position_encoding.embeddings.assign(tensor(POSITIONS))
    if unread := sorted({*arrays} - used):
        raise UserError(f"unsupported arrays: {brief(unread)}. Transformer has no such parts.")
    return model
