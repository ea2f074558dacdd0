"""fairseq's models of WMT 2019, as HuggingFace's transformers keeps them."""

from keras_transformer.convert.fairseq import model_of, order_of
from keras_transformer.convert.generation import forced_prefix, search_of
from keras_transformer.convert.hf_checkpoint import open_foreign
from keras_transformer.convert.vocabulary import reserve
from keras_transformer.data.moses_tokenizer import MosesTokenizer
from keras_transformer.errors import UserError
from keras_transformer.translation.translator import Translator

_TABLES = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "model.decoder.output_projection.weight",
)
_SOURCE, _TARGET, _MERGES = "vocab-src.json", "vocab-tgt.json", "merges.txt"
_PAD, _START, _END, _UNKNOWN = _SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")


def fsmt(source):
    """Read a model of FSMT, such as `facebook/wmt19-en-de`, in HuggingFace's form.

    ```python
    translator = kt.convert.fsmt("hf://facebook/wmt19-en-de")
    translator(["A dog runs."])
    ```

    The model is the same function but for the order of its tokens and of d_model's positions:
    logits, searches and scores are those of transformers, where `generate` is called with
    `early_stopping="never"`, never gives padding and is not forced to end. The search follows
    the folder's options for `generate`: see `kt.convert.marian`.

    Text is split by the rules of Moses, which run in Python alone: see `data.MosesTokenizer`. A
    SavedModel cannot take strings. An unknown token is written as "⁇", where transformers leaves it
    out; special tokens in the text itself (`</s>`) are text.

    Args:
        source: path of a folder with `config.json`, `model.safetensors` or `pytorch_model.bin`,
            `vocab-src.json`, `vocab-tgt.json` and `merges.txt`; or `hf://user/repository`.

    Returns:
        A `Translator`.

    Raises:
        UserError: if there is no such folder, repository or network; if a file is missing, damaged
            or of another model; if the model has an option that is not there in this package; if
            the packages `sacremoses` and `tokenizers` are not installed.
    """
    folder = open_foreign(source)
    folder.check_type("fsmt")
    source_size, target_size = folder.size("src_vocab_size"), folder.size("tgt_vocab_size")
    source_ids = _vocabulary(folder, _SOURCE, source_size)
    target_ids = _vocabulary(folder, _TARGET, target_size)
    pad, _, end, unknown = (source_ids[token] for token in _SPECIAL)
    order = order_of(folder, target_size, target_ids[_UNKNOWN])
    source_order = order
    if source_ids != target_ids or source_size != target_size:
        source_order = reserve(
            source_size, start=source_ids[_START], end=end, unknown=unknown, pad=pad
        )
    model = model_of(
        *(folder, _tables(folder), order, source_order), normalize_first=False, needless=_TABLES
    )
    languages = _languages(folder)
    source_tokenizer, tokenizer = (
        _tokenizer(folder, side.pieces([*ids]), language)
        for side, ids, language in (
            (source_order, source_ids, languages["source"]),
            (order, target_ids, languages["target"]),
        )
    )
    return Translator(
        model,
        tokenizer,
        source_tokenizer=source_tokenizer,
        metadata=languages,
        target_prefix=forced_prefix(folder, order, tokenizer.tokens),
        search=search_of(folder, order.rows),
    )


def _vocabulary(folder, name, size):
    """The dict of a vocabulary's file, token -> id, in the order of the ids."""
    ids = folder.vocabulary(name)
    if len(ids) > size:
        raise UserError(
            f"{folder.path}: {name} has {len(ids):,} tokens, and config.json says {size:,}: they "
            "do not belong together."
        )
    for token in _SPECIAL:
        if token not in ids:
            raise UserError(f"{folder.path / name} has no token {token!r}.")
    return ids


def _languages(folder):
    """The codes of both languages: `{"source": ..., "target": ...}`."""
    languages = folder.config.get("langs")
    languages = folder.tokenizer_config.get("langs") or languages
    is_list = isinstance(languages, list) and len(languages) == 2
    if not is_list or not all(isinstance(code, str) for code in languages):
        raise UserError(
            f"{folder.path} does not tell its languages. Expected `langs`, a list of two codes, in "
            f"config.json. Received: {languages!r}"
        )
    return dict(zip(("source", "target"), languages))


def _tokenizer(folder, pieces, language):
    try:
        rows = folder.file(_MERGES).read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{folder.path / _MERGES} is damaged: {error}") from error
    pairs = [row.split()[:2] for row in rows]
    lowercase = bool(folder.tokenizer_config.get("do_lower_case"))
    return MosesTokenizer(
        pieces, [pair for pair in pairs if len(pair) == 2], language, lowercase=lowercase
    )


def _tables(folder):
    """The names of the matrices of source, target and logits.

    Where the configuration says nothing else, the projection to logits is a matrix of its own, or
    is left out of the file because it is the target's embeddings.
    """
    source, target, output = _TABLES
    if folder.option("tie_word_embeddings", False, True):
        return target, target, target
    return source, target, output if output in folder.names else target
