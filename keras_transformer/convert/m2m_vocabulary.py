"""Vocabularies of M2M-100 and NLLB-200: SentencePiece's pieces, and the names of languages."""

import base64
import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.convert.embedding_tables import VocabPermutation
from keras_transformer.convert.hf_checkpoint import HFCheckpoint
from keras_transformer.data.sentencepiece_model import (
    CONTROL,
    NORMAL,
    RESERVED,
    UNKNOWN,
    UNUSED,
    new_proto,
    parse_proto,
    reordered_proto,
)
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError, brief

_SPM, _VOCABULARY, _JSON = "sentencepiece.bpe.model", "vocab.json", "tokenizer.json"
_CONFIG, _SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
_TOKENIZERS = ("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast")
# No file of M2M-100 names its languages: they follow the pieces, in this order.
_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga "
    "gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
    "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn "
    "tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
# The first tokens of NLLB-200, in place of SentencePiece's first three.
_NLLB_FIRST, _SPM_FIRST = ("<s>", "<pad>", "</s>", "<unk>"), 3
_MASK = "<mask>"
# Errors that JSON values of unexpected types lead to.
_WRONG_TYPES = (AttributeError, KeyError, TypeError, ValueError)


class M2mVocabulary(NamedTuple):
    """A vocabulary of M2M-100 or NLLB-200, in the model's order."""

    names: list[str]  # in the order of the ids
    languages: dict[str, int]  # code -> id
    proto: bytes  # the SentencePiece model, in any order

    def in_our_order(
        self, order: VocabPermutation
    ) -> tuple[VocabPermutation, Tokenizer, dict[str, str]]:
        """Return the vocabulary in our order.

        Pieces of the SentencePiece model that the vocabulary lacks are unknown to the model. Each
        of them gets a copy of the unknown token's row, so that text is split as before.

        Args:
            order: `VocabPermutation` of the model's embeddings, from `embedding_tables.reserve`.

        Returns:
            The tuple of the `VocabPermutation` with these rows, the `Tokenizer`, and a dict of
            language code -> token.
        """
        pieces = order.pieces(self.names)
        lacking = self._lacking()
        unknown = order.rows[RESERVED.index("<unk>")]
        copies = len(pieces) + np.arange(len(lacking))
        order = VocabPermutation(
            np.concatenate([order.rows, np.full(len(lacking), unknown)]),
            np.concatenate([order.copies, copies]).astype(int),
        )
        proto = parse_proto(reordered_proto(self.proto, [*pieces, *lacking]))
        place = {row: i for i, row in enumerate(order.rows[: len(pieces)])}
        languages = {code: place[row] for code, row in self.languages.items()}
        # Languages and tokens without a name are never found in text, or written to it.
        nameless = [place[row] for row in range(len(self.names), order.rows.max() + 1)]
        for i in (*languages.values(), *nameless):
            proto.pieces[i].type = CONTROL
        tokens = {code: proto.pieces[i].piece for code, i in languages.items()}
        return order, Tokenizer(proto.SerializeToString()), tokens

    def _lacking(self) -> list[str]:
        known = {*self.names, *RESERVED}
        kinds = (CONTROL, UNKNOWN, UNUSED)
        pieces = parse_proto(self.proto).pieces
        return [p.piece for p in pieces if p.type not in kinds and p.piece not in known]


def read_vocabulary(folder: HFCheckpoint) -> M2mVocabulary:
    """Read the vocabulary of a folder of M2M-100 or NLLB-200.

    Args:
        folder: an `HFCheckpoint`.

    Returns:
        An `M2mVocabulary`.

    Raises:
        UserError: if a file is missing or damaged, or the tokenizer is not supported.
    """
    config = folder.tokenizer_config
    kind = config.get("tokenizer_class", _TOKENIZERS[0])
    if kind not in _TOKENIZERS:
        raise UserError(
            f"Unsupported tokenizer {brief(kind)} in {folder.path}. "
            f"Expected {', '.join(_TOKENIZERS)}."
        )
    if config.get("legacy_behaviour"):
        raise UserError(
            f"Unsupported legacy_behaviour=true in {folder.path / _CONFIG}: the language would "
            "come after the source's end token. Expected false."
        )
    if folder.has(_VOCABULARY):
        return _read_m2m100(folder, config)
    if folder.has(_JSON):
        return _read_json(folder)
    return _read_nllb(folder, config)


