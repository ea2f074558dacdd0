"""The SentencePiece models that an exported folder gets beside the model."""

from keras_transformer.errors import UserError

TOKENIZER_FILES = "tokenizer.spm", "source.spm", "target.spm"


def check_protos(translator):
    """Raise a `UserError` if a tokenizer is no SentencePiece model."""
    for tokenizer in (translator.source_tokenizer, translator.tokenizer):
        if not hasattr(tokenizer, "proto"):
            raise UserError(
                "An exported folder holds SentencePiece models. Received a tokenizer that is none: "
                f"{type(tokenizer).__name__}"
            )


def pieces_of(tokenizer):
    """The tokens in the order of their ids."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def save_tokenizers(translator, folder):
    """Write `tokenizer.spm`, or `source.spm` and `target.spm` where each side has its own."""
    source, target = translator.source_tokenizer, translator.tokenizer
    if source.proto == target.proto:
        target.save(folder / "tokenizer.spm")
    else:
        source.save(folder / "source.spm")
        target.save(folder / "target.spm")
