"""SentencePiece models as messages of protobuf: read, reordered and written."""

from collections.abc import Sequence
from typing import Any

from keras_transformer.errors import UserError

RESERVED = ("<pad>", "<s>", "</s>", "<unk>")
"""The pieces of the first four ids."""

# Types of pieces, as SentencePiece numbers them.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_MODEL_TYPES = {"unigram": 1, "bpe": 2, "word": 3, "char": 4}
# What SentencePiece takes off the lowest score for a character that it does not know.
_UNKNOWN_PENALTY = 10.0


def model_proto_class() -> Any:
    """The class `ModelProto`.

    Raises:
        UserError: if protobuf cannot be used.
    """
    try:
        # protobuf makes the class when it imports the module.
        from sentencepiece.sentencepiece_model_pb2 import (
            ModelProto,  # pyright: ignore[reportAttributeAccessIssue]
        )
    except Exception as error:  # it is not there, or older than what wrote the module
        raise UserError(
            "SentencePiece models are read with the package `protobuf`, which cannot be used "
            f"here ({error}). Install it: pip install 'sentencepiece[protobuf]'"
        ) from error
    return ModelProto


def in_our_order(proto: bytes) -> bytes:
    """Return a SentencePiece model in our order, which splits text as it did.

    Args:
        proto: bytes, a SentencePiece model with any reserved ids.

    Returns:
        Bytes, a SentencePiece model: the reserved tokens, and then the others in their order.

    Raises:
        UserError: if `proto` is not a SentencePiece model.
    """
    model = parse_proto(proto)
    spec = model.trainer_spec
    special = {spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id}
    names = [piece.piece for i, piece in enumerate(model.pieces) if i not in special]
    return reordered_proto(proto, [*RESERVED, *(name for name in names if name not in RESERVED)])


def reordered_proto(proto: bytes, pieces: Sequence[str], unknown: str | None = None) -> bytes:
    """A SentencePiece model in our order, which splits text as it did.

    A piece that `pieces` has and the model has not (of the other language, or a language's name)
    is never found in text, but has its id. One of a single character is found: it stood for
    itself where SentencePiece did not know it. A piece that the model has and `pieces` has not is
    left out.

    Args:
        proto: bytes, the serialised SentencePiece model.
        pieces: list of strings in our order, each once, the first four `RESERVED`.
        unknown: what the unknown token is written as. Defaults to what it was.

    Returns:
        Bytes, a SentencePiece model whose ids are the places in `pieces`.

    Raises:
        UserError: if `proto` is no SentencePiece model.
    """
    model = parse_proto(proto)
    is_bpe = model.trainer_spec.model_type == _MODEL_TYPES["bpe"]
    known = {piece.piece: (piece.score, piece.type) for piece in model.pieces}
    scores = [score for score, kind in known.values() if kind == NORMAL]
    # As costly as a character that is not known, so that the rest is split the same.
    as_unknown = min(scores, default=0.0) - _UNKNOWN_PENALTY

    def entry(name):
        score, kind = known.get(name, (0.0, UNUSED))
        if kind == UNKNOWN:  # another name of the unknown token
            kind = UNUSED
        if name not in known and len(name) == 1:
            return name, as_unknown, NORMAL
        # Byte pair encoding would merge an unused piece, and go on from there.
        return name, score, CONTROL if kind == UNUSED and is_bpe else kind

    if unknown is not None:
        model.trainer_spec.unk_surface = unknown
    return _write(model, [entry(name) for name in pieces[len(RESERVED) :]])


def new_proto(
    pieces: Sequence[tuple[str, float, int]],
    model_type: str,
    like: bytes | None = None,
    **trainer: Any,
) -> bytes:
    """A new SentencePiece model.

    Args:
        pieces: list of `(name, score, type)` in our order, without the first four. The types are
            this module's constants.
        model_type: `"unigram"`, `"bpe"`, `"word"` or `"char"`.
        like: bytes, a SentencePiece model whose other settings, such as its normalisation, the new
            one is to have. Defaults to none: text is taken as it is but for a mark before each
            word.
        **trainer: fields of SentencePiece's `TrainerSpec`.

    Returns:
        Bytes, a SentencePiece model.
    """
    if like is None:
        model = model_proto_class()()
        model.normalizer_spec.name = "identity"
    else:
        model = parse_proto(like)
    model.trainer_spec.model_type = _MODEL_TYPES[model_type]
    for name, value in trainer.items():
        setattr(model.trainer_spec, name, value)
    return _write(model, pieces)


def parse_proto(proto: bytes) -> Any:
    """A SentencePiece model as a message of protobuf.

    Raises:
        UserError: if it is none, or protobuf is not installed.
    """
    model = model_proto_class()()
    try:
        model.ParseFromString(proto)
    except Exception as error:  # protobuf has several, by its implementation
        raise UserError(
            f"Expected a SentencePiece model. Received {len(proto)} bytes that are none: the file "
            "is damaged or of another kind."
        ) from error
    if not model.pieces:
        raise UserError("Expected a SentencePiece model. Received one without pieces.")
    return model


def _write(model, entries):
    """The model with the reserved pieces and these, and nothing of the old ones."""
    kinds = (CONTROL, CONTROL, CONTROL, UNKNOWN)
    entries = [*((name, 0.0, kind) for name, kind in zip(RESERVED, kinds)), *entries]
    del model.pieces[:]
    for name, score, kind in entries:
        model.pieces.add(piece=name, score=score, type=kind)
    spec = model.trainer_spec
    spec.pad_id, spec.bos_id, spec.eos_id, spec.unk_id = range(len(RESERVED))
    spec.pad_piece, spec.bos_piece, spec.eos_piece, spec.unk_piece = RESERVED
    spec.vocab_size = len(entries)
    model.DiscardUnknownFields()  # older ones had tests of themselves, with the old pieces
    return model.SerializeToString()
