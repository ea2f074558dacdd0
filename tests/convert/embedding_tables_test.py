"""Embedding tables, token orders and SentencePiece models of converted models."""

import io

import numpy as np
import pytest
import sentencepiece

from keras_transformer.convert.embedding_tables import COPY_BIAS, Tables, reserve
from keras_transformer.data.sentencepiece_model import (
    NORMAL,
    RESERVED,
    USER_DEFINED,
    new_proto,
    reordered_proto,
)
from keras_transformer.data.tokenizer import Tokenizer
from tests.helpers import normal, to_numpy
from tests.small_corpus import new_model, sentence_pairs

pytestmark = pytest.mark.once

MATRICES = {"a": normal(60, 16), "b": normal(60, 16, seed=1), "c": normal(59, 16, seed=2)}
MATRICES["a again"] = MATRICES["a"].copy()
ORDER = reserve(60, start=9, end=2, unknown=3, pad=0)
OTHER = reserve(60, start=1, end=2, unknown=3, pad=0)
SMALLER = reserve(59, start=2, end=2, unknown=3, pad=0)  # and a copy of the end token


@pytest.mark.parametrize(
    ("names", "source_order", "sizes"),
    [
        (("a", "a", "a"), ORDER, {}),
        (("a again", "a", "a again"), ORDER, {}),
        (("b", "a", "a"), ORDER, {"source_vocabulary_size": 60}),
        (("a", "a", "a"), OTHER, {"source_vocabulary_size": 60}),
        (("c", "a", "b"), SMALLER, {"source_vocabulary_size": 60, "tie_weights": False}),
    ],
)
def test_equal_matrices_are_tied(names, source_order, sizes):
    tables = Tables.from_names(MATRICES.__getitem__, names, ORDER, source_order)
    none = {"source_vocabulary_size": None, "tie_weights": True, "output_bias": False}
    assert tables.hyperparameters() == {"vocabulary_size": 60, **none, **sizes}
    model = new_model(**tables.hyperparameters())
    tables.assign(model)
    source, target, output = (MATRICES[name] for name in names)
    layer = model.decoder.token_embedding
    np.testing.assert_array_equal(to_numpy(layer.embeddings), target[ORDER.rows])
    embeddings = to_numpy(model.encoder.token_embedding.embeddings)
    np.testing.assert_array_equal(embeddings, source[source_order.rows])
    if not layer.tie_weights:
        reverse = to_numpy(layer.reverse_embeddings)
        np.testing.assert_array_equal(reverse, output[ORDER.rows].T)


def test_copies_get_a_bias_that_removes_them():
    bias = normal(59)
    for given, expected in ((None, np.zeros(59)), (bias, bias)):
        tables = Tables.from_names(MATRICES.__getitem__, 3 * ("c",), SMALLER, SMALLER, given)
        model = new_model(**tables.hyperparameters())
        tables.assign(model)
        actual = to_numpy(model.decoder.output_bias.bias)
        is_copy = np.arange(60) == SMALLER.copies
        np.testing.assert_allclose(actual[~is_copy], expected[SMALLER.rows[~is_copy]], rtol=1e-6)
        assert actual[is_copy] == COPY_BIAS


def test_a_matrix_of_all_three_names_is_read_once():
    read = []

    def tensor(name):
        read.append(name)
        return MATRICES[name]

    tables = Tables.from_names(tensor, ("a", "a", "a"), ORDER, ORDER)
    assert read == []
    tables.assign(new_model(**tables.hyperparameters()))
    assert read == ["a"]


SENTENCES = [sentence for pair in sentence_pairs(200) for sentence in pair]
TEXT = [*SENTENCES[:50], "a CAT, ﬁne; and  ß ünd ø", "", "東京京東 x", "the >>deu<< dog"]


def train(model_type, size=50, **options):
    """Return a SentencePiece model whose reserved ids differ from ours."""
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=proto,
        vocab_size=size,
        model_type=model_type,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return proto.getvalue()


def pieces_of(proto):
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def test_reserved_tokens_come_first():
    order = reserve(7, start=6, end=0, unknown=2, pad=5)
    np.testing.assert_array_equal(order.rows, [5, 6, 0, 2, 1, 3, 4])
    assert order.copies.size == 0
    np.testing.assert_array_equal(order.bias(np.arange(7.0)), [5, 6, 0, 2, 1, 3, 4])
    assert order.pieces([*"abcdef"]) == [*RESERVED, "b", "d", "e"]


