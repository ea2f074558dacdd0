"""Converter of CTranslate2's Transformers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.convert.ctranslate2_architecture import Architecture, architecture
from keras_transformer.convert.ctranslate2_files import CTranslate2Files, Variables, read_files
from keras_transformer.convert.embedding_tables import (
    Tables,
    VocabPermutation,
    build_model,
    reserve,
)
from keras_transformer.convert.hf_checkpoint import find_folder
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.sentencepiece_model import (
    CONTROL,
    NORMAL,
    RESERVED,
    new_proto,
    reordered_proto,
)
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.errors import UserError, brief
from keras_transformer.presets.format import Preset
from keras_transformer.reserved_ids import START_ID

FILES = (("model.bin", "*.json", "*.txt", "*.md", "*.spm", "*.model"),)
_SOURCE, _TARGET = "encoder/embeddings_0/weight", "decoder/embeddings/weight"
_PROJECTION, _OUTPUT_BIAS = "decoder/projection/weight", "decoder/projection/bias"

# Parts of a layer, by the names of `stack_mappings`: the variable, the index of the part of its
# rows, and the number of parts. CTranslate2 stores matrices with the same input as one.
_PARTS = {
    "self_attn.q_proj": ("self_attention/linear_0", 0, 3),
    "self_attn.k_proj": ("self_attention/linear_0", 1, 3),
    "self_attn.v_proj": ("self_attention/linear_0", 2, 3),
    "self_attn.out_proj": ("self_attention/linear_1", 0, 1),
    "encoder_attn.q_proj": ("attention/linear_0", 0, 1),
    "encoder_attn.k_proj": ("attention/linear_1", 0, 2),
    "encoder_attn.v_proj": ("attention/linear_1", 1, 2),
    "encoder_attn.out_proj": ("attention/linear_2", 0, 1),
    "fc1": ("ffn/linear_0", 0, 1),
    "fc2": ("ffn/linear_1", 0, 1),
}
_NORMS = {
    "self_attn_layer_norm": "self_attention/layer_norm",
    "encoder_attn_layer_norm": "attention/layer_norm",
    "final_layer_norm": "ffn/layer_norm",
}


def ctranslate2(
    source: str | Path,
    source_prefix: Sequence[str] = (),
    target_prefix: Sequence[str] = (),
    source_end: bool | None = None,
) -> Preset:
    """Convert a CTranslate2 model of encoder and decoder (tried).

    Text is split by the SentencePiece models of the folder (`tokenizer.spm`, or `source.spm` and
    `target.spm`, or `sentencepiece.model` or `sentencepiece.bpe.model` for both sides). Without
    one, the tokens are words, separated by spaces on both sides.

    Sinusoids in any of the usual forms are converted to ours. Weights stored in float16, bfloat16,
    int8 or int16 become floats.

    ```python
    preset = kt.convert.ctranslate2("aren-transliteration")
    translator = kt.Translator.from_preset(preset)
    translator(["آ ت ز م و ن"])  # ["a t z m o n"]
    ```

    Args:
        source: the folder, with `model.bin`; or `hf://user/repository`.
        source_prefix: tokens of the vocabulary that the model expects before each source, such as
            the token of a language.
        target_prefix: tokens that outputs begin with. If the model does not define the token that
            the decoder starts with, it is the first of these.
        source_end: whether sources end with the end token. Defaults to whether CTranslate2 adds it.
            Models converted from HuggingFace need it, but do not add it.

    Returns:
        A `kt.convert.Preset`, which `kt.Translator.from_preset` accepts.

    Raises:
        UserError: if there is no such model, it is damaged, or it has parts that `Transformer` does
            not support, such as relative positions.
    """
    folder = find_folder(source, FILES)
    files = read_files(folder)
    parts = architecture(files)
    source_side, target_side = vocabularies(files, folder, target_prefix)
    tables = _tables(files.variables, source_side.order, target_side.order)
    model = build_model(
        tables,
        parts.hyperparameters,
        lambda name: _array(files.variables, name, parts),
        sum(math.prod(files.variables.shape(x)) for x in files.variables),
        parts.in_halves,
    )
    if parts.tables is not None:
        for stack in (model.encoder, model.decoder):
            stack.position_encoding.embeddings.assign(parts.tables[stack.name])
    if files.config["decoder_start_token"] is None:
        target_prefix = target_prefix[1:]  # It is the start token.
    if files.config["add_source_bos"]:
        source_prefix = (files.config["bos_token"], *source_prefix)
    is_one = source_side.tokenizer.proto == target_side.tokenizer.proto
    preprocessor = TranslationPreprocessor(
        target_side.tokenizer,
        target_side.tokenizer if is_one else source_side.tokenizer,
        source_prefix=source_side.tokenizer_names(source_prefix),
        target_prefix=target_side.tokenizer_names(target_prefix),
        source_end=files.config["add_source_eos"] if source_end is None else source_end,
    )
    return Preset(model=model, preprocessor=preprocessor, search=BeamSearch())


def _tables(
    variables: Variables, source_order: VocabPermutation, order: VocabPermutation
) -> Tables:
    source = _TARGET if source_order is order else _SOURCE
    output = _TARGET if variables.are_equal(_TARGET, _PROJECTION) else _PROJECTION
    bias, shape = None, variables.shape(_TARGET)
    if _OUTPUT_BIAS in variables:
        bias = np.append(variables.array(_OUTPUT_BIAS), 0.0)
    if variables.shape(output) != shape or (bias is not None and len(bias) != shape[0] + 1):
        raise UserError(
            "The CTranslate2 model is damaged: its decoder's embeddings and projection must have "
            f"one shape. Received: {brief(shape)} and {brief(variables.shape(output))}"
        )
    size = order.rows.max() + 1

    def tensor(name: str) -> np.ndarray:
        values = variables.array(name)
        # The row after the last one stands for zeros: see `Side`.
        lacking = 0 if name == _SOURCE else size - len(values)
        return np.pad(values, ((0, lacking), (0, 0))) if lacking else values

    return Tables.from_names(tensor, (source, _TARGET, output), order, source_order, bias)


def _array(variables: Variables, name: str, parts: Architecture) -> np.ndarray:
    """Return the weight for a name of `stack_mappings`."""
    path, _, kind = name.rpartition(".")
    stack, _, part = path.partition(".")
    layer = None
    if part.startswith("layers."):
        _, layer, part = part.split(".", 2)
    scope = stack if layer is None else f"{stack}/layer_{layer}"
    if part not in _PARTS:
        leaf = {"weight": "gamma", "bias": "beta"}[kind]
        return variables.array(f"{scope}/{_NORMS.get(part, part)}/{leaf}")
    linear, index, count = _PARTS[part]
    size = variables.shape(f"{scope}/{linear}/weight")[0] // count
    rows = slice(index * size, (index + 1) * size)
    if kind == "bias" and f"{scope}/{linear}/bias" not in variables:
        return np.zeros(size, "float32")
    values = variables.array(f"{scope}/{linear}/{kind}", rows)
    if part.endswith("q_proj"):
        values *= _queries_factor(variables, f"{scope}/{linear.partition('/')[0]}", parts)
    return values


def _queries_factor(variables: Variables, attention: str, parts: Architecture) -> np.float32:
    """Return the model's factor of queries, relative to our 1 / sqrt(d_k)."""
    hyperparameters = parts.hyperparameters
    head_dim = hyperparameters["key_dim"] or (
        hyperparameters["hidden_dim"] // hyperparameters["num_heads"]
    )
    scale = variables.scalar(f"{attention}/queries_scale", head_dim**-0.5)
    factor = np.float32(scale * head_dim**0.5)
    # If only rounding differs, keep the weights unchanged.
    return np.float32(1.0) if np.isclose(factor, 1.0) else factor


