"""Trainings of two vocabularies, of several directions, and of texts with very long lines."""

import json

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.synthetic import generate
from keras_transformer.untranslated import SYMBOLS
from tests.small_corpus import new_model, sentence_pairs, tokenizer

pytestmark = pytest.mark.usefixtures("cheap_trainings")

SMALL = {
    **{"vocabulary_size": 200, "num_layers": 1, "scale": 0.25, "batch_tokens": 512},
    **{"num_shapes": 1, "interval": 2, "average": 1, "seed": 3},
}
SENTENCES = ["The dog sleeps.", "A man sees the house."]


def texts():
    """English to German, and back."""
    pairs = {
        split: [(x.english, x.german) for x in generate(split, size)]
        for split, size in (("train", 120), ("val", 2))
    }
    return [
        [
            kt.data.ParallelText("made", split, *languages, lambda pairs=pairs: iter(pairs))
            for split, pairs in swapped.items()
        ]
        for languages, swapped in (
            (("en", "de"), pairs),
            (("de", "en"), {split: [(b, a) for a, b in x] for split, x in pairs.items()}),
        )
    ]


def weights_of(translator):
    return translator.model.get_weights()


@pytest.mark.slow
def test_a_training_of_two_vocabularies_resumes_and_loads(tmp_path):
    (train, val), _ = texts()
    options = {**SMALL, "source_vocabulary_size": 150, "steps": 3}
    # A student for Marian
    options |= {"decoder": "ssru", "zero_start": True, "shortlist": True}
    translator = kt.Translator.train(train, val, output_dir=tmp_path / "run", **options)
    sizes = translator.model.hyperparameters
    assert (sizes["source_vocabulary_size"], sizes["vocabulary_size"]) == (150, 200)
    assert translator.source_tokenizer.vocabulary_size == 150
    # Of the sides' texts: the word of one is no word of the other.
    for vocabulary, own, other in (
        (translator.source_tokenizer, "the", "der"),
        (translator.tokenizer, "der", "the"),
    ):
        assert len(vocabulary.tokens(own)) < len(vocabulary.tokens(other))
    translator.search = kt.BeamSearch(2, extra_length=4)
    expected = translator(SENTENCES)
    loaded = kt.Translator.from_preset(tmp_path / "run" / "model", beam_size=2, extra_length=4)
    assert loaded(SENTENCES) == expected
    shortlist = loaded.shortlist
    full_stop = [x.encode(["."])[0][0] for x in (loaded.source_tokenizer, loaded.tokenizer)]
    lists = np.split(shortlist.token_ids, shortlist.offsets[1:-1])
    assert len(lists) == 150 and full_stop[1] in lists[full_stop[0]]
    # A training that goes on has both vocabularies, and ends as the one in one go.
    folder = tmp_path / "parts"
    kt.Translator.train(train, val, output_dir=folder, **{**options, "steps": 2})
    kept = (folder / "source_tokenizer.spm").read_bytes()
    resumed = kt.Translator.train(train, val, output_dir=folder, resume=True, **options)
    assert (folder / "source_tokenizer.spm").read_bytes() == kept
    assert all(map(np.array_equal, weights_of(resumed), weights_of(translator)))
    with pytest.raises(kt.UserError, match="source_vocabulary_size"):
        changed = {**options, "source_vocabulary_size": 140, "steps": 4}
        kt.Translator.train(train, val, output_dir=folder, resume=True, **changed)


def test_a_training_of_several_directions_translates_each_by_its_tag(tmp_path):
    (there, val), (back, _) = texts()
    train = kt.data.Mixture(
        [kt.data.TaggedText(there, "<2de>"), kt.data.TaggedText(back, "<2en>")], (1, 0.5)
    )
    val = kt.data.TaggedText(val, "<2de>")
    options = {**SMALL, "steps": 2, "output_dir": tmp_path / "run"}
    translator = kt.Translator.train(train, val, **options)
    assert translator.metadata.pop("longest_source") > 5
    assert translator.metadata == {
        **{"source": "en", "target": "de", "dataset": "made", "tags": ["<2de>", "<2en>"]},
    }
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert [part["pairs"] for part in results["mixture"]] == train.counts == [120, 60]
    assert results["mixture"][1]["tags"] == ["<2en>"]
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "- 60 pairs <2en> de to en of made\n" in card
    translator = kt.Translator.from_preset(tmp_path / "run" / "model", beam_size=2, extra_length=4)
    # The direction of the validation text by itself, another on demand, or as the text says.
    assert list(translator.preprocessor.source_prefix) == translator.tokenizer.tokens("<2de>")
    as_they_are = translator.tagged()
    for tag, tagged in (("<2de>", translator), ("<2en>", translator.tagged("<2en>"))):
        expected = list(as_they_are.translate([f"{tag} {text}" for text in SENTENCES]))
        assert list(tagged.translate(SENTENCES)) == expected
        assert tagged.model is translator.model
    sources = [
        translator.tagged(tag).preprocessor.encode_sources(SENTENCES) for tag in ("<2de>", "<2en>")
    ]
    assert sources[0] != sources[1]
    with pytest.raises(kt.UserError, match="no token '<2fr>'"):
        translator.tagged("<2fr>")
    # A training that begins with it, of texts that have their tags: each comes once.
    options |= {"init": str(tmp_path / "run" / "model"), "output_dir": tmp_path / "again"}
    del options["vocabulary_size"], options["num_layers"], options["scale"]
    again = kt.Translator.train(train, val, **options)
    (first, *_) = kt.data.TokenStore(tmp_path / "again" / "tokens" / "train").source
    (expected,) = again.tagged().source_tokenizer.encode([next(iter(train))[0]])
    assert first.tolist() == expected
    assert again.preprocessor.source_prefix == translator.preprocessor.source_prefix
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        as_they_are.export(tmp_path / "saved_model")
        served = tf.saved_model.load(str(tmp_path / "saved_model"))
        lines = [f"{tag} {text}" for tag in ("<2en>", "<2de>") for text in SENTENCES]
        outputs = served.signatures["serving_default"](text=tf.constant(lines))
        translations = [line.decode() for line in outputs["translation"].numpy()]
        assert translations == as_they_are(lines)


