"""Another library's answer: transformers' tokenizer of fairseq's models."""

import json
import random
import sys

import pytest

import keras_transformer as kt
from keras_transformer.data.moses_tokenizer import MosesTokenizer

pytestmark = pytest.mark.once
pytest.importorskip("sacremoses")
pytest.importorskip("tokenizers")

LETTERS = "abcdefghijklmnopqrstuvwxyzABCD0123456789.,&;'@-"
MERGES = [
    *[("t", "h"), ("th", "e</w>"), ("o", "f</w>"), ("d", "o"), ("do", "g</w>"), ("l", "l")],
    *[("ll", "l"), ("a", "a"), ("ä", "ä"), ("☃", "b"), ("&", "a"), ("@", "-")],
]
# It lacks "th", whose merge goes on to what it has, and "ää".
WORDS = ["the</w>", "of</w>", "do", "dog</w>", "ll", "lll", "aa", "&a", "@-"]
PIECES = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), *WORDS]
TOKENS = ["<pad>", "<s>", "</s>", "<unk>", *PIECES]
CHARACTERS = (
    "abcdefg .,;:!?()[]{}\"'`´‘’“”„«»—–-…\u00a0\u200b\t%$€&<>|0123456789äöüßéñЖя漢字"
    "。、：；（）１２３～━〈〉【】％．\u202f\u3000☃😀e\u0301\x00\x07\r\n"
)


def random_texts(seed, count):
    generator = random.Random(seed)
    words = "the of a dog 's don't Mr. Smith's u.s.a. llll aaaaa ☃b ääb (a) 1,000 3.5 e.g.".split()
    for index in range(count):
        if index % 2:
            yield "".join(generator.choices(CHARACTERS, k=generator.randrange(30)))
        else:
            end = generator.choice([".", "!", "", " "])
            yield " ".join(generator.choices(words, k=generator.randrange(12))) + end


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("language", ["en", "de", "ru", "fr", "cs", "fi", "xx"])
def test_tokens_and_text_equal_transformers(tmp_path, language, lowercase):
    transformers = pytest.importorskip("transformers")
    order = [1, 0, 2, 3, *range(4, len(TOKENS))]  # theirs has the start token first
    ids = {TOKENS[i]: place for place, i in enumerate(order)}
    (tmp_path / "vocab.json").write_text(json.dumps(ids), "utf-8")
    rows = "".join(f"{a} {b} 7\n" for a, b in MERGES)
    (tmp_path / "merges.txt").write_text(rows, "utf-8")
    theirs = transformers.FSMTTokenizer(
        langs=[language, language],
        src_vocab_file=tmp_path / "vocab.json",
        tgt_vocab_file=tmp_path / "vocab.json",
        merges_file=tmp_path / "merges.txt",
        do_lower_case=lowercase,
    )
    ours = MosesTokenizer(TOKENS, MERGES, language, lowercase=lowercase)
    for text in random_texts(0, 100):
        expected = theirs.encode(text, add_special_tokens=False)
        assert [order[i] for i in ours.encode([text])[0]] == expected, text
        known = [i for i in expected if i > 3]
        expected = theirs.decode(known, clean_up_tokenization_spaces=False)
        assert ours.decode([[0, *known, 2, 0]]) == [expected], text


def test_a_saved_tokenizer_loads(tmp_path):
    tokenizer = MosesTokenizer(TOKENS, MERGES, "fr", lowercase=True)
    tokenizer.save(tmp_path / "x.json")
    again = MosesTokenizer.from_file(tmp_path / "x.json")
    for name in ("tokens", "merges", "language", "lowercase", "vocabulary_size"):
        assert getattr(again, name) == getattr(tokenizer, name)
    assert again.fingerprint() == tokenizer.fingerprint()
    assert again.fingerprint() != MosesTokenizer(TOKENS, MERGES, "en").fingerprint()
    texts = [*random_texts(1, 50)]
    assert again.encode(texts) == tokenizer.encode(texts)


def test_unknown_and_reserved_tokens():
    tokenizer = MosesTokenizer(TOKENS, MERGES, "en")
    (ids,) = tokenizer.encode(["Ω the Ω"])
    assert ids.count(3) == 2 and not tokenizer.is_unknown(ids)
    assert tokenizer.is_unknown([3, 3]) and not tokenizer.is_unknown([])
    assert tokenizer.decode([[1, *ids, 2, 0]]) == ["⁇ the ⁇"]
    assert tokenizer.encode(["", "  "]) == [[], []]
    assert tokenizer.tokens_to_ids(["</s>", "do"]) == [2, TOKENS.index("do")]
    with pytest.raises(kt.UserError, match="no token 'cat'"):
        tokenizer.tokens_to_ids(["cat"])
    with pytest.raises(kt.UserError, match="SavedModel"):
        _ = tokenizer.proto


def test_wrong_tokens_and_merges_are_refused():
    for tokens, merges, word in (
        (TOKENS[:3], [], "at least 4"),
        ([*TOKENS, "do"], MERGES, "distinct"),
        (TOKENS, [("a",)], "pair"),
        (TOKENS, [("a", "")], "pair"),
    ):
        with pytest.raises(kt.UserError, match=word):
            MosesTokenizer(tokens, merges, "en")


def test_missing_and_damaged_tokenizer_files_are_refused_by_name(tmp_path):
    path = tmp_path / "x.json"
    with pytest.raises(kt.UserError, match="Cannot find the tokenizer"):
        MosesTokenizer.from_file(path)
    MosesTokenizer(TOKENS, MERGES, "en").save(path)
    values = json.loads(path.read_text("utf-8"))
    for change in ({"tokens": 3}, {"tokens": [1, 2, 3, 4]}, {"language": None}, {"merges": ["a"]}):
        path.write_text(json.dumps({**values, **change}), "utf-8")
        with pytest.raises(kt.UserError, match=r"x\.json"):
            MosesTokenizer.from_file(path)
    path.write_text("{", "utf-8")
    with pytest.raises(kt.UserError, match="damaged"):
        MosesTokenizer.from_file(path)


@pytest.mark.parametrize("package", ["sacremoses", "tokenizers.models"])
def test_a_package_that_is_missing_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(kt.UserError, match="pip install sacremoses tokenizers"):
        MosesTokenizer(TOKENS, MERGES, "en")
