"""The SentencePiece models of an exported folder."""

from pathlib import Path

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.translation.translator import Translator

TOKENIZER_FILES = "tokenizer.spm", "source.spm", "target.spm"
_SPACE = "▁"  # SentencePiece's mark before a word
# A text that every normalization or other treatment of spaces changes, and its plain tokens.
_ODD_TEXT, _SPLIT_AT_SPACES = "  Ａ ½  b ", "▁Ａ▁½▁b"


def check_protos(translator: Translator) -> None:
    """Raise a `UserError` if a tokenizer is not a SentencePiece model."""
    for tokenizer in (translator.source_tokenizer, translator.tokenizer):
        if not hasattr(tokenizer, "proto"):
            raise UserError(
                f"Exporting needs SentencePiece tokenizers. Received: {type(tokenizer).__name__}"
            )


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """Return the tokens in the order of their ids."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def words_of(tokenizer: Tokenizer) -> list[str] | None:
    """Return the tokens in the order of their ids, if the tokenizer only splits text at spaces.

    Such a tokenizer represents a foreign vocabulary of words. Its tokens keep their original
    spelling, without SentencePiece's mark of a space.

    Args:
        tokenizer: a tokenizer with a `proto`.

    Returns:
        A list of strings; None for any other tokenizer.
    """
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)
    words = pieces_of(tokenizer)
    is_special = (processor.is_control, processor.is_unknown, processor.is_unused)
    for i, piece in enumerate(words):
        if any(is_kind(i) for is_kind in is_special):
            continue
        if len(piece) < 2 or not piece.startswith(_SPACE):
            return None  # a part of a word
        words[i] = piece.removeprefix(_SPACE)
    is_plain = processor.normalize(_ODD_TEXT) == _SPLIT_AT_SPACES
    return words if is_plain and len({*words}) == len(words) else None


def save_tokenizers(translator: Translator, folder: Path) -> None:
    """Write `tokenizer.spm`, or `source.spm` and `target.spm` if each side has its own."""
    source, target = translator.source_tokenizer, translator.tokenizer
    if source.proto == target.proto:
        target.save(folder / "tokenizer.spm")
    else:
        source.save(folder / "source.spm")
        target.save(folder / "target.spm")
