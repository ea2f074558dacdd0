"""Models whose sources do not end with the end token."""

import json

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.reserved_ids import END_ID, START_ID
from tests.helpers import to_numpy
from tests.small_corpus import new_model, tokenizer

pytestmark = pytest.mark.usefixtures("cheap_trainings")

TEXTS = ["the dog", "a cat sees", "", "the small red house"]


def new_translator(**options):
    search = kt.BeamSearch(beam_size=1, alpha=0.0, extra_length=3)
    return kt.Translator(new_model(), tokenizer(), source_end=False, search=search, **options)


def test_sources_without_end_token_are_searched_without_it():
    translator = new_translator()
    for text, (translation, score) in zip(TEXTS, translator.translate(TEXTS)):
        ids = tokenizer().encode([text])[0]
        if not ids:
            assert (translation, score) == ("", 0.0)
            continue
        outputs, scores = translator.search(translator.model, np.array([ids]), 1)
        assert translation == tokenizer().decode(to_numpy(outputs)[0])[0]
        assert score == pytest.approx(to_numpy(scores)[0, 0], abs=1e-4)


@pytest.mark.once
def test_a_source_without_end_token_has_room_for_one_token_more():
    text = "the dog sees a house"
    ids = tokenizer().encode([text])[0]
    for source_end, most in ((True, 4), (False, 5)):
        translator = kt.Translator(
            new_model(), tokenizer(), max_source_length=5, source_end=source_end
        )
        assert translator.preprocessor.encode_sources([text]) == [
            ids[:most] + [END_ID] * source_end
        ]
        assert translator.prepare([text])[0].is_cut == (len(ids) > most)


@pytest.mark.once
def test_a_preset_keeps_whether_sources_end(tmp_path):
    for source_end in (True, False):
        translator = kt.Translator(new_model(), tokenizer(), source_end=source_end)
        translator.save_to_preset(tmp_path / "preset")
        assert kt.Translator.from_preset(tmp_path / "preset").preprocessor.source_end is source_end


@pytest.mark.once
def test_a_training_from_a_preset_keeps_sources_without_end_token(tmp_path):
    texts = {"en": ["the dog sees a cat", "the house"], "de": ["ein Hund", "das kleine Haus"]}
    for side, lines in texts.items():
        for name in ("train", "val"):
            (tmp_path / f"{name}.{side}").write_text("\n".join(lines * 4) + "\n")
    train, val = (
        kt.data.ParallelText.from_files(*(tmp_path / f"{name}.{side}" for side in texts), *texts)
        for name in ("train", "val")
    )
    new_translator().save_to_preset(tmp_path / "preset")
    options = {"init": str(tmp_path / "preset"), "steps": 1, "interval": 1, "batch_tokens": 64}
    tuned = kt.Translator.train(train, val, output_dir=tmp_path / "run", **options)
    assert tuned.preprocessor.source_end is False
    saved = kt.Translator.from_preset(tmp_path / "run" / "model")
    assert saved.preprocessor.source_end is False
    # Validation sees sources as the search does.
    found = json.loads((tmp_path / "run" / "results.json").read_text())["validation"]
    assert found["perplexity"] == pytest.approx(perplexity(tuned, zip(*texts.values())), rel=1e-3)


def perplexity(translator, pairs):
    """By hand, pair by pair: of sources without end token and padding."""
    losses = []
    for source, target in pairs:
        source, target = tokenizer().encode([source, target])
        inputs = {
            "encoder_token_ids": np.array([source]),
            "decoder_token_ids": np.array([[START_ID, *target]]),
        }
        logits = to_numpy(translator.model(inputs))[0].astype("float64")
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        losses.extend(-log_p[np.arange(len(log_p)), [*target, END_ID]])
    return np.exp(np.mean(losses))


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a SavedModel is made by TensorFlow"
)
@pytest.mark.parametrize("limit", [None, 3])
def test_a_saved_model_gives_the_results_of_python(limit, tmp_path):
    import tensorflow as tf

    translator = new_translator(max_source_length=limit)
    translator.export(tmp_path / "saved_model")
    loaded = tf.saved_model.load(str(tmp_path / "saved_model"))
    served = loaded.signatures["serving_default"](text=tf.constant(TEXTS))
    expected = list(translator.translate(TEXTS, split=None))  # a SavedModel does not divide
    assert [text.decode() for text in served["translation"].numpy()] == [x for x, _ in expected]
    np.testing.assert_allclose(served["score"].numpy(), [score for _, score in expected], rtol=1e-4)
