import itertools
import math
import os
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.reserved_ids import END_ID, START_ID
from keras_transformer.translation import scoring
from keras_transformer.translation.scoring import score_ids, teacher_forced
from keras_transformer.translation.translator import Translator
from tests.helpers import assert_close, error_of, to_numpy
from tests.small_corpus import new_model, sentence_pairs, tokenizer

SOURCES = [source for source, _ in sentence_pairs(6, longest=8)]
SEARCHES = {
    "gnmt": kt.BeamSearch(beam_size=3, alpha=0.6, extra_length=5),
    "power": kt.BeamSearch(beam_size=3, alpha=1.0, length_penalty="power", extra_length=5),
    "coverage": kt.BeamSearch(beam_size=3, alpha=1.0, coverage_penalty=0.3, extra_length=5),
    "sampling": kt.Sampling(temperature=1.5, extra_length=5),
}


def new_translator(search="gnmt", prefix=(), **options):
    text = TranslationPreprocessor(tokenizer(), target_prefix=prefix)
    return Translator(new_model(**options), text, search=SEARCHES.get(search, search))


def tokens_to_ids(translator, sources=SOURCES):
    return translator.preprocessor.encode_sources(sources)


@pytest.mark.parametrize(
    ("search", "prefix"),
    [
        pytest.param("coverage", ("▁dog",), marks=pytest.mark.each_backend),
        ("power", ()),
        ("sampling", ("▁dog",)),
    ],
)
def test_ids_that_a_search_returned_have_its_score(search, prefix):
    translator = new_translator(search, prefix)
    sources = tokens_to_ids(translator)
    width = max(map(len, sources))
    batch = np.array([ids + [0] * (width - len(ids)) for ids in sources])
    token_ids, scores = map(to_numpy, translator.search_batch(batch, 3))
    found = scores.ravel() > -np.inf
    assert found.sum() >= len(SOURCES)
    targets = token_ids.reshape(-1, token_ids.shape[-1])[found]
    rows = [*itertools.compress([ids for ids in sources for _ in range(3)], found)]
    given = score_ids(translator, rows, [ids[ids > 0].tolist() for ids in targets])
    assert_close([score.score for score in given], scores.ravel()[found], 1e-4)


def test_score_of_a_text_is_the_score_of_its_ids():
    translator = new_translator()
    translations = [text for text, _ in translator.translate(SOURCES)]
    targets = translator.preprocessor.encode_targets(translations)
    by_text = translator.score(SOURCES, translations)
    by_ids = score_ids(translator, tokens_to_ids(translator), targets)
    for text, ids, target in zip(by_text, by_ids, targets):
        assert_close(text.token_log_probs, ids.token_log_probs)
        assert len(text.token_log_probs) == len(target)
        assert math.isclose(text.perplexity, math.exp(-np.mean(ids.token_log_probs)), rel_tol=1e-5)


class Echo(Translator):
    """Its translations are its sources, with their scores."""

    def search_batch(self, token_ids, num_results, *_, **__):
        ids = np.array(token_ids)
        rows = [row[row > 0].tolist() for row in ids]
        scores = [[score.score] for score in score_ids(self, rows, rows)]
        return ids[:, None], np.array(scores)


@pytest.mark.parametrize("has_symbols", [False, True])
def test_texts_with_placeholders_have_the_score_of_the_search(has_symbols):
    text = TranslationPreprocessor(tokenizer())
    text = text.with_symbols() if has_symbols else text
    model = new_model(vocabulary_size=text.tokenizer.vocabulary_size)
    translator = Echo(model, text, search=SEARCHES["gnmt"])
    texts = ["the dog sees {name}", "%s runs and %d runs and %s", "a <b>cat</b> <x/> and {a} {b}"]
    translations, scores = zip(*translator.translate(texts))
    assert_close([score.score for score in translator.score(texts, translations)], scores, 1e-5)
    # A part that the source lacks is scored as text.
    scores = translator.score(["a dog"] * 2, ["a dog {x}", "a dog"])
    assert len(scores[0].token_log_probs) > len(scores[1].token_log_probs)


