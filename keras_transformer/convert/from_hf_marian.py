"""Converter of Marian's models, such as OPUS-MT, in HuggingFace's form."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_transformer.convert.embedding_tables import (
    Side,
    Tables,
    VocabPermutation,
    make_side,
    reserve,
)
from keras_transformer.convert.from_marian import convert_marian_files
from keras_transformer.convert.generation import (
    forced_prefix,
    generation_option,
    generation_search,
    renormalizes_without_padding,
)
from keras_transformer.convert.hf_checkpoint import HFCheckpoint, build_hf_model, open_checkpoint
from keras_transformer.convert.marian_files import is_marian, repository_files
from keras_transformer.convert.marian_options import target_languages
from keras_transformer.convert.weight_mapping import (
    TABLES,
    TORCH_NORM_EPSILON,
    hyperparameters,
    shared_table_names,
)
from keras_transformer.data.language_selection import language_tokens, selectable_languages
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.sentencepiece_model import RESERVED
from keras_transformer.errors import UserError, brief
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.format import Preset
from keras_transformer.presets.location import CONFIG, HUGGING_FACE, download_repository
from keras_transformer.reserved_ids import PAD_ID, START_ID

logger = logging.getLogger(__name__)

# Configurations of 2020 have more options of BART. Current transformers ignores all of them, and so
# does this module for those whose effect shows in the weights: `extra_pos_embeddings` (which is
# pad_token_id + 1), `normalize_embedding`, `add_final_layer_norm`, `static_position_embeddings`.
_FIXED = {"normalize_before": False}
_POSITIONS = tuple(f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder"))
_LOGITS_BIAS = "final_logits_bias"
_SPECIAL_TOKENS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def marian(source: str | Path, target_language: str | None = None) -> Preset:
    """Convert a Marian model, such as OPUS-MT, in HuggingFace's form or in Marian's own.

    ```python
    preset = kt.convert.marian("downloads/en-de")  # or a zip file
    translator = kt.Translator.from_preset(preset)
    translator(["A dog runs."])
    translator.save_to_preset("en_de")

    kt.convert.marian("downloads/en-gem", target_language="deu")
    ```

    Marian's own form is a folder, or a zip file or wheel (`FILE.whl/FOLDER` if it has several
    models), with `.npz` or `.bin` models, `decoder.yml` or `config*.yml`, and vocabularies (`.spm`,
    or `.yml` with `source.spm` and `target.spm`). The guide "Convert models" lists the supported
    options, and the files that were tried. The rest of this page is about HuggingFace's form, whose
    reader is built from its description.

    The model computes the same function, except that its tokens and the positions of d_model are
    reordered. Logits, searches and scores equal transformers' when `generate` is called with
    `early_stopping="never"`. Attention biases that are all zero are left out. If the folder has
    `renormalize_logits` and never returns padding, the softmax leaves padding out.

    The search follows the folder's options for `generate`: `num_beams` (1 if it is missing,
    greedy search), `length_penalty`, `do_sample`, `temperature`, `top_k` and `top_p`. These become
    constraints: `min_length`, `max_length` if it is below the number of positions,
    `no_repeat_ngram_size`, `repetition_penalty`, `bad_words_ids` of one token each and
    `suppress_tokens`. `forced_bos_token_id` becomes the `target_prefix`. A warning names the other
    options that would change an output. An output is also at most 50 tokens longer than its source:
    see `extra_length`.

    Text is split as by transformers' tokenizer, by the two SentencePiece models and their
    normalization, with three exceptions:

    - Special tokens and names of languages in the text itself (`</s>`, `>>deu<<`) are text. A
      language is selected by `target_language`, or later by `translator.tagged(">>deu<<")`.
    - Each character that `source.spm` does not know is one token. transformers merges a run of
      them into one token.
    - A piece of a SentencePiece model that `vocab.json` lacks is split into pieces that it has.
      transformers returns the unknown token.

    Args:
        source: path of a folder with `config.json`, `model.safetensors` or `pytorch_model.bin`,
            `source.spm`, `target.spm` and `vocab.json`; or a folder or a zip file in Marian's own
            form; or `hf://user/repository` with either.
        target_language: for a model with several target languages, the language to translate into:
            `"deu"` stands for the token `>>deu<<`, which then begins every source.

    Returns:
        A `kt.convert.Preset`, which `kt.Translator.from_preset` accepts.

    Raises:
        UserError: if there is no such folder, repository or network; if a file is missing, damaged
            or of another model; if an option of the model or the language is not supported.
    """
    preset = convert_marian(source)
    if target_language is not None:
        return preset.in_languages(target_lang=target_language)
    if codes := selectable_languages(preset.metadata, "target_lang"):
        logger.warning(
            "%s translates into several languages. Select one with `target_language`: %s",
            source,
            ", ".join(codes),
        )
    return preset


def convert_marian(source: str | Path) -> Preset:
    """Convert a Marian model without selecting a language: see `marian`."""
    is_remote = str(source).startswith(HUGGING_FACE)
    if is_remote and not (download_repository(str(source), [CONFIG]) / CONFIG).is_file():
        if names := repository_files(str(source)):
            return convert_marian_files(download_repository(str(source), names))
    if not is_remote and is_marian(Path(source)):
        return convert_marian_files(source)
    folder = open_checkpoint(source)
    folder.validate_type("marian")
    source_side, target_side = _sides(folder)
    model = _model(folder, source_side, target_side)
    languages = folder.tokenizer_config
    metadata = {"source": languages.get("source_lang"), "target": languages.get("target_lang")}
    tokens = target_languages(source_side.pieces)
    preprocessor = TranslationPreprocessor(
        target_side.tokenizer,
        source_side.tokenizer,
        target_prefix=forced_prefix(folder, target_side.order, target_side.pieces),
    )
    return Preset(
        model=model,
        preprocessor=preprocessor,
        metadata={
            **{name: language for name, language in metadata.items() if language},
            **language_tokens(target_lang=("source_prefix", tokens)),
        },
        search=generation_search(folder, target_side.order.rows),
    )


# Vocabularies: two SentencePiece models over one list of tokens, or over two


def _sides(folder: HFCheckpoint) -> tuple[Side, Side]:
    """Read the vocabularies of source and target.

    Args:
        folder: an `HFCheckpoint`.

    Returns:
        Two `Side`s, with one order if their embeddings are one matrix.

    Raises:
        UserError: if a file is missing or damaged, or the files do not match.
    """
    is_shared = folder.option("share_encoder_decoder_embeddings", True, False)
    is_separate = bool(folder.tokenizer_config.get("separate_vocabs"))
    names = _special_tokens(folder)
    start, end, pad = (
        generation_option(folder, f"{name}_token_id") for name in ("decoder_start", "eos", "pad")
    )
    source_ids = folder.vocabulary("vocab.json", [folder.size("vocab_size")])
    source_end, unknown, source_pad = (_token_id(source_ids, name, "vocab.json") for name in names)
    if is_shared:
        if is_separate:
            raise UserError(
                f"{folder.path}: separate_vocabs=True in tokenizer_config.json contradicts "
                "share_encoder_decoder_embeddings=True in config.json."
            )
        if (source_end, source_pad) != (end, pad):
            raise UserError(
                f"{folder.path}: vocab.json and config.json do not match. They have different ids "
                "for the end token and padding."
            )
        order = reserve(len(source_ids), start, end, unknown, pad)
        source_order, target_ids = order, source_ids
    else:
        file = "target_vocab.json" if is_separate else "vocab.json"
        size = folder.size(
            "decoder_vocab_size" if "decoder_vocab_size" in folder.config else "vocab_size"
        )
        target_ids = folder.vocabulary(file, [size])
        order = reserve(len(target_ids), start, end, _token_id(target_ids, names[1], file), pad)
        # No source begins with a start token, so if it is missing, any token can take its place.
        source_start = source_ids.get(RESERVED[START_ID], source_pad)
        source_order = reserve(len(source_ids), source_start, source_end, unknown, source_pad)
    return (
        make_side(folder.file("source.spm"), source_order, [*source_ids]),
        make_side(folder.file("target.spm"), order, [*target_ids]),
    )


def _special_tokens(folder: HFCheckpoint) -> list[str]:
    """Return the names of the end token, the unknown token and padding."""
    names = (folder.tokenizer_config.get(role) or name for role, name in _SPECIAL_TOKENS.items())
    return [name.get("content", "") if isinstance(name, dict) else name for name in names]


def _token_id(ids: Mapping[str, int], token: str, name: str) -> int:
    if not isinstance(token, str) or token not in ids:
        raise UserError(f"{name} has no token {brief(token)}.")
    return ids[token]


# Model


def _model(folder: HFCheckpoint, source_side: Side, target_side: Side) -> Transformer:
    order = target_side.order
    if renormalizes_without_padding(folder):  # mark padding as a copy, to hide it from the softmax
        order = order._replace(copies=np.union1d(order.copies, [PAD_ID]))
    names = _names(folder)
    for name, side in zip(names, (source_side, target_side, target_side)):
        folder.validate_table(name, int(side.order.rows.max()) + 1)
    tables = Tables.from_names(
        folder.tensor, names, order, source_side.order, _logits_bias(folder, order)
    )
    options = {
        **hyperparameters(folder, _FIXED),
        "use_bias": _has_biases(folder),
        "layer_norm_epsilon": TORCH_NORM_EPSILON,
    }
    model = build_hf_model(folder, tables, options)
    _validate_positions(folder, model.config.hidden_dim)
    folder.validate_all_read(needless=TABLES)
    return model


def _names(folder: HFCheckpoint) -> tuple[str, str, str]:
    """Return the names of the matrices of source, target and logits."""
    is_shared = folder.option("share_encoder_decoder_embeddings", True, False)
    is_tied = folder.option("tie_word_embeddings", True, False)
    if is_shared:
        return shared_table_names(folder, is_tied)
    _, source, target, output = TABLES
    if target not in folder.names:
        target = output
    return source, target, target if is_tied else output


def _logits_bias(folder: HFCheckpoint, order: VocabPermutation) -> np.ndarray | None:
    """Return the bias of the logits, or None if it is missing or zero."""
    if _LOGITS_BIAS not in folder.names:
        return None
    bias = folder.tensor(_LOGITS_BIAS).ravel()
    if len(bias) != order.rows.max() + 1:
        raise UserError(
            f"{folder.path}: {_LOGITS_BIAS} and the vocabulary do not match. {_LOGITS_BIAS} has "
            f"{len(bias)} tokens; the vocabulary has {order.rows.max() + 1}."
        )
    return bias if bias.any() else None


def _has_biases(folder: HFCheckpoint) -> bool:
    """Return whether any attention projection has a bias that is not zero."""
    names = [name for name in folder.names if "_attn." in name and name.endswith("_proj.bias")]
    return any([folder.tensor(name).any() for name in names])  # a list, so that all are read


def _validate_positions(folder: HFCheckpoint, hidden_dim: int) -> None:
    """Check that the table of positions of older files holds the sinusoids."""
    for name in _POSITIONS:
        if name not in folder.names:
            continue
        table = folder.tensor(name)
        rates = 10000.0 ** (-np.arange(0, hidden_dim, 2) / hidden_dim)
        angles = np.arange(len(table))[:, None] * rates
        sinusoids = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
        if table.shape != sinusoids.shape or not np.allclose(table, sinusoids, atol=1e-2):
            raise UserError(
                f"Unsupported positions `{name}` in {folder.path}. Expected Marian's sinusoids."
            )
