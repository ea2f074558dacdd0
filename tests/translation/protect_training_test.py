"""Trainings with reserved symbols, and translators of models that have them."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.translation import prepared_text
from keras_transformer.untranslated import SYMBOLS
from tests.small_corpus import new_model, sentence_pairs, tokenizer

pytestmark = pytest.mark.usefixtures("cheap_trainings")

OPTIONS = {
    **{"batch_tokens": 512, "seed": 3, "num_shapes": 1, "interval": 1, "average": 1, "steps": 1},
    **{"peak_learning_rate": 1e-9, "protect": True},
}


class Echo(kt.Translator):
    """Its translations are its sources."""

    def search_batch(self, token_ids, num_results, *_, **__):
        ids = np.array(token_ids)
        return ids[:, None], np.zeros((len(ids), 1))


def test_a_preset_gets_symbols_after_its_own_tokens(tmp_path):
    pairs = [(f"{a} {{x}}", f"{{x}} {b}") for a, b in sentence_pairs(40)]
    first = kt.Translator(new_model(), tokenizer(), {"source": "en"})
    first.save_to_preset(tmp_path / "plain")
    assert not first.preprocessor.has_symbols
    options = {"init": str(tmp_path / "plain"), **OPTIONS}
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


def test_symbols_are_read_and_written_without_a_pass_for_links(monkeypatch):
    preprocessor = kt.data.TranslationPreprocessor(tokenizer()).with_symbols()
    model = new_model(vocabulary_size=preprocessor.tokenizer.vocabulary_size)
    translator = Echo(model, preprocessor, {"source": "en"})
    monkeypatch.setattr(prepared_text, "word_links", None)  # would raise an error
    texts = ["a dog sees %s and {name}\n\n  the cat runs", "%d", "a https://a.b/c tree", "a cat"]
    for split in ("sentences", "lines"):
        assert translator(texts, split=split) == texts
    assert translator(texts[1:], split=None) == texts[1:]
    (page,) = translator.prepare(["<p>the {x}</p>"])
    assert page.sentences == [f"the {SYMBOLS[0]}"]
    many = " and ".join(f"{{x{i}}}" for i in range(13))
    assert translator(many) == many