def test_log_probs_are_computed_from_the_logits():
    model = new_model()
    sources, targets = [[5, 6, 7, END_ID], [8, END_ID]], [[9, END_ID], [4, 5, 6, 7, END_ID]]
    outputs = teacher_forced(model, sources, targets, batch_tokens=64)
    for source, target, output in zip(sources, targets, outputs):
        inputs = {
            "encoder_token_ids": np.array([source]),
            "decoder_token_ids": np.array([[START_ID, *target[:-1]]]),
        }
        log_probs = to_numpy(keras.ops.log_softmax(model(inputs)))[0]
        assert_close(output.log_probs, log_probs[np.arange(len(target)), target])
        assert output.attention is None


def test_attention_is_the_mean_over_the_heads_of_each_layer():
    model = new_model(num_layers=2)
    pairs = [[5, 6, 7, END_ID], [8, END_ID]], [[9, END_ID], [4, 5, 6, 7, END_ID]]
    outputs = teacher_forced(model, *pairs, batch_tokens=64, layer=(0, -1))
    last = teacher_forced(model, *pairs, batch_tokens=64, layer=-1)
    for source, target, output, other in zip(*pairs, outputs, last):
        cross = kt.visualization.attention_weights(model, source, target).cross
        assert_close(output.attention, [x.mean(axis=0) for x in cross])
        assert_close(other.attention, cross[-1].mean(axis=0))


@pytest.mark.once
def test_batches_have_few_shapes_and_pairs_keep_their_order(monkeypatch):
    shapes = []

    def first_tokens(function, model, sources, targets, **options):
        assert sources.shape == targets.shape
        shapes.append(targets.shape)
        return (targets.astype("float32"),)

    monkeypatch.setattr(scoring, "run_compiled", first_tokens)
    generator = np.random.default_rng(0)
    sides = [
        [generator.integers(4, 40, generator.integers(1, 33)).tolist() for _ in range(500)]
        for _ in range(2)
    ]
    outputs = teacher_forced(new_model(), *sides, batch_tokens=256)
    assert [output.log_probs.tolist() for output in outputs] == sides[1]
    assert len(set(shapes)) <= 8 and all(rows * length <= 256 for rows, length in shapes)


def test_sources_without_tokens_have_only_the_empty_translation():
    translator = new_translator()
    scores = translator.score([" ", " ", "a dog"], ["", "a dog", ""])
    assert [score.score for score in scores[:2]] == [0.0, -math.inf]
    assert len(scores[2].token_log_probs) == 1  # of the end token


@pytest.mark.once
def test_errors_name_the_argument_and_the_reason():
    translator = new_translator(prefix=("▁dog",))
    assert "Received: 2 sources and 1 targets" in error_of(translator.score, ["a", "a"], ["a"])
    assert "`sources` must be a list" in error_of(translator.score, "a", ["a"])
    learned = new_translator(position_encoding="learned", max_length=60)
    message = error_of(learned.score, ["a dog"], ["a dog " * 60])
    assert "`targets[0]` must have at most 60 tokens" in message


def test_scores_of_ctranslate2():
    folder = Path(os.environ.get("KERAS_TRANSFORMER_DATA", "data")) / "ctranslate2_aren"
    if not folder.is_dir():
        pytest.skip("no ctranslate2_aren in KERAS_TRANSFORMER_DATA")
    translator = kt.Translator.from_preset(kt.convert.ctranslate2(folder))
    (score,) = translator.score(["آ ت ز م و ن"], ["a t z m o n"])
    # CTranslate2 4.8.5, float32: `Translator.score_batch`
    expected = [-0.106023, -0.06541, -0.056002, -0.447953, -0.230714, -0.092184, -0.063463]
    assert_close(score.token_log_probs, expected, 1e-5)
    assert_close(np.mean(score.token_log_probs), -0.151678, 1e-5)