def _read_m2m100(folder: HFCheckpoint, config: Mapping[str, Any]) -> M2mVocabulary:
    names = [*folder.vocabulary(_VOCABULARY)]
    codes = config.get("language_codes", "m2m100")
    if codes not in [*_LANGUAGES]:
        raise UserError(
            f"Unsupported language_codes={brief(codes)} in {folder.path / _CONFIG}. "
            f"Expected {' or '.join(_LANGUAGES)}."
        )
    codes = _LANGUAGES[codes].split()
    languages: dict[str, int] = {code: len(names) + i for i, code in enumerate(codes)}
    return M2mVocabulary(
        [*names, *(f"__{code}__" for code in codes)], languages, folder.file(_SPM).read_bytes()
    )


def _read_json(folder: HFCheckpoint) -> M2mVocabulary:
    """Read `tokenizer.json`. If the SentencePiece model is there too, it splits the text, as in
    training.
    """
    values = folder.json(_JSON)
    try:
        names = token_names(values)
        special = special_token_names(values)
        proto = folder.file(_SPM).read_bytes() if folder.has(_SPM) else sentencepiece_proto(values)
    except UserError as error:
        raise UserError(f"{folder.path}: {error}") from error
    except _WRONG_TYPES as error:
        raise UserError(f"{folder.path / _JSON} is damaged: {brief(error)}") from error
    if sorted(names) != [*range(len(names))]:
        raise UserError(f"{folder.path / _JSON} is damaged. Expected the ids 0, 1, 2, ...")
    in_order = [names[i] for i in range(len(names))]
    return M2mVocabulary(in_order, _language_ids(special, in_order), proto)


def _read_nllb(folder: HFCheckpoint, config: Mapping[str, Any]) -> M2mVocabulary:
    proto = folder.file(_SPM).read_bytes()
    names = [*_NLLB_FIRST, *(piece.piece for piece in parse_proto(proto).pieces[_SPM_FIRST:])]
    try:
        special = _special_tokens(folder, config, len(names))
    except UserError:
        raise
    except _WRONG_TYPES as error:
        raise UserError(f"{folder.path / _CONFIG} is damaged: {brief(error)}") from error
    names += [token for token in special if token not in names]
    names += [token for token in (_MASK,) if token not in names]
    return M2mVocabulary(names, _language_ids(special, names), proto)


def _special_tokens(folder: HFCheckpoint, config: Mapping[str, Any], size: int) -> list[str]:
    """Return the tokens after the pieces, in their order."""
    added = {
        int(i): token["content"] for i, token in config.get("added_tokens_decoder", {}).items()
    }
    after = [added[i] for i in sorted(added) if i >= size]
    if after:
        return after
    files = [config, folder.json(_SPECIAL) if folder.has(_SPECIAL) else {}]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        for tokens in (values.get(name) for values in files):
            if isinstance(tokens, list) and tokens:
                return [x["content"] if isinstance(x, dict) else str(x) for x in tokens]
    raise UserError(
        f"{folder.path} does not name its languages. Expected them in {_JSON}, {_CONFIG} or "
        f"{_SPECIAL}."
    )


def _language_ids(special: Iterable[str], names: Sequence[str]) -> dict[str, int]:
    others = {*_NLLB_FIRST, _MASK}
    ids = {name: i for i, name in enumerate(names)}
    return {token: ids[token] for token in special if token not in others}


# `tokenizer.json` of HuggingFace's tokenizers, if it is equivalent to a SentencePiece model.
#
# Its Unigram is SentencePiece's. Its BPE merges two neighbors by the rank of the pair,
# SentencePiece's BPE by the score of the result. They are the same if all pairs that make a piece
# have consecutive ranks and none is missing.

# The pattern by which text is normalized: it replaces runs of spaces by one space.
_ONE_SPACE = {"pattern": {"Regex": " {2,}"}, "content": " "}


