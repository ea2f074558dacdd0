"""Marian's models, OPUS-MT among them, as HuggingFace's transformers keeps them."""

import numpy as np

from keras_transformer.convert.embedding_tables import Tables
from keras_transformer.convert.generation import (
    forced_prefix,
    renormalizes_without_padding,
    search_of,
)
from keras_transformer.convert.hf_checkpoint import open_foreign
from keras_transformer.convert.marian_vocabulary import read_sides, source_prefix
from keras_transformer.convert.weights import (
    TABLES,
    TORCH_NORM_EPSILON,
    assign,
    halves_to_interleaved,
    hyperparameters,
    names_of_shared,
    stack_places,
)
from keras_transformer.errors import UserError
from keras_transformer.models.encoder_decoder import zero_embeddings
from keras_transformer.models.transformer import Transformer
from keras_transformer.reserved_ids import PAD_ID
from keras_transformer.translation.translator import Translator

# Configurations of 2020 have more options of BART. Today's transformers ignores all of them, and so
# does this module where the weights show their effect: `extra_pos_embeddings` (which is
# pad_token_id + 1), `normalize_embedding`, `add_final_layer_norm`, `static_position_embeddings`.
_FIXED = {"normalize_before": False}
_POSITIONS = tuple(f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder"))
_LOGITS_BIAS = "final_logits_bias"


def marian(source, target_language=None):
    """Read a Marian model, such as one of OPUS-MT's, in HuggingFace's form.

    ```python
    translator = kt.convert.marian("hf://Helsinki-NLP/opus-mt-en-de")
    translator(["A dog runs."])
    translator.save_to_preset("opus_mt_en_de")

    kt.convert.marian("hf://Helsinki-NLP/opus-mt-en-gem", target_language="deu")
    ```

    The model is the same function but for the order of its tokens and of d_model's positions:
    logits, searches and scores are those of transformers, where `generate` is called with
    `early_stopping="never"`. Biases of attention that are all zero are left out. Where the folder
    has `renormalize_logits` and never gives padding, the softmax leaves padding out.

    The search follows the folder's options for `generate`: `num_beams` (1 if it is missing,
    greedy search), `length_penalty`, `do_sample`, `temperature`, `top_k` and `top_p`. These become
    constraints: `min_length`, `max_length` if it is below the number of positions,
    `no_repeat_ngram_size`, `repetition_penalty`, `bad_words_ids` of one token each and
    `suppress_tokens`. `forced_bos_token_id` becomes the `target_prefix`. A warning names the other
    options that would change an output. An output is also at most 50 tokens longer than its source:
    see `extra_length`.

    Text is split as by transformers' tokenizer, by the two SentencePiece models and their
    normalisation, with three exceptions. Special tokens and languages' names in the text itself
    (`</s>`, `>>deu<<`) are text; a language is chosen by `target_language`, or later by
    `translator.tagged(">>deu<<")`. Of characters that `source.spm` does not know, each is a token,
    where transformers has one for a row of them. What `vocab.json` lacks of a SentencePiece model
    is split into what it has, where transformers gives the unknown token.

    Args:
        source: path of a folder with `config.json`, `model.safetensors` or `pytorch_model.bin`,
            `source.spm`, `target.spm` and `vocab.json`; or `hf://user/repository`.
        target_language: of a model with several target languages, the one to translate into:
            `"deu"` stands for the token `>>deu<<`, which then begins every source.

    Returns:
        A `Translator`.

    Raises:
        UserError: if there is no such folder, repository or network; if a file is missing, damaged
            or of another model; if the model has an option that is not there in this package, or
            does not translate into the language.
    """
    folder = open_foreign(source)
    folder.check_type("marian")
    source_side, target_side = read_sides(folder)
    prefix = source_prefix(folder, source_side.pieces, target_language)
    model = _model(folder, source_side, target_side)
    languages = folder.tokenizer_config
    metadata = {
        "source": languages.get("source_lang"),
        "target": target_language or languages.get("target_lang"),
    }
    return Translator(
        model,
        target_side.tokenizer(),
        source_tokenizer=source_side.tokenizer(),
        source_prefix=prefix,
        target_prefix=forced_prefix(folder, target_side.order, target_side.pieces),
        metadata={name: language for name, language in metadata.items() if language},
        search=search_of(folder, target_side.order.rows),
    )


# Model


def _model(folder, source_side, target_side):
    order = target_side.order
    if renormalizes_without_padding(folder):  # as if it were a copy, which the softmax never sees
        order = order._replace(copies=np.union1d(order.copies, [PAD_ID]))
    tables = Tables.of_names(
        folder.tensor, _names(folder), order, source_side.order, _logits_bias(folder, order)
    )
    with zero_embeddings():
        model = Transformer(
            **tables.hyperparameters(),
            use_bias=_has_biases(folder),
            layer_norm_epsilon=TORCH_NORM_EPSILON,
            **hyperparameters(folder, _FIXED),
        )
    hidden_order = halves_to_interleaved(model.config.hidden_dim)
    tables.assign(model, hidden_order)
    assign(stack_places(model), lambda name: folder.tensor(f"model.{name}"), hidden_order)
    _check_positions(folder, model.config.hidden_dim)
    folder.check_all_read(needless=TABLES)
    return model


def _names(folder):
    """The names of the matrices of source, target and logits."""
    is_shared = folder.option("share_encoder_decoder_embeddings", True, False)
    is_tied = folder.option("tie_word_embeddings", True, False)
    if is_shared:
        return names_of_shared(folder, is_tied)
    _, source, target, output = TABLES
    if target not in folder.names:
        target = output
    return source, target, target if is_tied else output


def _logits_bias(folder, order):
    """That of logits, or None where it says nothing."""
    if _LOGITS_BIAS not in folder.names:
        return None
    bias = folder.tensor(_LOGITS_BIAS).ravel()
    if len(bias) != order.rows.max() + 1:
        raise UserError(
            f"{folder.path} has a {_LOGITS_BIAS} of {len(bias)} tokens, where the vocabulary has "
            f"{order.rows.max() + 1}: they do not belong together."
        )
    return bias if bias.any() else None


def _has_biases(folder):
    """Whether any projection of an attention has a bias that is not zero."""
    names = [name for name in folder.names if "_attn." in name and name.endswith("_proj.bias")]
    return any([folder.tensor(name).any() for name in names])  # all of them are read


def _check_positions(folder, hidden_dim):
    """Older files have the table of positions, which is none but the sinusoids."""
    for name in _POSITIONS:
        if name not in folder.names:
            continue
        table = folder.tensor(name)
        rates = 10000.0 ** (-np.arange(0, hidden_dim, 2) / hidden_dim)
        angles = np.arange(len(table))[:, None] * rates
        sinusoids = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
        if table.shape != sinusoids.shape or not np.allclose(table, sinusoids, atol=1e-2):
            raise UserError(
                f"{folder.path} has positions {name!r} that are not Marian's sinusoids, which is "
                "not there in this package."
            )
