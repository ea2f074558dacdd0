import io
import os
import re

import numpy as np
import pytest
import sentencepiece

import keras_transformer as kt
from keras_transformer.data.corpora import load_parallel_text
from keras_transformer.data.sentencepiece_model import model_proto_class
from keras_transformer.data.tokenizer import Tokenizer, VocabularyOptions, make_tokenizer
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID, UNKNOWN_ID
from tests.small_corpus import sentence_pairs, tokenizer

pytestmark = pytest.mark.once

SENTENCES = [sentence for pair in sentence_pairs(200) for sentence in pair]
TEXTS = ["the dog runs", "", " ", "über groß", "東京 with é", "unseen: Q 🙂", "the  dog", "x" * 300]


def pieces(tokenizer):
    processor = tokenizer._processor
    return [processor.id_to_piece(i) for i in range(tokenizer.vocabulary_size)]


def test_the_first_four_ids_are_pad_start_end_and_unknown():
    assert (PAD_ID, START_ID, END_ID, UNKNOWN_ID) == (0, 1, 2, 3)
    assert pieces(tokenizer())[:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert tokenizer().vocabulary_size == 60


def test_decoding_restores_encoded_sentences():
    token_ids = tokenizer().encode(SENTENCES)
    assert tokenizer().decode(token_ids) == SENTENCES
    assert {i for ids in token_ids for i in ids} <= set(range(UNKNOWN_ID + 1, 60))


def test_encode_gives_plain_lists_without_start_and_end():
    (ids,) = tokenizer().encode(["the dog"])
    assert type(ids) is list and type(ids[0]) is int
    assert START_ID not in ids and END_ID not in ids


def test_unknown_characters_have_the_unknown_id():
    assert UNKNOWN_ID in tokenizer().encode(["the 🙂"])[0]


def test_empty_text_has_no_tokens():
    assert tokenizer().encode([]) == []
    assert tokenizer().encode(["", " "]) == [[], []]
    assert tokenizer().decode([]) == []
    assert tokenizer().decode([[]]) == [""]


def test_text_of_reserved_pieces_is_text():
    # What a user types must not end or pad the sentence.
    for ids in tokenizer().encode(["<pad>", "<s> dog", "dog</s>"]):
        assert not {PAD_ID, START_ID, END_ID} & set(ids)


@pytest.mark.parametrize("kind", [list, np.array, lambda x: np.array(x, "int64")])
def test_decode_drops_padding_start_and_end(kind):
    (ids,) = tokenizer().encode(["the dog runs"])
    token_ids = kind(
        [[START_ID, *ids, END_ID, PAD_ID, PAD_ID], [END_ID] + [PAD_ID] * (len(ids) + 3)]
    )
    assert tokenizer().decode(token_ids) == ["the dog runs", ""]


def test_save_and_load(tmp_path):
    path = tmp_path / "new folder" / "tokenizer.spm"
    tokenizer().save(path)
    loaded = Tokenizer.from_file(str(path))
    assert loaded.proto == tokenizer().proto
    assert loaded.encode(TEXTS) == tokenizer().encode(TEXTS)
    assert [file.name for file in path.parent.iterdir()] == ["tokenizer.spm"]


def test_threads_do_not_change_the_result():
    one, two = (Tokenizer.train(SENTENCES, 60, num_threads=threads) for threads in (1, 2))
    assert pieces(one) == pieces(two)
    assert one.encode(SENTENCES) == two.encode(SENTENCES)


def test_vocabulary_is_the_same_on_machines_of_more_cores(monkeypatch):
    # The proto's hash tells whether a token store is still good.
    protos = []
    for cores in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        protos.append(Tokenizer.train(SENTENCES, 60).proto)
    assert protos[0] == protos[1]


def test_trains_on_a_stream():
    assert pieces(Tokenizer.train(iter(SENTENCES), 60)) == pieces(tokenizer())


def test_sample_of_a_longer_text():
    """The letter of each sentence tells which sentences were seen."""
    letters = [chr(ord("一") + number) for number in range(1000)]
    tokenizers = [
        Tokenizer.train(iter(letters), 5 + 100, model_type="char", max_sentences=100)
        for _ in range(2)
    ]
    assert tokenizers[0].proto == tokenizers[1].proto
    seen = {letters.index(piece) for piece in pieces(tokenizers[0]) if piece in letters}
    assert len(seen) == 100
    assert 0.3 < np.mean([number < 500 for number in seen]) < 0.7


def test_sample_of_a_shorter_text_is_all_of_it():
    all_of_it = Tokenizer.train(SENTENCES, 60, max_sentences=len(SENTENCES))
    assert pieces(all_of_it) == pieces(tokenizer())


def test_user_defined_symbols_stay_whole():
    symbols = ["(NP", "<2de>"]
    trained = Tokenizer.train(SENTENCES, 60, user_defined_symbols=symbols)
    assert trained.vocabulary_size == 60
    for symbol in symbols:
        symbol_id = pieces(trained).index(symbol)
        assert symbol_id > UNKNOWN_ID
        for text in (symbol, f"the{symbol}dog", f"a {symbol} b"):
            assert trained.encode([text])[0].count(symbol_id) == 1
        assert trained.decode([[symbol_id]]) == [symbol]


@pytest.mark.parametrize("model_type", ["unigram", "char", "word"])
def test_other_kinds_of_vocabulary(model_type):
    size = {"unigram": 40, "char": 28, "word": 23}[model_type]
    trained = Tokenizer.train(SENTENCES, size, model_type=model_type)
    assert trained.decode(trained.encode(["the dog sees the cat"])) == ["the dog sees the cat"]


def message_of(function, *args, **kwargs):
    with pytest.raises(ValueError) as error:
        function(*args, **kwargs)
    message = str(error.value)
    assert message and "\n" not in message
    return message


MANY_CHARACTERS = ["".join(map(chr, range(0x4E00, 0x4E00 + 60)))]


@pytest.mark.parametrize(
    ("sentences", "size", "options", "expected"),
    [
        *((SENTENCES, size, {}, str(size)) for size in (10, 4, 0, -1)),  # fewer than characters
        (MANY_CHARACTERS, 40, {}, "greater than 6.*vocabulary_size=40"),
        *((text, 60, {}, "must contain text") for text in ([], [""], ["", "  "])),
        (SENTENCES, 60, {"max_sentences": 0}, "max_sentences=0"),
        (SENTENCES, 60, {"model_type": "x"}, "must be one of bpe, unigram, char, word.*'x'"),
        (SENTENCES, 60, {"normalization": "nfd"}, "must be one of.*identity.*'nfd'"),
        *(
            (SENTENCES, 60, {"character_coverage": x}, f"must be from 0.98 to 1.*={x}")
            for x in (0.0, 0.97, 1.5)
        ),
    ],
)
def test_wrong_arguments_of_a_training_are_refused(sentences, size, options, expected):
    assert re.search(expected, message_of(Tokenizer.train, sentences, size, **options))


def test_error_in_the_text_is_not_hidden():
    def text():
        yield from SENTENCES
        raise OSError("The disk is gone.")

    with pytest.raises((OSError, ValueError), match="The disk is gone"):
        Tokenizer.train(text(), 60)


@pytest.mark.parametrize(
    "damage", [lambda proto: b"", lambda proto: b"no model", lambda p: p[:-40]]
)
def test_a_damaged_file_is_refused_by_path(tmp_path, damage):
    path = tmp_path / "tokenizer.spm"
    path.write_bytes(damage(tokenizer().proto))
    assert str(path) in message_of(Tokenizer.from_file, path)


def test_a_missing_file_is_refused_by_path(tmp_path):
    assert str(tmp_path / "none.spm") in message_of(Tokenizer.from_file, tmp_path / "none.spm")
    assert str(tmp_path) in message_of(Tokenizer.from_file, tmp_path)


def test_a_model_with_other_reserved_ids_is_refused():
    # SentencePiece's own: no padding, unknown 0.
    assert "unknown=0" in message_of(Tokenizer, foreign_model("unigram"))


# Text as it is

WIDE = "好，ﬁne！ Größe…"


@pytest.mark.parametrize(
    ("normalization", "expected"),
    [
        ("identity", WIDE),
        ("nfkc", "好,fine! Größe..."),
        ("nmt_nfkc", "好,fine! Größe..."),
        ("nfkc_cf", "好,fine! größe..."),
        ("nmt_nfkc_cf", "好,fine! größe..."),
    ],
)
def test_normalization_is_kept_in_the_proto(normalization, expected):
    text = [WIDE, "A fine, größer dog!"] * 3
    trained = Tokenizer.train(text, 45, normalization=normalization)
    loaded = Tokenizer(trained.proto)
    assert loaded.decode(loaded.encode([WIDE])) == [expected]


@pytest.mark.parametrize("text", ["猫 🙂 é", "the \u200b dog", "אבג", "\x07 bell"])
def test_characters_that_the_vocabulary_lacks_are_bytes(text):
    options = {"byte_fallback": True, "normalization": "identity"}
    trained = Tokenizer.train(SENTENCES, 330, user_defined_symbols=["(NP"], **options)
    (ids,) = trained.encode([text])
    assert UNKNOWN_ID not in ids and trained.decode([ids]) == [text]
    assert not trained.is_unknown(ids)
    # Symbols stand before the bytes.
    assert pieces(trained)[4:6] == ["(NP", "<0x00>"]


def test_with_identity_spaces_are_as_they_are():
    text = ["two  spaces", " before", "after ", "   ", "tab\tand one"] * 9
    tokenizer = Tokenizer.train(text, 40, normalization="identity")
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.is_unknown(tokenizer.encode(["  \u4e2d\u6587"])[0])
    assert not tokenizer.is_unknown(tokenizer.encode(["  tab"])[0])
    # The other rules have one space in a row.
    tokenizer = Tokenizer.train(text, 30)
    assert tokenizer.decode(tokenizer.encode(["two  spaces "])) == ["two spaces"]


@pytest.mark.parametrize("odd", ["\u4e2d" * 2_000, "a\u2585 \u4e2d", "a\0 \u4e2d"])
def test_no_line_is_left_out_of_a_vocabulary_in_silence(odd):
    tokenizer = Tokenizer.train([*["a dog"] * 9, odd], 12, normalization="identity")
    assert tokenizer.tokens_to_ids(["\u4e2d"])


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_small_text_gives_fewer_tokens_which_is_told(model_type, caplog):
    text = ["the old dog runs and sees a cat", "a man takes the small house"]
    tokenizer = Tokenizer.train(text, 6000, model_type)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert f"of 6,000: there are {tokenizer.vocabulary_size} tokens" in caplog.text
    caplog.clear()
    assert Tokenizer.train(text, 30, "bpe").vocabulary_size == 30 and not caplog.text


# Models of other tools


OTHER_IDS = {
    "SentencePiece's own": {},
    "T5's": {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "pieces of other names": {"unk_piece": "[UNK]", "bos_piece": "[CLS]", "eos_piece": "[SEP]"},
    "a symbol": {
        "unk_id": 3,
        "eos_id": 0,
        "pad_id": 1,
        "bos_id": 2,
        "user_defined_symbols": ["<2de>"],
    },
}


def foreign_model(model_type, **ids):
    """The bytes of a SentencePiece model whose reserved ids are others than ours."""
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for pair in sentence_pairs(100) for text in pair]),
        model_writer=proto,
        vocab_size=60 if model_type != "bytes" else 320,
        hard_vocab_limit=False,
        model_type="bpe" if model_type == "bytes" else model_type,
        byte_fallback=model_type == "bytes",
        minloglevel=2,
        **ids,
    )
    return proto.getvalue()


