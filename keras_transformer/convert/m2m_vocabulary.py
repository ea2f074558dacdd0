"""The vocabularies of M2M-100 and NLLB-200: SentencePiece's pieces, and the names of languages."""

from typing import NamedTuple

import numpy as np

from keras_transformer.convert.tokenizer_json import names_of, proto_of, special_tokens_of
from keras_transformer.convert.vocabulary import Order
from keras_transformer.data.sentencepiece_model import (
    CONTROL,
    RESERVED,
    UNKNOWN,
    UNUSED,
    parse_proto,
    reordered_proto,
)
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError

_SPM, _VOCABULARY, _JSON = "sentencepiece.bpe.model", "vocab.json", "tokenizer.json"
_CONFIG, _SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
_TOKENIZERS = ("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast")
# No file of M2M-100 names its languages: they are behind the pieces, in this order.
_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga "
    "gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
    "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn "
    "tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
# NLLB-200 has these first, where SentencePiece has three others.
_NLLB_FIRST, _SPM_FIRST = ("<s>", "<pad>", "</s>", "<unk>"), 3
_MASK = "<mask>"
# What JSON leads to whose values are others than expected.
_OF_ANOTHER_FORM = (AttributeError, KeyError, TypeError, ValueError)


class M2mVocabulary(NamedTuple):
    """A vocabulary in their order."""

    names: list[str]  # in the order of the ids
    languages: dict[str, int]  # code -> id
    proto: bytes  # the SentencePiece model, in whatever order

    def in_our_order(self, order):
        """The vocabulary as ours is.

        Pieces that SentencePiece finds in text, and the vocabulary has not, are unknown to the
        model. Each gets a row that is a copy of the unknown token's, so that text is split as it
        was.

        Args:
            order: `Order` of the model's embeddings, from `vocabulary.reserve`.

        Returns:
            The tuple of the `Order` with these rows, the `Tokenizer`, and a dict of language code
            -> token.
        """
        pieces = order.pieces(self.names)
        lacking = self._lacking()
        unknown = order.rows[RESERVED.index("<unk>")]
        copies = len(pieces) + np.arange(len(lacking))
        order = Order(
            np.concatenate([order.rows, np.full(len(lacking), unknown)]),
            np.concatenate([order.copies, copies]).astype(int),
        )
        proto = parse_proto(reordered_proto(self.proto, [*pieces, *lacking]))
        place = {row: i for i, row in enumerate(order.rows[: len(pieces)])}
        languages = {code: place[row] for code, row in self.languages.items()}
        # Neither these, nor what has no name, is ever found in text, or left in it.
        nameless = [place[row] for row in range(len(self.names), order.rows.max() + 1)]
        for i in (*languages.values(), *nameless):
            proto.pieces[i].type = CONTROL
        tokens = {code: proto.pieces[i].piece for code, i in languages.items()}
        return order, Tokenizer(proto.SerializeToString()), tokens

    def _lacking(self):
        known = {*self.names, *RESERVED}
        kinds = (CONTROL, UNKNOWN, UNUSED)
        pieces = parse_proto(self.proto).pieces
        return [p.piece for p in pieces if p.type not in kinds and p.piece not in known]


def read_vocabulary(folder):
    """The vocabulary of a folder of M2M-100 or NLLB-200.

    Args:
        folder: a `ForeignFolder`.

    Returns:
        An `M2mVocabulary`.

    Raises:
        UserError: if a file is missing or damaged, or a tokenizer is of another kind.
    """
    config = folder.tokenizer_config
    kind = config.get("tokenizer_class", _TOKENIZERS[0])
    if kind not in _TOKENIZERS:
        raise UserError(
            f"{folder.path} has a tokenizer {kind!r}, which is not there in this package. Expected "
            f"{', '.join(_TOKENIZERS)}."
        )
    if config.get("legacy_behaviour"):
        raise UserError(
            f"{folder.path / _CONFIG} has legacy_behaviour=true, with the language behind the "
            "source's end token, which is not there in this package."
        )
    if folder.has(_VOCABULARY):
        return _of_m2m100(folder, config)
    if folder.has(_JSON):
        return _of_json(folder)
    return _of_nllb(folder, config)


def _of_m2m100(folder, config):
    names = [*folder.vocabulary(_VOCABULARY)]
    codes = config.get("language_codes", "m2m100")
    if codes not in [*_LANGUAGES]:
        raise UserError(
            f"{folder.path / _CONFIG} has language_codes={codes!r}, which is not there in this "
            f"package. Expected {' or '.join(_LANGUAGES)}."
        )
    codes = _LANGUAGES[codes].split()
    languages = {code: len(names) + i for i, code in enumerate(codes)}
    return M2mVocabulary(
        [*names, *(f"__{code}__" for code in codes)], languages, folder.file(_SPM).read_bytes()
    )


def _of_json(folder):
    """Where both files are there, the SentencePiece model splits text, as it did in training."""
    values = folder.json(_JSON)
    try:
        names = names_of(values)
        special = special_tokens_of(values)
        proto = folder.file(_SPM).read_bytes() if folder.has(_SPM) else proto_of(values)
    except UserError as error:
        raise UserError(f"{folder.path}: {error}") from error
    except _OF_ANOTHER_FORM as error:
        raise UserError(f"{folder.path / _JSON} is damaged: {error!r}") from error
    if sorted(names) != [*range(len(names))]:
        raise UserError(f"{folder.path / _JSON} is damaged: its ids are not 0, 1, 2, ...")
    names = [names[i] for i in range(len(names))]
    return M2mVocabulary(names, _languages_of(special, names), proto)


def _of_nllb(folder, config):
    proto = folder.file(_SPM).read_bytes()
    names = [*_NLLB_FIRST, *(piece.piece for piece in parse_proto(proto).pieces[_SPM_FIRST:])]
    try:
        special = _special_tokens(folder, config, len(names))
    except UserError:
        raise
    except _OF_ANOTHER_FORM as error:
        raise UserError(f"{folder.path / _CONFIG} is damaged: {error!r}") from error
    names += [token for token in special if token not in names]
    names += [token for token in (_MASK,) if token not in names]
    return M2mVocabulary(names, _languages_of(special, names), proto)


def _special_tokens(folder, config, size):
    """The tokens behind the pieces, in their order."""
    added = {
        int(i): token["content"] for i, token in config.get("added_tokens_decoder", {}).items()
    }
    behind = [added[i] for i in sorted(added) if i >= size]
    if behind:
        return behind
    files = [config, folder.json(_SPECIAL) if folder.has(_SPECIAL) else {}]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        for values in files:
            if isinstance(values.get(name), list) and values[name]:
                tokens = values[name]
                return [
                    token["content"] if isinstance(token, dict) else str(token) for token in tokens
                ]
    raise UserError(
        f"{folder.path} does not tell its languages. Expected them in {_JSON}, {_CONFIG} or "
        f"{_SPECIAL}."
    )


def _languages_of(special, names):
    others = {*_NLLB_FIRST, _MASK}
    ids = {name: i for i, name in enumerate(names)}
    return {token: ids[token] for token in special if token not in others}
