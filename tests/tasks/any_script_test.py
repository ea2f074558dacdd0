"""Text of all scripts, from files through a training into translations: nothing gets lost."""

import json
import random
import re

import keras
import pytest

import keras_transformer as kt
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.reserved_ids import UNKNOWN_ID

_RANGES = (
    *("az", "AZ", "àÿ", "αω", "ая", "את", "اي", "अह", "กฮ", "一乿", "가갿", "ぁゔ", "ァヴ"),
    # Combining marks, joiners and marks of directions, wide forms, private use, the second plane.
    *("\u0300\u0310", "\u200b\u200f", "\u202a\u202e", "！～", "\ue000\ue009"),
    "\U00020000\U0002002f",
)
EMOJI = ("🐕", "👩‍👩‍👧", "👍🏽", "🇩🇪", "❤️")
ODD = ("\x01", "\x07", "\x1b[0m", "\t", "\x0b", "\x0c", "\u2028", "\x85", "\xa0", "\u3000", "\xad")
RARE = (
    "\ufffd",
    "\uffff",
    "\U0010ffff",
    "▅",
    "\0",
    "<s>",
    "</s>",
    "<unk>",
    "<0x41>",
    "ﬁ",
    "½",
    "…",
)


def words(rng, length):
    first, last = map(ord, rng.choice(_RANGES))
    return "".join(chr(rng.randint(first, last)) for _ in range(length))


def line(rng, longest=12):
    parts = [words(rng, rng.randint(1, 6)) for _ in range(rng.randint(1, longest))]
    for others, share in ((EMOJI, 0.3), (ODD, 0.2), (RARE, 0.1)):
        if rng.random() < share:
            parts.insert(rng.randint(0, len(parts)), rng.choice(others))
    return rng.choice(("", "", "", " ")) + rng.choice((" ", " ", " ", "  ", "")).join(parts)


def lines(count, seed):
    """A line in a thousand has 5,000 characters; blank ones come too."""
    rng = random.Random(seed)
    return [
        "".join(words(rng, 10) for _ in range(500)) if i % 1000 == 7
        else " " if i % 1000 == 11
        else line(rng)
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_byte_fallback_restores_all_text(model_type):
    text = lines(600, seed=1)
    tokenizer = Tokenizer.train(
        text, 1200, model_type, 0.99, normalization="identity", byte_fallback=True
    )
    # Of lines that it was not made of, too.
    for sentences in (text, lines(300, seed=2)):
        token_ids = tokenizer.encode(sentences)
        assert tokenizer.decode(token_ids) == sentences
        assert not any(UNKNOWN_ID in ids for ids in token_ids)


@pytest.mark.once
def test_without_byte_fallback_only_covered_characters_are_restored():
    text = lines(600, seed=1)
    tokenizer = Tokenizer.train(text, 1300, character_coverage=0.99, normalization="identity")
    characters = {*"".join(text)}
    covered = {x for x in characters if is_token(tokenizer, x)}
    assert 500 < len(covered) < len(characters)
    unknown = re.compile(f"[^ {re.escape(''.join(covered))}]+")
    for sentence, ids in zip(text, tokenizer.encode(text)):
        # One unknown token for characters in a row; SentencePiece writes it with spaces.
        assert ids.count(UNKNOWN_ID) == len(unknown.findall(sentence))
        assert tokenizer.decode([ids])[0] == unknown.sub(" ⁇ ", sentence)


def is_token(tokenizer, character):
    try:
        return bool(tokenizer.tokens_to_ids([character]))
    except kt.UserError:
        return False


@pytest.mark.slow
def test_ten_thousand_lines_through_a_training(tmp_path):
    texts = {}
    for split, count, seed in (("train", 10_000, 1), ("val", 4, 5)):
        paths = [tmp_path / f"{split}.{side}" for side in ("xx", "yy")]
        for number, path in enumerate(paths):
            some = lines(count, seed + 10 * number)
            path.write_bytes("".join(f"{x}\n" for x in some).encode())
        texts[split] = kt.data.ParallelText.from_files(*paths)
    sources = lines(10_000, seed=1)
    assert [source for source, _ in texts["train"]] == sources

    run = tmp_path / "run"
    options = {"variant": "tiny", "num_layers": 1, "scale": 0.25, "vocabulary_size": 2_500}
    options |= {"normalization": "identity", "byte_fallback": True, "character_coverage": 0.995}
    translator = kt.Translator.train(
        texts["train"], texts["val"], steps=3, interval=3, num_shapes=2, output_dir=run, **options
    )
    # Each pair is in a batch, or was left out with a reason.
    left_out = json.loads((run / "results.json").read_text())["left_out"]
    assert left_out["blank"] >= 10 and left_out["too long"] >= 10
    store = TokenStore(run / "tokens" / "train")
    assert len(store) + sum(left_out.values()) == 10_000
    assert len(store) > 9_900
    assert max(store.source.lengths.max(), store.target.lengths.max()) <= 256

    # Each line has a translation, and what is not read of it is told.
    loaded = kt.Translator.from_preset(
        run / "model", search="greedy", extra_length=2, max_source_length=48
    )
    some = sources[:40]
    translations = loaded(some, split=None)
    assert len(translations) == 40 and translations[11] == ""
    checks = loaded.prepare(some, split=None)
    token_ids = loaded.tokenizer.encode(some)
    assert [check.is_cut for check in checks] == [len(ids) > 47 for ids in token_ids]
    assert checks[7].is_cut and not any(check.is_unknown for check in checks)
    assert translator.tokenizer.decode(token_ids) == some
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        loaded.export(tmp_path / "saved_model")
        served = tf.saved_model.load(str(tmp_path / "saved_model"))
        found = served.signatures["serving_default"](text=tf.constant(some))["translation"].numpy()
        assert [text.decode() for text in found] == translations