# SentencePiece models next to the model: the source's and the target's.
_ONE = "tokenizer.spm"
_SENTENCEPIECE = (
    ("source.spm", "target.spm"),
    (_ONE, _ONE),
    ("sentencepiece.model", "sentencepiece.model"),
    ("sentencepiece.bpe.model", "sentencepiece.bpe.model"),
)
_PAD_TOKENS = ("<blank>", "<pad>", "[PAD]")
_SPACE = "▁"


class Side(NamedTuple):
    """The vocabulary of source or target."""

    order: VocabPermutation
    """Our order of its tokens. The row after the last one stands for zeros."""
    tokens: list[str]
    """The tokens in the model's order."""
    pieces: list[str]
    """The tokenizer's names of the tokens, in our order."""
    tokenizer: Tokenizer

    def tokenizer_names(self, tokens: Iterable[str]) -> tuple[str, ...]:
        """Return the tokenizer's names of tokens.

        Raises:
            UserError: if the vocabulary has no such token.
        """
        places = {
            self.tokens[row]: place
            for place, row in enumerate(self.order.rows)
            if row < len(self.tokens)
        }
        for token in tokens:
            if token not in places:
                raise UserError(f"The vocabulary has no token {brief(token)}.")
        return tuple(self.pieces[places[token]] for token in tokens)