@pytest.mark.parametrize("ids", OTHER_IDS)
@pytest.mark.parametrize("model_type", ["unigram", "bpe", "bytes", "char", "word"])
def test_a_foreign_model_splits_text_as_before(model_type, ids, tmp_path):
    proto = foreign_model(model_type, **OTHER_IDS[ids])
    (tmp_path / "spm.model").write_bytes(proto)
    with pytest.raises(kt.UserError, match="`Tokenizer.from_sentencepiece` reorders"):
        kt.data.Tokenizer.from_file(tmp_path / "spm.model")
    tokenizer = kt.data.Tokenizer.from_sentencepiece(tmp_path / "spm.model")
    theirs = sentencepiece.SentencePieceProcessor(model_proto=proto)
    texts = [text for pair in sentence_pairs(30, seed=4) for text in pair]
    for text in [*texts, "the DOG, a  cat!", "東京 naïve ½", "<2de> the dog <s> </s>", "", "  "]:
        assert tokenizer.tokens(text) == theirs.encode(text, out_type=str)
        (ids,) = tokenizer.encode([text])
        assert tokenizer.decode([ids]) == [theirs.decode(theirs.encode(text))]
    assert (tmp_path / "spm.model").read_bytes() == proto
    again = kt.data.Tokenizer(tokenizer.proto)
    assert again.vocabulary_size >= theirs.get_piece_size()
    # Other programs read the reserved ids, by name or by number.
    ours = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)
    reserved = ours.pad_id(), ours.bos_id(), ours.eos_id(), ours.unk_id()
    assert reserved == (PAD_ID, START_ID, END_ID, UNKNOWN_ID)
    spec = model_proto_class().FromString(tokenizer.proto).trainer_spec
    assert (spec.pad_id, spec.bos_id, spec.eos_id, spec.unk_id) == reserved


