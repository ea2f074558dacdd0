"""M2M-100 and NLLB-200, as HuggingFace's transformers keeps them."""

from keras_transformer.convert.fairseq import model_of, order_of
from keras_transformer.convert.generation import generation_option, search_of
from keras_transformer.convert.hf_checkpoint import open_foreign
from keras_transformer.convert.m2m_vocabulary import read_vocabulary
from keras_transformer.convert.weights import TABLES, names_of_shared
from keras_transformer.errors import UserError
from keras_transformer.translation.translator import Translator


def m2m100(source, source_language=None, target_language=None):
    """Read a model of M2M-100 or NLLB-200, in HuggingFace's form.

    ```python
    translator = kt.convert.m2m100("hf://facebook/m2m100_418M", "en", "de")
    translator(["A dog runs."])

    kt.convert.m2m100("hf://facebook/nllb-200-distilled-600M", "eng_Latn", "deu_Latn")
    ```

    The model is the same function but for the order of its tokens and of d_model's positions:
    logits, searches and scores are those of transformers, where `generate` is called with
    `early_stopping="never"` and never gives padding. The search follows the folder's options for
    `generate`: see `kt.convert.marian`.

    Text is split as the folder's SentencePiece model does; of NLLB-200 alone, where the folder has
    just a `tokenizer.json`, by a SentencePiece model that is made of it. Special tokens and
    languages' names in the text itself (`</s>`, `__de__`) are text. White space at the end of a
    text is no token, as it is to the `tokenizer.json`.

    Args:
        source: path of a folder with `config.json`, `model.safetensors` or `pytorch_model.bin`, and
            `sentencepiece.bpe.model` and `vocab.json`, or `sentencepiece.bpe.model` or
            `tokenizer.json`; or `hf://user/repository`.
        source_language: the language to translate from, by its code there: `"en"` of M2M-100,
            `"eng_Latn"` of NLLB-200. Its token begins every source. Defaults to the `src_lang` of
            the folder's tokenizer.
        target_language: the language to translate into. Its token begins every output, and is left
            out of text. Defaults to the folder's `forced_bos_token_id`, or its tokenizer's
            `tgt_lang`.

    Returns:
        A `Translator`.

    Raises:
        UserError: if there is no such folder, repository or network; if a file is missing, damaged
            or of another model; if the model has an option that is not there in this package, or
            not the language.
    """
    folder = open_foreign(source)
    folder.check_type("m2m_100")
    vocabulary = read_vocabulary(folder)
    order, tokenizer, tokens = vocabulary.in_our_order(_order(folder, vocabulary))
    languages = _languages(folder, vocabulary, source_language, target_language)
    names = names_of_shared(folder, folder.option("tie_word_embeddings", True, False))
    model = model_of(
        *(folder, names, order, order),
        normalize_first=True,
        needless=TABLES,
    )
    return Translator(
        model,
        tokenizer,
        source_prefix=(tokens[languages["source"]],),
        target_prefix=(tokens[languages["target"]],),
        metadata=languages,
        search=search_of(folder, order.rows),
    )


def _order(folder, vocabulary):
    size = folder.size("vocab_size")
    if len(vocabulary.names) > size:
        raise UserError(
            f"{folder.path}: its vocabulary has {len(vocabulary.names):,} tokens, and config.json "
            f"says {size:,}: they do not belong together."
        )
    if "<unk>" not in vocabulary.names:
        raise UserError(f"{folder.path}: its vocabulary has no token '<unk>'.")
    return order_of(folder, size, vocabulary.names.index("<unk>"))


def _languages(folder, vocabulary, source, target):
    """The codes of both languages: `{"source": ..., "target": ...}`."""
    config = folder.tokenizer_config
    forced = generation_option(folder, "forced_bos_token_id")
    code = next((code for code, i in vocabulary.languages.items() if i == forced), None)
    if target is None and forced is not None and code is None:
        raise UserError(
            f"{folder.path} has forced_bos_token_id={forced!r}, which is not the token of a "
            "language. Pass `target_language`."
        )
    languages = {
        "source": source or config.get("src_lang"),
        "target": target or code or config.get("tgt_lang"),
    }
    for side, language in languages.items():
        if language not in [*vocabulary.languages]:
            known = ", ".join(vocabulary.languages) or "none"
            found = (
                f"has no `{side}_language={language}`"
                if language
                else (f"does not say its {side} language: pass `{side}_language`")
            )
            raise UserError(f"{folder.path} {found}. Expected one of: {known}.")
    return languages