def test_overlong_pairs_are_left_out_of_a_training_and_counted(tmp_path, caplog):
    caplog.set_level("INFO")
    (train, val), _ = texts()
    odd = [
        ("dog " * 2_000, "Hund"),
        ("", "nichts"),
        # Not too many characters, but too many tokens, be they bytes.
        ("dog " * 100, "Hund"),
        ("dog", "\u4e00\u4e8c" * 20),
    ]
    # Any lists of pairs can be trained on.
    train, val = [*train, *odd], [*val, ("house", "Haus " * 100)]
    options = {**SMALL, "byte_fallback": True, "vocabulary_size": 460, "steps": 2}
    options |= {"character_coverage": 0.98, "max_tokens": 90}
    kt.Translator.train(train, val, **options, output_dir=tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["left_out"] == {"blank": 1, "too long": 1, "too many tokens": 2}
    assert "train: 2 pairs have a sentence of more than 90 tokens and are left out" in caplog.text
    assert "val: 1 pairs have a sentence" in caplog.text
    assert (results["dataset"], results["source"], results["target"]) == (
        "text",
        "source",
        "target",
    )
    card = (tmp_path / "model" / "README.md").read_text()
    assert "left out of the training text: 1 blank, 1 too long, 2 too many tokens" in card
    # The score is of all sentences.
    assert results["scores"]["val"]["num_sentences"] == 3
    options |= {"max_tokens": 1, "output_dir": tmp_path / "nothing"}
    with pytest.raises(kt.UserError, match="more than 1 tokens, and no pair is left.*max_tokens"):
        kt.Translator.train(train, val, **options)


@pytest.mark.once
@pytest.mark.parametrize("wrong", [None, "A dog.", 3, ["ab"], [("a", None)]], ids=repr)
def test_training_texts_are_validated_before_a_folder_is_made(tmp_path, wrong):
    for texts in ((wrong, [("a", "b")]), ([("a", "b")], wrong)):
        with pytest.raises(kt.UserError, match="must be (pairs of strings|a pair of strings)"):
            kt.Translator.train(*texts, output_dir=tmp_path / "run", steps=1)
    assert not [*tmp_path.iterdir()]


def test_a_preset_gets_symbols_after_its_own_tokens(tmp_path):
    pairs = [(f"{a} {{x}}", f"{{x}} {b}") for a, b in sentence_pairs(40)]
    first = kt.Translator(new_model(), tokenizer(), {"source": "en"})
    first.save_to_preset(tmp_path / "plain")
    assert not first.preprocessor.has_symbols
    options = {"init": str(tmp_path / "plain"), "steps": 1, "batch_tokens": 512, "seed": 3}
    options |= {"peak_learning_rate": 1e-9, "protect": True}
    second = kt.Translator.train(pairs, pairs[:2], output_dir=tmp_path / "symbols", **options)
    assert second.preprocessor.has_symbols
    size = first.tokenizer.vocabulary_size
    for old, new in zip(first.model.weights, second.model.weights, strict=True):
        added = len(SYMBOLS) if old.shape[0] == size else 0
        assert new.shape[0] == old.shape[0] + added
        kept = np.array(new)[: old.shape[0]]
        np.testing.assert_allclose(kept, np.array(old), atol=1e-5)
    loaded = kt.Translator.from_preset(tmp_path / "symbols" / "model")
    for split in ("sentences", None):
        found = loaded.n_best(["a dog %s sees {name} the <b>cat</b>"], 2, split=split)
        for text, _ in next(found):
            assert all(text.count(x) == 1 for x in ("%s", "{name}", "<b>", "</b>"))
            assert not {*SYMBOLS} & {*text}
    with pytest.raises(kt.UserError, match="`protect` must be left out with `lora`"):
        kt.Translator.train(pairs, pairs, output_dir=tmp_path / "lora", lora=2, **options)