def test_a_token_of_two_roles_is_copied():
    # Marian's decoder starts with padding.
    order = reserve(6, start=5, end=0, unknown=1, pad=5)
    np.testing.assert_array_equal(order.rows, [5, 5, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(order.copies, [1])
    np.testing.assert_array_equal(order.bias(), [0, COPY_BIAS, 0, 0, 0, 0, 0])
    # The decoder of M2M-100 starts with the end token. Here it is padding too.
    order = reserve(6, start=2, end=2, unknown=3, pad=2)
    np.testing.assert_array_equal(order.rows, [2, 2, 2, 3, 0, 1, 4, 5])
    np.testing.assert_array_equal(order.copies, [0, 1])


def test_names_of_tokens_are_unique():
    order = reserve(8, start=2, end=2, unknown=3, pad=1)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "a", "a"]
    assert order.pieces(pieces) == [*RESERVED, "<s>_", "a", "a_", "<id6>", "<id7>"]


@pytest.mark.parametrize("wrong", [{"end": 6}, {"pad": None}, {"start": -1}, {"unknown": "1"}])
def test_ids_outside_the_vocabulary_are_refused(wrong):
    with pytest.raises(ValueError, match=f"id of the {next(iter(wrong))} token must be"):
        reserve(6, **{"start": 5, "end": 0, "unknown": 1, "pad": 5, **wrong})


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char", "word"])
def test_a_reordered_proto_splits_text_as_before(model_type):
    proto = train(model_type, size=28 if model_type in ("char", "word") else 50)
    names = [name for name in pieces_of(proto) if name not in RESERVED]
    # Longer pieces of another language, which the text contains, and a language's name.
    mixed = [">>deu<<", "▁the▁d", *names[::-1], "th", "▁over", "s▁", "ndog"]
    new = Tokenizer(reordered_proto(proto, [*RESERVED, *dict.fromkeys(mixed)]))
    assert new.tokens_to_ids([">>deu<<"]) == [4]
    before = sentencepiece.SentencePieceProcessor(model_proto=proto)
    after = sentencepiece.SentencePieceProcessor(model_proto=new.proto)
    for sentence in TEXT:
        pieces = before.encode(sentence, out_type=str)
        ids = [(mixed.index(x) + 4 if x in names else 3) for x in pieces]
        assert new.encode([sentence]) == [[*ids]], sentence
        assert after.decode(after.encode(sentence)) == before.decode(before.encode(sentence))


def test_single_character_of_the_other_language_stands_for_itself():
    proto = train("unigram")
    names = [name for name in pieces_of(proto) if name not in RESERVED]
    assert "ø" not in names
    new = Tokenizer(reordered_proto(proto, [*RESERVED, *names, "ø", "the▁øl"]))
    plain = Tokenizer(reordered_proto(proto, [*RESERVED, *names]))
    (with_it,), (without,) = (x.encode(["the ød § dog"]) for x in (new, plain))
    assert with_it == [len(names) + 4 if i == 3 and n == 0 else i for i, n in _counted(without)]


def _counted(ids):
    """Return each id with the number of equal ids before it."""
    return [(x, ids[:i].count(x)) for i, x in enumerate(ids)]


def test_reordered_protos_keep_their_normalization():
    proto = train("unigram", normalization_rule_name="nmt_nfkc_cf")
    new = Tokenizer(reordered_proto(proto, [*RESERVED, *pieces_of(proto)[3:]]))
    assert new.encode(["THE ﬁ"]) == new.encode(["the fi"])


def test_the_text_of_the_unknown_token_can_be_replaced():
    pieces = [*RESERVED, *pieces_of(train("unigram"))[3:]]
    for surface, expected in ((None, "the ⁇ dog"), ("", "the dog")):
        new = Tokenizer(reordered_proto(train("unigram"), pieces, unknown=surface))
        text = new.decode([[*new.encode(["the"])[0], 3, *new.encode(["dog"])[0]]])
        assert [" ".join(line.split()) for line in text] == [expected]


def test_a_proto_of_words_splits_at_spaces():
    words = [(f"▁{word}", 0.0, NORMAL) for word in "the dog runs".split()]
    tokenizer = Tokenizer(new_proto(words, "word"))
    assert tokenizer.encode(["dog the runs cat the"]) == [[5, 4, 6, 3, 4]]
    assert tokenizer.decode([[5, 4, 2, 0]]) == ["dog the"]
    names = [("▁", -1.0, NORMAL), ("@", 0.0, USER_DEFINED)]
    assert Tokenizer(new_proto(names, "char", like=tokenizer.proto)).encode(["@"]) == [[4, 5]]


def test_damaged_protos_are_refused():
    for wrong in (b"", b"\xff\xff\xff", b"no such thing"):
        with pytest.raises(ValueError, match="Expected a SentencePiece model"):
            reordered_proto(wrong, [*RESERVED])
