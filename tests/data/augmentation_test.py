"""Training pairs in the forms of text as it comes."""

import random
from collections import Counter

import pytest

import keras_transformer as kt
from keras_transformer.data.augmentation import FORMS, augmented, in_form, parse_shares
from keras_transformer.data.mixtures import Mixture, TaggedText
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.token_store import TokenStore
from tests.helpers import error_of
from tests.small_corpus import new_model, sentence_pairs, tokenizer

pytestmark = pytest.mark.once


def changed(form, source, target="", languages=("en", "de"), seed=0):
    return in_form(form, (source, target), languages, random.Random(seed))


@pytest.mark.parametrize(
    ("form", "languages", "pair", "expected"),
    [
        ("upper", "en de", ("No action.", "Straße."), ("NO ACTION.", "STRASSE.")),
        ("upper", "en tr", ("It is.", "ışık izi"), ("IT IS.", "IŞIK İZİ")),
        ("upper", "en el", ("day", "Καλημέρα, Μάιος, ϊ"), ("DAY", "ΚΑΛΗΜΕΡΑ, ΜΑΙΟΣ, Ϊ")),
        ("upper", "en zh", ("dog", "狗。"), ("DOG", "狗。")),
        ("title", "en de", ("it's a NASA dog", "ein ßa"), ("It's A NASA Dog", "Ein Ssa")),
        ("title", "tr en", ("izi ve ışık", "x"), ("İzi Ve Işık", "X")),
        ("no_end", "en zh", ("A dog.", "狗。"), ("A dog", "狗")),
        ("no_end", "en de", ("Who?", "Wer?"), ("Who?", "Wer?")),
        ("no_end", "en de", ("Well...", "Na."), ("Well...", "Na.")),
        ("no_end", "en de", ("A dog", "Ein Hund."), ("A dog", "Ein Hund.")),
    ],
)
def test_each_form_changes_both_sides(form, languages, pair, expected):
    assert changed(form, *pair, languages.split()) == expected


def test_a_typo_swaps_drops_doubles_or_replaces_a_letter_of_the_source():
    found = {changed("typo", "a Bird", "ein Vogel", seed=seed) for seed in range(300)}
    expected = {"Brid", "Bidr", "Brd", "Bid", "Biird", "Birrd", "Burd", "Bord", "Bied", "Bitd"}
    assert found - {("a Bird", "ein Vogel")} == {(f"a {x}", "ein Vogel") for x in expected}
    assert changed("typo", "a dog 1234 狗狗狗狗狗")[0] == "a dog 1234 狗狗狗狗狗"


def test_placeholders_and_tags_stay():
    kept = "<2fr> >>fra<< <b>%s</b> {name} http://abcd.efg/hijk &nbsp; abcdef@ghij.kl \uee10"
    for form in FORMS:
        for seed in range(20):
            assert changed(form, kept, kept, seed=seed) == (kept, kept)
    assert changed("upper", "<2fr> see {name}.")[0] == "<2fr> SEE {name}."


@pytest.mark.parametrize(
    "value",
    [
        *("lower=0.1", "upper=0.1,upper=0.2", "", 0.5, "upper=x", "upper", "upper=-0.1"),
        *("upper=1=2", "typo=nan", "typo=1.1", "upper=0.5,title=0.5"),
    ],
)
def test_wrong_shares_are_refused(value):
    message = error_of(lambda: parse_shares(value))
    assert "with the forms upper, title, typo, no_end" in message
    assert f"sum is less than 1. Received: augment={value!r}" in message


def text_of(pairs, target="de"):
    return ParallelText("x", "train", "en", target, pairs)


def test_forms_have_their_shares_of_the_pairs_of_each_corpus():
    texts = [text_of([(f"a{i}.", f"b{i}.") for i in range(60)]), text_of([("c.", "d.")] * 30)]
    shares = {"upper": 0.2, "no_end": 0.2}
    for ratios, second in ((None, 30), ([1, 2], 120), ([2, 4], 120), ([2, None], 30)):
        mixture = augmented(Mixture([texts[0], TaggedText(texts[1], "<bt>")], ratios), shares, 1)
        assert mixture.counts == [60, second, 20, second // 3, 20, second // 3]
        rows = Counter(mixture)
        assert rows["<bt> C.", "D."] == rows["<bt> c", "d"] == second // 3
        assert rows["A0.", "B0."] + rows["a0", "b0"] < 3 and rows["a0.", "b0."] == 1
    assert augmented(texts[0], parse_shares("upper=0, title=0")).counts == [60]


def test_batches_hold_forms_that_have_more_tokens(tmp_path):
    pairs = sentence_pairs(30)
    text = augmented(text_of(pairs), {"upper": 0.4, "typo": 0.1}, seed=3)
    store = TokenStore.build(tmp_path / "tokens", text, tokenizer())
    assert store.parts == [[30, 30], [30, 24], [30, 6]]
    batches = kt.data.TokenBatches(store, batch_tokens=600, num_shapes=3, seed=1)
    pairs = [x for i in range(len(batches)) for x in batches.pairs_of_batch(0, i)[1].tolist()]
    assert sum(30 <= i < 60 for i in pairs) == 24
    again = augmented(text_of(sentence_pairs(30)), {"upper": 0.4, "typo": 0.1}, seed=3)
    assert again.fingerprint() == text.fingerprint()
    other = augmented(text_of(sentence_pairs(30)), {"upper": 0.4, "typo": 0.1}, seed=4)
    assert other.fingerprint() != text.fingerprint()


def train(folder, steps, **options):
    text = text_of(sentence_pairs(40))
    options = {"vocabulary_size": 60, "num_shapes": 2, "interval": 2, "average": 1} | options
    options |= {"augment": "upper=0.2,typo=0.2", "num_layers": 1, "warmup_steps": 2}
    return kt.Translator.train(
        text, text_of(sentence_pairs(4)), output_dir=folder, steps=steps, **options
    )


def weights(translator):
    return [x.tolist() for x in translator.model.get_weights()]


def test_a_resumed_training_repeats_the_same_forms(tmp_path):
    whole = train(tmp_path / "whole", 4)
    train(tmp_path / "parts", 2)
    assert weights(train(tmp_path / "parts", 4, resume=True)) == weights(whole)
    message = error_of(
        lambda: kt.Translator.train(
            *[text_of(sentence_pairs(4))] * 2, output_dir=tmp_path / "x", steps=1, augment="x=1"
        )
    )
    assert "`augment` must be" in message


@pytest.mark.parametrize("lora", [None, 2])
def test_fine_tuning_reads_the_forms(lora, tmp_path):
    kt.Translator(new_model(), tokenizer()).save_to_preset(tmp_path / "preset")
    text = text_of(sentence_pairs(40))
    kt.Translator.train(
        text,
        text,
        output_dir=tmp_path / "run",
        steps=2,
        interval=2,
        average=1,
        num_shapes=1,
        init=str(tmp_path / "preset"),
        lora=lora,
        augment="upper=0.1,title=0.2",
    )
    assert len(TokenStore(tmp_path / "run" / "tokens" / "train").parts) == 3