def test_files_that_are_not_sentencepiece_models(tmp_path):
    with pytest.raises(kt.UserError, match="Cannot find the SentencePiece model"):
        kt.data.Tokenizer.from_sentencepiece(tmp_path / "none.model")
    (tmp_path / "text.model").write_text("text")
    with pytest.raises(kt.UserError, match="text.model: Expected a SentencePiece model"):
        kt.data.Tokenizer.from_sentencepiece(tmp_path / "text.model")


CHINESE = ["选择，复制！", "删除…", "½ 行"]


def made(tmp_path, targets, **options):
    options = VocabularyOptions(vocabulary_size=70, **options)
    sentences = [*SENTENCES, *targets[:60]]
    return make_tokenizer(sentences, options, tmp_path / "tokenizer.spm", targets=iter(targets))


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_by_default_the_targets_can_be_written(tmp_path, caplog, model_type):
    caplog.set_level("INFO")
    tokenizer = made(tmp_path, CHINESE * 20, vocabulary_type=model_type)
    assert tokenizer.decode(tokenizer.encode(CHINESE)) == CHINESE
    (message,) = (x for x in caplog.messages if "would change" in x)
    assert message.startswith("nmt_nfkc would change 33.33% of the characters of the targets")
    # It is told once, and what is asked for is done.
    tokenizer = made(tmp_path, CHINESE * 20, normalization="nmt_nfkc")
    assert tokenizer.decode(tokenizer.encode(CHINESE)) == ["选择,复制!", "删除...", "1⁄2 行"]
    assert len([x for x in caplog.messages if "would change" in x]) == 1


