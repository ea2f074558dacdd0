"""SentencePiece models as protobuf messages: reading, reordering and writing."""

from collections.abc import Iterable, Sequence
from typing import Any

from keras_transformer.errors import UserError

RESERVED = ("<pad>", "<s>", "</s>", "<unk>")
"""The pieces with the first four ids."""

# Types of pieces, as SentencePiece numbers them.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_MODEL_TYPES = {"unigram": 1, "bpe": 2, "word": 3, "char": 4}
# The penalty that SentencePiece subtracts from the lowest score for an unknown character.
_UNKNOWN_PENALTY = 10.0


def model_proto_class() -> Any:
    """Return the protobuf class `ModelProto`.

    Raises:
        UserError: if protobuf cannot be used.
    """
    try:
        # protobuf makes the class when it imports the module.
        from sentencepiece.sentencepiece_model_pb2 import (
            ModelProto,  # pyright: ignore[reportAttributeAccessIssue]
        )
    except Exception as error:  # it is not installed, or too old for the generated module
        raise UserError(
            "Cannot read SentencePiece models: the package `protobuf` cannot be used "
            f"({error}). Install it: pip install 'sentencepiece[protobuf]'"
        ) from error
    return ModelProto


def in_our_order(proto: bytes) -> bytes:
    """Reorder a SentencePiece model so that the reserved tokens come first.

    Args:
        proto: bytes, a SentencePiece model with any reserved ids.

    Returns:
        Bytes, a SentencePiece model: the reserved tokens, and then the others in their order. It
        splits text as before.

    Raises:
        UserError: if `proto` is not a SentencePiece model.
    """
    model = parse_proto(proto)
    spec = model.trainer_spec
    special = {spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id}
    names = [piece.piece for i, piece in enumerate(model.pieces) if i not in special]
    return reordered_proto(proto, [*RESERVED, *(name for name in names if name not in RESERVED)])


def reordered_proto(proto: bytes, pieces: Sequence[str], unknown: str | None = None) -> bytes:
    """Return a SentencePiece model with the given order of pieces, which splits text as before.

    A piece that is in `pieces` but not in the model (of the other language, or the name of a
    language) has an id but never occurs in text. A single character of this kind does occur: it
    represented itself when SentencePiece did not know it. A piece that is in the model but not in
    `pieces` is removed.

    Args:
        proto: bytes, the serialized SentencePiece model.
        pieces: list of distinct strings in our order, the first four `RESERVED`.
        unknown: the text that the unknown token is decoded to. Defaults to the model's own.

    Returns:
        Bytes, a SentencePiece model whose ids are the places in `pieces`.

    Raises:
        UserError: if `proto` is not a SentencePiece model.
    """
    model = parse_proto(proto)
    is_bpe = model.trainer_spec.model_type == _MODEL_TYPES["bpe"]
    known = {piece.piece: (piece.score, piece.type) for piece in model.pieces}
    scores = [score for score, kind in known.values() if kind == NORMAL]
    # The cost of an unknown character, so that the rest of the text is split as before.
    as_unknown = min(scores, default=0.0) - _UNKNOWN_PENALTY

    def entry(name: str) -> tuple[str, float, int]:
        score, kind = known.get(name, (0.0, UNUSED))
        if kind == UNKNOWN:  # a second unknown token
            kind = UNUSED
        if name not in known and len(name) == 1:
            return name, as_unknown, NORMAL
        # Byte-pair encoding would merge an unused piece, and continue from there.
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
    """Return a new SentencePiece model.

    Args:
        pieces: list of `(name, score, type)` in our order, without the first four. The types are
            this module's constants.
        model_type: `"unigram"`, `"bpe"`, `"word"` or `"char"`.
        like: bytes, a SentencePiece model whose other settings, such as its normalization, are
            copied. By default text is not normalized, except for a mark before each word.
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
    """Return a SentencePiece model as a protobuf message.

    Raises:
        UserError: if it is not a SentencePiece model, or protobuf is not installed.
    """
    model = model_proto_class()()
    try:
        model.ParseFromString(proto)
    except Exception as error:  # the class depends on protobuf's implementation
        raise UserError(
            f"Expected a SentencePiece model. Received: {len(proto)} bytes of a damaged file or of "
            "another kind of file"
        ) from error
    if not model.pieces:
        raise UserError("Expected a SentencePiece model. Received: a model without pieces")
    return model


def _write(model: Any, entries: Iterable[tuple[str, float, int]]) -> bytes:
    """Serialize a model with the reserved pieces and these entries, and without its old pieces."""
    kinds = (CONTROL, CONTROL, CONTROL, UNKNOWN)
    entries = [*((name, 0.0, kind) for name, kind in zip(RESERVED, kinds)), *entries]
    del model.pieces[:]
    for name, score, kind in entries:
        model.pieces.add(piece=name, score=score, type=kind)
    spec = model.trainer_spec
    spec.pad_id, spec.bos_id, spec.eos_id, spec.unk_id = range(len(RESERVED))
    spec.pad_piece, spec.bos_piece, spec.eos_piece, spec.unk_piece = RESERVED
    spec.vocab_size = len(entries)
    model.DiscardUnknownFields()  # older models contain self-tests with the old pieces
    return model.SerializeToString()