def vocabularies(
    files: CTranslate2Files, folder: Path, target_prefix: Sequence[str] = ()
) -> tuple[Side, Side]:
    """Read the vocabularies of both sides.

    Args:
        files: `CTranslate2Files`.
        folder: the folder, with or without SentencePiece models.
        target_prefix: tokens of the target. If the model does not define the token that the decoder
            starts with, it is the first of these.

    Returns:
        The `Side`s of source and target, with one `VocabPermutation` if they share one matrix.

    Raises:
        UserError: if a vocabulary does not have the size of its matrix, or lacks these tokens.
    """
    source, target = files.source_vocabulary, files.target_vocabulary
    embeddings = [
        f"{stack}/embeddings{n}/weight" for stack, n in (("encoder", "_0"), ("decoder", ""))
    ]
    for name, tokens in zip(embeddings, (source, target)):
        rows = files.variables.shape(name)[0]
        if rows != len(tokens):
            raise UserError(
                f"{folder}: vocabulary and weights do not match. The vocabulary has {len(tokens)} "
                f"tokens; `{name}` has {rows} rows."
            )
    target_order = _target_order(files, target_prefix)
    source_order = target_order
    if source != target or not files.variables.are_equal(*embeddings):
        source_order = _order(source, files.config, files.config["bos_token"])
    names = _sentencepiece_names(folder)
    return (
        _side(source_order, source, files.config, folder, names[0]),
        _side(target_order, target, files.config, folder, names[1]),
    )


def _target_order(files: CTranslate2Files, target_prefix: Sequence[str]) -> VocabPermutation:
    start = files.config["decoder_start_token"]
    if start is None and not target_prefix:
        raise UserError(
            "The model does not define the token that its decoder starts with. Pass it as the "
            "first of `target_prefix`, before the token of a language."
        )
    start = target_prefix[0] if start is None else start
    tokens = files.target_vocabulary
    for token in (start, files.config["eos_token"]):
        if token not in tokens:
            raise UserError(f"The target vocabulary has no token {brief(token)}.")
    order = _order(tokens, files.config, start)
    if not files.variables.scalar("decoder/start_from_zero_embedding", 0):
        return order
    # The decoder starts with a row of zeros, so the start token itself is an ordinary token.
    order = _order(tokens, files.config, files.config["eos_token"])
    order.rows[START_ID] = len(tokens)
    return order


def _order(tokens: Sequence[str], config: Mapping[str, Any], start: str) -> VocabPermutation:
    """Return our order. A reserved token that the vocabulary lacks is a copy of another one."""
    places = {token: place for place, token in reversed([*enumerate(tokens)])}
    unknown = places[config["unk_token"]]
    end = places.get(config["eos_token"], unknown)
    pad = next((places[token] for token in _PAD_TOKENS if token in places), unknown)
    return reserve(len(tokens), places.get(start, end), end, unknown, pad)


def _sentencepiece_names(folder: Path) -> tuple[str, str] | tuple[None, None]:
    """Return the names of both sides' SentencePiece models; None if there are none."""
    for names in _SENTENCEPIECE:
        if all((folder / name).is_file() for name in names):
            return names
    return None, None


def _side(
    order: VocabPermutation,
    tokens: list[str],
    config: Mapping[str, Any],
    folder: Path,
    sentencepiece_name: str | None,
) -> Side:
    names = order.pieces(tokens)
    if sentencepiece_name is not None:
        proto = reordered_proto((folder / sentencepiece_name).read_bytes(), names)
        return Side(order, tokens, names, Tokenizer(proto))
    split = next((token for token in tokens if _SPACE in token), None)
    if split is not None:
        raise UserError(
            f"The tokens of {folder} come from a SentencePiece model ({brief(split)}), which is "
            f"missing. Add it as {_ONE}, or two as {' and '.join(_SENTENCEPIECE[0])}."
        )
    # The token of the sentence's start is never a word, even if the decoder starts with another.
    kinds = [
        (name, CONTROL) if tokens[row] == config["bos_token"] else (_SPACE + name, NORMAL)
        for name, row in zip(names[len(RESERVED) :], order.rows[len(RESERVED) :])
    ]
    tokenizer = Tokenizer(new_proto([(name, 0.0, kind) for name, kind in kinds], "word"))
    return Side(order, tokens, [*RESERVED, *(name for name, _ in kinds)], tokenizer)