def rule_of(tokenizer):
    return model_proto_class().FromString(tokenizer.proto).normalizer_spec.name


@pytest.mark.parametrize(("odd", "changed"), [("…", 1), ("\u00a0", 1), ("Ａ", 1), ("u\u0308", 2)])
def test_one_changed_character_in_a_thousand_is_normalized(tmp_path, odd, changed):
    """Spaces in a row, which are one with the rule, are no change."""
    for count, rule in ((999, "identity"), (1000, "nmt_nfkc")):
        target = f"the  dog {odd} runs "
        others = "a" * (count * changed - len(target))
        tokenizer = made(tmp_path, [target, others], character_coverage=0.99)
        assert rule_of(tokenizer) == rule


def test_without_targets_the_default_is_nmt_nfkc(tmp_path):
    made_by_default = made(tmp_path, [])
    assert made_by_default.proto == made(tmp_path, [], normalization="nmt_nfkc").proto
    assert rule_of(made_by_default) == "nmt_nfkc"


CORPORA = os.environ.get("KERAS_TRANSFORMER_DATA")


@pytest.mark.skipif(not CORPORA, reason="needs the corpora of KERAS_TRANSFORMER_DATA")
@pytest.mark.parametrize(
    ("dataset", "split", "target", "rule"),
    [
        ("multi30k", "train", "de", "nmt_nfkc"),
        ("multi30k.lc.norm.tok", "val", "de", "nmt_nfkc"),
        ("tatoeba", "val", "de", "nmt_nfkc"),
        ("catalogs", "val", "zh", "identity"),
    ],
)
def test_normalization_of_real_text(tmp_path, dataset, split, target, rule):
    text = load_parallel_text(dataset, split, "en", target, CORPORA)
    path, options = tmp_path / "tokenizer.spm", VocabularyOptions(vocabulary_size=60)
    tokenizer = make_tokenizer(SENTENCES, options, path, targets=(pair[1] for pair in text))
    assert rule_of(tokenizer) == rule
