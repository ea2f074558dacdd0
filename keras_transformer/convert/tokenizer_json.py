"""A `tokenizer.json` of HuggingFace's tokenizers, where it is a SentencePiece model in fact.

Their Unigram is SentencePiece's. Their BPE merges two neighbours by the rank of the pair, and
SentencePiece's by the score of what they make: where all pairs that make a piece have one rank
after the other, and none is missing, the two are the same.
"""

import base64
import itertools

from keras_transformer.data.sentencepiece_model import (
    CONTROL,
    NORMAL,
    RESERVED,
    new_proto,
    parse_proto,
)
from keras_transformer.errors import UserError

# How text may be normalised: what replaces rows of spaces by one.
_ONE_SPACE = {"pattern": {"Regex": " {2,}"}, "content": " "}


def names_of(values):
    """The tokens of a `tokenizer.json`: dict of id -> string.

    Args:
        values: what the file holds, a dict.

    Raises:
        UserError: if it is of another form.
    """
    vocabulary = _part(values, "model").get("vocab")
    if isinstance(vocabulary, list):  # Unigram: pieces and scores
        names = {i: piece for i, (piece, _) in enumerate(vocabulary)}
    elif isinstance(vocabulary, dict):
        names = {i: piece for piece, i in vocabulary.items()}
    else:
        raise UserError("tokenizer.json is damaged: its model has no vocabulary.")
    return names | {token["id"]: token["content"] for token in values.get("added_tokens") or ()}


def special_tokens_of(values):
    """The names of those of its tokens that are no part of text, in the order of their ids."""
    added = sorted(values.get("added_tokens") or (), key=lambda token: token["id"])
    return [token["content"] for token in added if token.get("special")]


def proto_of(values):
    """The SentencePiece model that a `tokenizer.json` is.

    Args:
        values: what the file holds, a dict.

    Returns:
        Bytes, a SentencePiece model of all its pieces, in our order of reserved ids.

    Raises:
        UserError: if it splits text as no SentencePiece model does.
    """
    model = _part(values, "model")
    kind = model.get("type")
    if kind not in ("BPE", "Unigram"):
        raise _no_equal(f"a model of type {kind!r}", "BPE or Unigram")
    if model.get("byte_fallback"):
        raise _no_equal("byte_fallback", "none")
    _check_spaces(values)
    pieces = _unigram_pieces(model) if kind == "Unigram" else _bpe_pieces(model)
    pieces = [piece for piece in pieces if piece[0] not in RESERVED]
    return _normalised(new_proto(pieces, kind.lower()), values.get("normalizer"))


def _unigram_pieces(model):
    return [(piece, score, NORMAL) for piece, score in model["vocab"]]


def _bpe_pieces(model):
    """Pieces with scores that fall with the rank of the first merge that makes them."""
    if not model.get("fuse_unk"):
        raise _no_equal("fuse_unk=false", "true")
    vocabulary = model["vocab"]
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    ranks = {}
    for rank, (left, right) in enumerate(merges):
        ranks.setdefault(left + right, rank)
    made = [left + right for left, right in merges]
    splits = {
        (piece[:i], piece[i:])
        for piece in ranks
        for i in range(1, len(piece))
        if piece[:i] in vocabulary and piece[i:] in vocabulary
    }
    # Where a piece is made by several pairs, these follow each other.
    changes = sum(a != b for a, b in itertools.pairwise(made)) + bool(made)
    if splits != {*merges} or changes != len(ranks):
        raise _no_equal("merges that are not all those of its pieces", "all, piece by piece")
    return [
        # What no merge makes is not found in text, if it is more than one character.
        (
            piece,
            -float(ranks.get(piece, len(merges))),
            CONTROL if _is_never(piece, ranks) else NORMAL,
        )
        for piece in vocabulary
    ]


def _is_never(piece, ranks):
    return len(piece) > 1 and piece not in ranks


def _check_spaces(values):
    splitter = values.get("pre_tokenizer") or {}
    is_marked = splitter.get("prepend_scheme", "always") in ("always", "first")
    if splitter.get("type") != "Metaspace" or not (
        is_marked and splitter.get("add_prefix_space", True)
    ):
        raise _no_equal(f"a pre_tokenizer of type {splitter.get('type')!r}", "Metaspace, always")


def _normalised(proto, normalizer):
    """The model with the normalisation of a `tokenizer.json`."""
    steps = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    model = parse_proto(proto)
    spec = model.normalizer_spec
    spec.remove_extra_whitespaces = False
    for step in steps:
        if step.get("type") == "Precompiled":
            spec.precompiled_charsmap = base64.b64decode(
                step["precompiled_charsmap"], validate=True
            )
            spec.name = "precompiled"
        elif step.get("type") == "Replace" and _ONE_SPACE.items() <= step.items():
            spec.remove_extra_whitespaces = True
        else:
            raise _no_equal(f"a normalizer {step.get('type')!r}", "Precompiled, or one of spaces")
    return model.SerializeToString()


def _part(values, name):
    part = values.get(name)
    if not isinstance(part, dict):
        raise UserError(f'tokenizer.json is damaged: it has no "{name}".')
    return part


def _no_equal(found, expected):
    return UserError(
        f"tokenizer.json is no SentencePiece model: it has {found}, where {expected} is expected. "
        "Put its sentencepiece.bpe.model beside it, if there is one."
    )
