"""Converters of models that fairseq trained, in HuggingFace's form: FSMT, M2M-100 and NLLB-200."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_transformer.convert.embedding_tables import Tables, VocabPermutation, reserve
from keras_transformer.convert.foreign_transformer import marian_wavelength
from keras_transformer.convert.generation import forced_prefix, generation_option, generation_search
from keras_transformer.convert.hf_checkpoint import HFCheckpoint, build_hf_model, open_checkpoint
from keras_transformer.convert.m2m_vocabulary import M2mVocabulary, read_vocabulary
from keras_transformer.convert.weight_mapping import (
    TABLES,
    TORCH_NORM_EPSILON,
    hyperparameters,
    shared_table_names,
)
from keras_transformer.data.language_selection import language_tokens
from keras_transformer.data.moses_tokenizer import MosesTokenizer
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.errors import UserError, brief
from keras_transformer.models.transformer import Transformer
from keras_transformer.presets.format import Preset
from keras_transformer.reserved_ids import PAD_ID

# FSMT

_FSMT_TABLES = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "model.decoder.output_projection.weight",
)
_SOURCE, _TARGET, _MERGES = "vocab-src.json", "vocab-tgt.json", "merges.txt"
_PAD, _START, _END, _UNKNOWN = _SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")


def fsmt(source: str | Path) -> Preset:
    """Convert an FSMT model of WMT 2019 in HuggingFace's form (built from its description).

    ```python
    preset = kt.convert.fsmt("downloads/wmt19-en-de")
    translator = kt.Translator.from_preset(preset)
    translator(["A dog runs."])
    ```

    The model computes the same function, except that its tokens and the positions of d_model are
    reordered. Logits, searches and scores equal transformers' when `generate` is called with
    `early_stopping="never"`, never returns padding and is not forced to end. The search follows
    the folder's options for `generate`: see `kt.convert.marian`.

    Text is split by the rules of Moses, which run only in Python: see `data.MosesTokenizer`. So a
    SavedModel cannot take strings. An unknown token is written as "⁇", which transformers leaves
    out. Special tokens in the text itself (`</s>`) are text.

    Args:
        source: path of a folder with `config.json`, `model.safetensors` or `pytorch_model.bin`,
            `vocab-src.json`, `vocab-tgt.json` and `merges.txt`; or `hf://user/repository`.

    Returns:
        A `kt.convert.Preset`, which `kt.Translator.from_preset` accepts.

    Raises:
        UserError: if there is no such folder, repository or network; if a file is missing, damaged
            or of another model; if an option of the model is not supported; if the packages
            `sacremoses` and `tokenizers` are not installed.
    """
    folder = open_checkpoint(source)
    folder.validate_type("fsmt")
    source_size, target_size = folder.size("src_vocab_size"), folder.size("tgt_vocab_size")
    source_ids = _fsmt_vocabulary(folder, _SOURCE, source_size)
    target_ids = _fsmt_vocabulary(folder, _TARGET, target_size)
    names = _fsmt_tables(folder)
    for name, size in zip(names, (source_size, target_size, target_size)):
        folder.validate_table(name, size)
    pad, _, end, unknown = (source_ids[token] for token in _SPECIAL)
    order = _token_order(folder, target_size, target_ids[_UNKNOWN])
    source_order = order
    if source_ids != target_ids or source_size != target_size:
        source_order = reserve(
            source_size, start=source_ids[_START], end=end, unknown=unknown, pad=pad
        )
    model = _build_model(
        folder, names, order, source_order, normalize_first=False, needless=_FSMT_TABLES
    )
    languages = _fsmt_languages(folder)
    source_tokenizer, tokenizer = (
        _fsmt_tokenizer(folder, side.pieces([*ids]), language)
        for side, ids, language in (
            (source_order, source_ids, languages["source"]),
            (order, target_ids, languages["target"]),
        )
    )
    preprocessor = TranslationPreprocessor(
        tokenizer,
        source_tokenizer,
        target_prefix=forced_prefix(folder, order, tokenizer.tokens),
    )
    return Preset(
        model=model,
        preprocessor=preprocessor,
        metadata=languages,
        search=generation_search(folder, order.rows),
    )


def _fsmt_vocabulary(folder: HFCheckpoint, name: str, size: int) -> dict[str, int]:
    """Return the vocabulary of a file, token -> id, in the order of the ids."""
    ids = folder.vocabulary(name, range(size + 1))
    for token in _SPECIAL:
        if token not in ids:
            raise UserError(f"{folder.path / name} has no token {brief(token)}.")
    return ids


def _fsmt_languages(folder: HFCheckpoint) -> dict[str, str]:
    """Return the codes of both languages: `{"source": ..., "target": ...}`."""
    languages: Any = folder.tokenizer_config.get("langs") or folder.config.get("langs")
    is_list = isinstance(languages, list) and len(languages) == 2
    if not is_list or not all(isinstance(code, str) for code in languages):
        raise UserError(
            f"{folder.path} does not name its languages. Expected `langs`, a list of two codes, in "
            f"config.json. Received: {brief(languages)}"
        )
    return dict(zip(("source", "target"), languages))


def _fsmt_tokenizer(folder: HFCheckpoint, pieces: list[str], language: str) -> Any:
    """Return a `MosesTokenizer`, which takes the place of a `Tokenizer`."""
    try:
        rows = folder.file(_MERGES).read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{folder.path / _MERGES} is damaged: {error}") from error
    pairs = [row.split()[:2] for row in rows]
    lowercase = bool(folder.tokenizer_config.get("do_lower_case"))
    return MosesTokenizer(
        pieces, [pair for pair in pairs if len(pair) == 2], language, lowercase=lowercase
    )


def _fsmt_tables(folder: HFCheckpoint) -> tuple[str, str, str]:
    """Return the names of the matrices of source, target and logits.

    By default the projection to logits is its own matrix. It may be missing from the file if it
    equals the target's embeddings.
    """
    source, target, output = _FSMT_TABLES
    if folder.option("tie_word_embeddings", False, True):
        return target, target, target
    return source, target, output if output in folder.names else target


# M2M-100 and NLLB-200


def m2m100(
    source: str | Path, source_language: str | None = None, target_language: str | None = None
) -> Preset:
    """Convert an M2M-100 or NLLB-200 model in HuggingFace's form (built from its description).

    ```python
    preset = kt.convert.m2m100("downloads/m2m100", "en", "de")
    translator = kt.Translator.from_preset(preset)
    translator(["A dog runs."])

    kt.convert.m2m100("downloads/nllb", "eng_Latn", "deu_Latn")
    ```

    The model computes the same function, except that its tokens and the positions of d_model are
    reordered. Logits, searches and scores equal transformers' when `generate` is called with
    `early_stopping="never"` and never returns padding. The search follows the folder's options for
    `generate`: see `kt.convert.marian`.

    Text is split by the folder's SentencePiece model. For an NLLB-200 folder that has only a
    `tokenizer.json`, a SentencePiece model is created from it. Special tokens and names of
    languages in the text itself (`</s>`, `__de__`) are text. White space at the end of a text is
    not a token, although `tokenizer.json` makes it one.

    Args:
        source: path of a folder with `config.json`, `model.safetensors` or `pytorch_model.bin`, and
            `sentencepiece.bpe.model` and `vocab.json`, or `sentencepiece.bpe.model` or
            `tokenizer.json`; or `hf://user/repository`.
        source_language: the language to translate from, by the model's code: `"en"` for M2M-100,
            `"eng_Latn"` for NLLB-200. Its token begins every source. Defaults to the `src_lang` of
            the folder's tokenizer.
        target_language: the language to translate into. Its token begins every output, and is left
            out of text. Defaults to the folder's `forced_bos_token_id`, or its tokenizer's
            `tgt_lang`.

    Returns:
        A `kt.convert.Preset`, which `kt.Translator.from_preset` accepts.

    Raises:
        UserError: if there is no such folder, repository or network; if a file is missing, damaged
            or of another model; if an option of the model or the language is not supported.
    """
    folder = open_checkpoint(source)
    folder.validate_type("m2m_100")
    _m2m_languages(folder, read_vocabulary(folder), source_language, target_language)
    return convert_m2m100(source).in_languages(source_language, target_language)


def convert_m2m100(source: str | Path) -> Preset:
    """Convert an M2M-100 or NLLB-200 model with the folder's languages, if it names them."""
    folder = open_checkpoint(source)
    folder.validate_type("m2m_100")
    vocabulary = read_vocabulary(folder)
    names = shared_table_names(folder, folder.option("tie_word_embeddings", True, False))
    for name in names:
        folder.validate_table(name, folder.size("vocab_size"))
    order, tokenizer, tokens = vocabulary.in_our_order(_m2m_order(folder, vocabulary))
    languages = _m2m_defaults(folder, vocabulary)
    model = _build_model(folder, names, order, order, normalize_first=True, needless=TABLES)
    known = {side: code for side, code in languages.items() if code in tokens}
    prefixes: dict[str, Any] = {f"{side}_prefix": (tokens[code],) for side, code in known.items()}
    return Preset(
        model=model,
        preprocessor=TranslationPreprocessor(tokenizer, **prefixes),
        metadata={
            **known,
            **language_tokens(
                source_lang=("source_prefix", tokens), target_lang=("target_prefix", tokens)
            ),
        },
        search=generation_search(folder, order.rows),
    )


