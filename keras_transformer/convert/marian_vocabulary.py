"""Vocabularies of Marian's folders: two SentencePiece models over one list of tokens, or two."""

import logging
from pathlib import Path
from typing import NamedTuple

from keras_transformer.convert.generation import generation_option
from keras_transformer.convert.vocabulary import Order, reserve
from keras_transformer.data.sentencepiece_model import RESERVED, reordered_proto
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import START_ID

logger = logging.getLogger(__name__)

_SPECIAL_TOKENS = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


class Side(NamedTuple):
    """The source's or the target's part."""

    order: Order
    pieces: list[str]  # in our order
    spm: Path  # the SentencePiece model

    def tokenizer(self):
        """The `Tokenizer` that splits text as the SentencePiece model does, into our ids."""
        try:
            # The unknown token is left out of text, as by transformers' `skip_special_tokens`.
            return Tokenizer(reordered_proto(self.spm.read_bytes(), self.pieces, unknown=""))
        except UserError as error:
            raise UserError(f"{self.spm}: {error}") from error


def read_sides(folder):
    """The vocabularies of source and target.

    Args:
        folder: a `ForeignFolder`.

    Returns:
        Two `Side`s, of one order if their embeddings are one matrix.

    Raises:
        UserError: if a file is missing or damaged, or they do not belong together.
    """
    is_shared = folder.option("share_encoder_decoder_embeddings", True, False)
    is_separate = bool(folder.tokenizer_config.get("separate_vocabs"))
    names = _special_tokens(folder)
    start, end, pad = (
        generation_option(folder, f"{name}_token_id") for name in ("decoder_start", "eos", "pad")
    )
    source_ids = _vocabulary(folder, "vocab.json", folder.size("vocab_size"))
    source_end, unknown, source_pad = (_id_of(source_ids, name, "vocab.json") for name in names)
    if is_shared:
        if is_separate:
            raise UserError(
                f"{folder.path} has separate_vocabs=True in tokenizer_config.json and "
                "share_encoder_decoder_embeddings=True in config.json: they do not belong together."
            )
        if (source_end, source_pad) != (end, pad):
            raise UserError(
                f"{folder.path}: vocab.json and config.json name other ids for the end token and "
                "padding: they do not belong together."
            )
        order = reserve(len(source_ids), start, end, unknown, pad)
        source_order, target_ids = order, source_ids
    else:
        file = "target_vocab.json" if is_separate else "vocab.json"
        size = folder.size(
            "decoder_vocab_size" if "decoder_vocab_size" in folder.config else "vocab_size"
        )
        target_ids = _vocabulary(folder, file, size)
        order = reserve(len(target_ids), start, end, _id_of(target_ids, names[1], file), pad)
        # No source begins with a start token: without one it is whichever.
        source_start = source_ids.get(RESERVED[START_ID], source_pad)
        source_order = reserve(len(source_ids), source_start, source_end, unknown, source_pad)
    return (
        Side(source_order, source_order.pieces([*source_ids]), folder.file("source.spm")),
        Side(order, order.pieces([*target_ids]), folder.file("target.spm")),
    )


def _special_tokens(folder):
    """The names of the end token, the unknown token and padding."""
    names = (folder.tokenizer_config.get(role) or name for role, name in _SPECIAL_TOKENS.items())
    return [name.get("content") if isinstance(name, dict) else name for name in names]


def _vocabulary(folder, name, size):
    """The dict of a vocabulary's file, token -> id, in the order of the ids."""
    ids = folder.vocabulary(name)
    if len(ids) != size:
        raise UserError(
            f"{folder.path}: {name} has {len(ids):,} tokens, and config.json says {size:,}: they "
            "do not belong together."
        )
    return ids


def _id_of(ids, token, name):
    if token not in ids:
        raise UserError(f"{name} has no token {token!r}.")
    return ids[token]


def source_prefix(folder, pieces, language):
    """The tokens that say which language to translate into.

    Args:
        folder: a `ForeignFolder`.
        pieces: list of strings, the source's vocabulary.
        language: such as `"deu"`, or None.

    Returns:
        A tuple of strings.

    Raises:
        UserError: if there is no such language.
    """
    codes = [piece for piece in pieces if piece.startswith(">>") and piece.endswith("<<")]
    if language is None:
        if codes:
            logger.warning(
                "%s translates into several languages. Choose one by `target_language`: %s",
                folder.path,
                ", ".join(code[2:-2] for code in codes),
            )
        return ()
    if f">>{language}<<" not in codes:
        languages = ", ".join(code[2:-2] for code in codes) or "none, since it has only one"
        raise UserError(
            f"{folder.path} has no `target_language={language}`. Expected one of: {languages}."
        )
    return (f">>{language}<<",)
