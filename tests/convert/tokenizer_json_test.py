"""Conversions of a `tokenizer.json`, compared with the library `tokenizers`."""

import json

import pytest

import keras_transformer as kt

tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("torch")

from keras_transformer.convert.m2m_vocabulary import sentencepiece_proto, token_names  # noqa: E402
from keras_transformer.data.sentencepiece_model import RESERVED, parse_proto  # noqa: E402
from keras_transformer.data.tokenizer import Tokenizer  # noqa: E402
from tests.convert.fairseq_folders import ODD_TEXT, sentencepiece_model, text  # noqa: E402

pytestmark = pytest.mark.once
SIZE = 120


def bpe(normalizer=True):
    """A `tokenizer.json` as NLLB-200's, with merges in the order of SentencePiece's scores."""
    proto = parse_proto(sentencepiece_model(SIZE))
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *(piece.piece for piece in proto.pieces[3:])]
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = [
        (piece[:i], piece[i:])
        for piece in pieces[4:]
        for i in range(1, len(piece))
        if piece[:i] in ids and piece[i:] in ids
    ]
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=False)
    )
    return with_rules(made, proto if normalizer else None)


def unigram():
    proto = parse_proto(sentencepiece_model(SIZE, "unigram"))
    pieces = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces += [(piece.piece, piece.score) for piece in proto.pieces[3:]]
    return with_rules(tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=3)), proto)


def with_rules(made, proto):
    if proto is not None:
        made.normalizer = tokenizers.normalizers.Sequence(
            [
                tokenizers.normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
                tokenizers.normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
            ]
        )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always")
    made.add_special_tokens(["eng_Latn", "<mask>"])
    return made, json.loads(made.to_str())


@pytest.mark.parametrize("make", [bpe, unigram, lambda: bpe(normalizer=False)])
def test_tokens_equal_the_tokenizers_library(make):
    theirs, values = make()
    ours = Tokenizer(sentencepiece_proto(values))
    processor = ours._processor
    assert {"eng_Latn", "<mask>", "<pad>"} <= {*token_names(values).values()}
    # White space at the end is a token there, and without a normalizer at the beginning.
    odd = [s.strip() if values["normalizer"] is None else s.rstrip() for s in ODD_TEXT]
    for sentence in filter(None, [*text(100), *text(100, side=1), *odd]):
        expected = theirs.encode(sentence, add_special_tokens=False)
        actual = [processor.id_to_piece(i) for i in ours.encode([sentence])[0]]
        assert actual == [theirs.id_to_token(i) for i in expected.ids], sentence


def first_of_several(values):
    """Return the place of a merge whose piece the next merge makes too."""
    made = ["".join(pair) for pair in values["model"]["merges"]]
    return next(i for i in range(len(made) - 1) if made[i] == made[i + 1])


def test_reserved_pieces_come_first():
    _, values = bpe()
    pieces = parse_proto(sentencepiece_proto(values)).pieces
    assert tuple(piece.piece for piece in pieces[:4]) == RESERVED


def test_tokenizers_that_sentencepiece_lacks_are_refused():
    for change, word in (
        (lambda x: x["model"].update(type="WordPiece"), "'WordPiece'"),
        (lambda x: x["model"].update(byte_fallback=True), "byte_fallback"),
        (lambda x: x["model"].update(fuse_unk=False), "fuse_unk"),
        (lambda x: x["model"]["merges"].pop(first_of_several(x)), "merges"),
        (lambda x: x["model"]["merges"].pop(3), None),  # the piece is never made
        (lambda x: x["model"]["merges"].append(x["model"]["merges"].pop(0)), None),
        (lambda x: x["model"]["merges"].reverse(), None),
        (lambda x: x.update(pre_tokenizer={"type": "ByteLevel"}), "'ByteLevel'"),
        (lambda x: x["pre_tokenizer"].update(prepend_scheme="never"), "Metaspace"),
        (lambda x: x.update(normalizer={"type": "NFKC"}), "'NFKC'"),
        (lambda x: x.update(model=None), 'no "model"'),
    ):
        _, values = bpe()
        change(values)
        if word is None:  # another order of merges is another SentencePiece model
            sentencepiece_proto(values)
            continue
        with pytest.raises(kt.UserError) as error:
            sentencepiece_proto(values)
        assert word in str(error.value) and "\n" not in str(error.value)


def test_merges_of_a_piece_that_others_lie_between_are_refused():
    _, values = bpe()
    merges = values["model"]["merges"]
    merges.append(merges.pop(first_of_several(values)))
    with pytest.raises(kt.UserError, match="merges"):
        sentencepiece_proto(values)