def _m2m_order(folder: HFCheckpoint, vocabulary: M2mVocabulary) -> VocabPermutation:
    size = folder.size("vocab_size")
    if len(vocabulary.names) > size:
        raise UserError(
            f"{folder.path}: the vocabulary and config.json do not match. The vocabulary has "
            f"{len(vocabulary.names):,} tokens; config.json expects {size:,}."
        )
    if "<unk>" not in vocabulary.names:
        raise UserError(f"{folder.path}: its vocabulary has no token '<unk>'.")
    return _token_order(folder, size, vocabulary.names.index("<unk>"))


def _m2m_languages(
    folder: HFCheckpoint, vocabulary: M2mVocabulary, source: str | None, target: str | None
) -> dict[str, str]:
    """Return the codes of both languages: `{"source": ..., "target": ...}`."""
    defaults = _m2m_defaults(folder, vocabulary)
    forced = generation_option(folder, "forced_bos_token_id")
    if target is None and forced is not None and forced not in vocabulary.languages.values():
        raise UserError(
            f"{folder.path} has forced_bos_token_id={brief(forced)}, which is not the token of a "
            "language. Pass `target_language`."
        )
    languages: dict[str, Any] = {
        "source": source or defaults["source"],
        "target": target or defaults["target"],
    }
    for side, language in languages.items():
        if language not in [*vocabulary.languages]:
            known = ", ".join(vocabulary.languages) or "none"
            found = (
                f"has no `{side}_language={language}`"
                if language
                else f"does not name its {side} language: pass `{side}_language`"
            )
            raise UserError(f"{folder.path} {found}. Expected one of: {known}.")
    return languages