def token_names(values: Mapping[str, Any]) -> dict[int, str]:
    """Return the tokens of a `tokenizer.json`: id -> string.

    Args:
        values: the content of the file, a dict.

    Raises:
        UserError: if it has another form.
    """
    vocabulary = _part(values, "model").get("vocab")
    if isinstance(vocabulary, list):  # Unigram: pieces and scores
        names = {i: piece for i, (piece, _) in enumerate(vocabulary)}
    elif isinstance(vocabulary, dict):
        names = {i: piece for piece, i in vocabulary.items()}
    else:
        raise UserError("tokenizer.json is damaged: its model has no vocabulary.")
    return names | {token["id"]: token["content"] for token in values.get("added_tokens") or ()}


def special_token_names(values: Mapping[str, Any]) -> list[str]:
    """Return the tokens that are not part of text, in the order of their ids."""
    added = sorted(values.get("added_tokens") or (), key=lambda token: token["id"])
    return [token["content"] for token in added if token.get("special")]


def sentencepiece_proto(values: Mapping[str, Any]) -> bytes:
    """Convert a `tokenizer.json` to a SentencePiece model.

    Args:
        values: the content of the file, a dict.

    Returns:
        Bytes, a SentencePiece model of all its pieces, in our order of reserved ids.

    Raises:
        UserError: if no SentencePiece model splits text in the same way.
    """
    model = _part(values, "model")
    kind = model.get("type")
    if kind not in ("BPE", "Unigram"):
        raise _not_equivalent(f"a model of type {brief(kind)}", "BPE or Unigram")
    if model.get("byte_fallback"):
        raise _not_equivalent("byte_fallback", "none")
    _validate_spaces(values)
    if kind == "Unigram":
        pieces = [(piece, score, NORMAL) for piece, score in model["vocab"]]
    else:
        pieces = _bpe_pieces(model)
    pieces = [piece for piece in pieces if piece[0] not in RESERVED]
    return _normalized(new_proto(pieces, kind.lower()), values.get("normalizer"))


def _bpe_pieces(model: Mapping[str, Any]) -> list[tuple[str, float, int]]:
    """Return pieces with scores that fall with the rank of the first merge that makes them."""
    if not model.get("fuse_unk"):
        raise _not_equivalent("fuse_unk=false", "true")
    vocabulary = model["vocab"]
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    made = [left + right for left, right in merges]
    ranks: dict[str, int] = {piece: rank for rank, piece in reversed([*enumerate(made)])}
    # If several pairs make a piece, their ranks must be consecutive.
    runs = sum(1 for _ in itertools.groupby(made))
    if _merges(ranks, vocabulary) != {*merges} or runs != len(ranks):
        raise _not_equivalent("merges that are not all merges of its pieces", "all, piece by piece")
    return [
        # A piece of several characters that no merge makes is never found in text.
        (
            piece,
            -float(ranks.get(piece, len(merges))),
            CONTROL if len(piece) > 1 and piece not in ranks else NORMAL,
        )
        for piece in vocabulary
    ]


def _merges(pieces: Iterable[str], vocabulary: Container[str]) -> set[tuple[str, str]]:
    """Return all pairs of pieces of a vocabulary that make a piece."""
    pairs = {(piece[:i], piece[i:]) for piece in pieces for i in range(1, len(piece))}
    return {(left, right) for left, right in pairs if left in vocabulary and right in vocabulary}


def _validate_spaces(values: Mapping[str, Any]) -> None:
    splitter = values.get("pre_tokenizer") or {}
    is_marked = splitter.get("prepend_scheme", "always") in ("always", "first")
    if splitter.get("type") != "Metaspace" or not (
        is_marked and splitter.get("add_prefix_space", True)
    ):
        raise _not_equivalent(
            f"a pre_tokenizer of type {brief(splitter.get('type'))}", "Metaspace, always"
        )


def _normalized(proto: bytes, normalizer: Mapping[str, Any] | None) -> bytes:
    """Return the model with the normalization of a `tokenizer.json`."""
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
            raise _not_equivalent(
                f"a normalizer {brief(step.get('type'))}", "Precompiled, or one of spaces"
            )
    return model.SerializeToString()


def _part(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = values.get(name)
    if not isinstance(part, dict):
        raise UserError(f'tokenizer.json is damaged: it has no "{name}".')
    return part


def _not_equivalent(found: str, expected: str) -> UserError:
    return UserError(
        f"tokenizer.json is not equivalent to a SentencePiece model: it has {found}. Expected "
        f"{expected}. Put its sentencepiece.bpe.model next to it, if there is one."
    )