def _m2m_defaults(folder: HFCheckpoint, vocabulary: M2mVocabulary) -> dict[str, Any]:
    """Return the codes of the languages that a folder selects, each of which may be None."""
    config = folder.tokenizer_config
    forced = generation_option(folder, "forced_bos_token_id")
    code = next((code for code, i in vocabulary.languages.items() if i == forced), None)
    languages = {"source": config.get("src_lang"), "target": code or config.get("tgt_lang")}
    for side, language in languages.items():
        if not isinstance(language, str | None):
            raise UserError(
                f"{folder.path}: the {side} language in tokenizer_config.json must be a string. "
                f"Received: {brief(language)}"
            )
    return languages


# Both families

# Tables of sinusoids in older files, which are computed instead.
_POSITIONS = tuple(
    f"model.{stack}.embed_positions.{name}"
    for stack in ("encoder", "decoder")
    for name in ("weight", "weights", "_float_tensor")
)


def _build_model(
    folder: HFCheckpoint,
    names: tuple[str, str, str],
    order: VocabPermutation,
    source_order: VocabPermutation,
    normalize_first: bool,
    needless: Iterable[str] = (),
) -> Transformer:
    """Build a `Transformer` with the weights of a folder.

    fairseq's sinusoids are in halves, have their own wavelengths, and begin after the position of
    padding.

    Args:
        folder: an `HFCheckpoint`.
        names: the names of the source's and the target's embeddings, and of the projection to
            logits, which may be the same.
        order: `VocabPermutation` of the target's tokens.
        source_order: `VocabPermutation` of the source's tokens.
        normalize_first: whether the model is pre-norm, with a normalization after each stack.
        needless: names of weights that may be in the folder as another name of a weight.

    Returns:
        A `Transformer`.

    Raises:
        UserError: if an option is not supported, or weights are missing or left over.
    """
    hidden_dim = folder.size("d_model")
    if hidden_dim < 4 or hidden_dim % 2:
        raise UserError(
            f"{folder.path}: d_model must be an even number, 4 or larger, for pairs of sinusoids. "
            f"Received: d_model={hidden_dim}"
        )
    tables = Tables.from_names(folder.tensor, names, order, source_order)
    options = {
        **hyperparameters(folder),
        "scale_embeddings": folder.option("scale_embedding", True, False),
        "max_wavelength": marian_wavelength(hidden_dim),
        "first_position": int(order.rows[PAD_ID]) + 1,
        "normalize_first": normalize_first,
        "use_bias": True,
        "layer_norm_epsilon": TORCH_NORM_EPSILON,
    }
    model = build_hf_model(folder, tables, options)
    folder.validate_all_read(needless=(*needless, *_POSITIONS))
    return model


def _token_order(folder: HFCheckpoint, size: int, unknown: int) -> VocabPermutation:
    """Return the `VocabPermutation` of a target whose decoder starts with the end token.

    Args:
        folder: an `HFCheckpoint`.
        size: the number of embeddings.
        unknown: the foreign id of the unknown token.
    """
    start, end, pad = (
        generation_option(folder, f"{name}_token_id", default)
        for name, default in (("decoder_start", 2), ("eos", 2), ("pad", 1))
    )
    return reserve(size, start=start, end=end, unknown=unknown, pad=pad)
