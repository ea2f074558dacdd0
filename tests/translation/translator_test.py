import sys
import warnings
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import progress
from keras_transformer.data.text_lines import BREAKS, in_windows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.batched_search import FEW_SIZES, batch_sizes
from keras_transformer.reserved_ids import END_ID
from keras_transformer.translation import translator as translator_module
from keras_transformer.translation.translator import Translator
from tests.decoding.search_functions import beam_search, greedy_search
from tests.helpers import assert_close, to_numpy
from tests.small_corpus import new_model, sentence_pairs, tokenizer

SENTENCES = [source for source, _ in sentence_pairs(40, longest=30)]


# With a search that gives back its source: fast, and the translation says where it came from.


@dataclass(frozen=True)
class Copy(kt.BeamSearch):
    """The first result is the source, the others are missing."""

    shapes: list = field(default_factory=list)  # of the batches searched

    def __call__(self, model, token_ids, num_results=1, constraints=(), **options):
        self.shapes.append(token_ids.shape)
        outputs = np.repeat(token_ids[:, None], num_results, axis=1)
        scores = np.full(outputs.shape[:2], -np.inf, "float32")
        scores[:, 0] = -token_ids.sum(axis=1)
        return outputs, scores


def copying_translator(batch_tokens=64, max_length=None, **options):
    # Of the model, only the number of learned positions matters.
    model = SimpleNamespace(config=SimpleNamespace(max_length=max_length))
    return Translator(model, tokenizer(), batch_tokens=batch_tokens, search=Copy(), **options)


def copied_score(sentence):
    if not sentence:
        return 0.0
    return -float(sum(tokenizer().encode([sentence])[0]) + END_ID)


@pytest.mark.once
def test_translations_and_scores_are_in_the_order_of_the_sources():
    sentences = [*SENTENCES[:9], "", *SENTENCES[9:], "", SENTENCES[3]]
    translator = copying_translator()
    assert translator(sentences) == sentences
    scores = [score for _, score in translator.translate(sentences)]
    assert scores == [copied_score(sentence) for sentence in sentences]
    assert all(type(score) is float for score in scores)


@pytest.mark.once
@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 40])
def test_streams_longer_than_a_window_are_translated_completely(monkeypatch, count):
    monkeypatch.setattr(translator_module, "in_windows", partial(in_windows, size=7))
    stream = (sentence for sentence in SENTENCES[:count])
    translations = [text for text, _ in copying_translator().translate(stream)]
    assert translations == SENTENCES[:count]


@pytest.mark.once
def test_stream_is_read_a_window_at_a_time(monkeypatch):
    monkeypatch.setattr(translator_module, "in_windows", partial(in_windows, size=7))
    read = []

    def stream():
        while True:  # without end
            read.append(1)
            yield "the dog"

    results = copying_translator().translate(stream())
    for count in range(1, 22):
        assert next(results)[0] == "the dog"
        assert len(read) == -(-count // 7) * 7


@pytest.mark.once
def test_windows_of_all_sizes_make_few_shapes_on_request():
    translator = copying_translator(batch_tokens=256)
    token = batch_sizes.set(FEW_SIZES)
    for count in range(1, len(SENTENCES)):
        (results,) = translator.translate_windows([SENTENCES[:count]])
        assert [found[0][0] for found in results] == SENTENCES[:count]
    batch_sizes.reset(token)
    sizes = {1, 4, 16, 32, 64, 128, 256}
    assert all({*shape} <= sizes for shape in translator.search.shapes)
    assert len(set(translator.search.shapes)) <= 10


@pytest.mark.once
@pytest.mark.parametrize("batch_tokens", [1, 50, 64, 100, 1000, 4096])
def test_batches_of_many_lengths_have_few_shapes_within_the_budget(batch_tokens):
    translator = copying_translator(batch_tokens)
    translator(["a " * count for count in range(1, 200)])
    shapes = translator.search.shapes
    assert sum(rows for rows, _ in shapes) >= 199
    assert len({length for _, length in shapes}) <= 16 and len(set(shapes)) <= 24
    assert all(rows * length <= batch_tokens or rows == 1 for rows, length in shapes)


@pytest.mark.once
def test_one_string_has_one_translation():
    translator = copying_translator()
    assert translator("the dog") == "the dog" and translator(["the dog"]) == ["the dog"]


# Line breaks


@dataclass(frozen=True)
class Always(kt.BeamSearch):
    """Every result is these tokens."""

    output: tuple = ()

    def __call__(self, model, token_ids, num_results=1, constraints=(), **options):
        outputs = np.tile(np.array(self.output), (len(token_ids), num_results, 1))
        return outputs, np.zeros(outputs.shape[:2], "float32")


@pytest.mark.once
def test_the_translation_of_a_line_is_one_line():
    texts = ["the dog", "a cat"]
    with_bytes = Tokenizer.train(texts, 280, byte_fallback=True, normalization="identity")
    (output,) = with_bytes.encode([f"the{BREAKS}dog"])
    assert with_bytes.decode([output]) == [f"the{BREAKS}dog"]
    model = SimpleNamespace(config=SimpleNamespace(max_length=None))
    translator = Translator(model, with_bytes, search=Always(output=tuple(output)))
    line = f"the{' ' * len(BREAKS)}dog"
    assert translator(texts) == [line] * 2
    assert [[text for text, _ in row] for row in translator.n_best(texts, 2)] == [[line] * 2] * 2
    # A text that is not split may stay one of several lines.
    assert translator(["the\ndog"], split=None) == [line.replace("  ", " \n", 1)]


# Blank, unknown and long sentences

WHITE_SPACE = [char for char in map(chr, range(sys.maxunicode + 1)) if char.isspace()]


@pytest.mark.once
@pytest.mark.parametrize("count", [1, 3])
def test_a_blank_sentence_is_not_searched(count):
    # Of a space without width, the tokenizer leaves nothing; it knows no U+0085, a line's end.
    blank = ["", "  ", "\t \r", "\u200b", *WHITE_SPACE, "".join(WHITE_SPACE)]
    translator = copying_translator()
    empty = list(translator.n_best(blank, count, split=None))
    assert empty == [[("", 0.0)] * count] * len(blank)
    assert list(translator.n_best(blank, count)) == [[(text, 0.0)] * count for text in blank]
    assert translator.search.shapes == []
    assert translator(["the dog", *blank, "a cat"]) == ["the dog", *blank, "a cat"]


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, 1024),
        ({"max_source_length": 7}, 7),
        ({"max_source_length": None}, 10_000),
        ({"max_length": 60, "extra_length": 50}, 10),
        ({"max_length": 60, "extra_length": 50, "max_source_length": None}, 10),
        ({"max_length": 60, "extra_length": 50, "max_source_length": 7}, 7),
    ],
    ids=str,
)
def test_a_long_sentence_is_cut(options, limit):
    translator = copying_translator(**options)
    sentences = ["a " * count for count in (3, 6, 7, 9, 10, 1023, 1024, 3000)]
    token_ids = tokenizer().encode(sentences)
    cut = tokenizer().decode([ids[: limit - 1] for ids in token_ids])
    assert translator(sentences, split=None) == cut
    assert max(length for _, length in translator.search.shapes) <= limit
    are_cut = [text.is_cut for text in translator.prepare(sentences, split=None)]
    assert are_cut == [len(ids) + 1 > limit for ids in token_ids]


@pytest.mark.once
def test_the_end_token_stays_when_a_sentence_is_cut():
    sources = []

    @dataclass(frozen=True)
    class Noted(kt.BeamSearch):
        def __call__(self, model, token_ids, num_results=1, constraints=(), **options):
            sources.extend(token_ids.tolist())
            return token_ids[:, None], np.zeros((len(token_ids), 1), "float32")

    model = SimpleNamespace(config=SimpleNamespace(max_length=None))
    Translator(model, tokenizer(), search=Noted(), max_source_length=4)(["a a a a a a"], split=None)
    (ids,) = tokenizer().encode(["a a a a a a"])
    assert sources == [[*ids[:3], END_ID]]


@pytest.mark.once
def test_unknown_sources_are_recognized():
    sentences = ["中文", "中 文 。", "🙂", "the 中", "the dog", "", " ", "\0", "東京"]
    checks = copying_translator().prepare(sentences, split=None)
    assert [check.is_unknown for check in checks] == [1, 1, 1, 0, 0, 0, 0, 1, 0]
    assert [check.has_unknown for check in checks] == [1, 1, 1, 1, 0, 0, 0, 1, 0]
    assert not any(check.is_cut for check in checks)


@pytest.mark.once
def test_a_call_warns_once_of_sources_that_are_not_read_whole():
    translator = copying_translator(max_source_length=4)
    with pytest.warns(UserWarning) as warned:
        translator(["the dog", "the 🙂", "a a a a a a", *["中"] * 6], split=None)
    assert len(warned) == 1 and warned[0].filename == __file__
    assert str(warned[0].message) == (
        "Sources are not read whole: characters that the vocabulary lacks (中🙂) in "
        "sentences[1]='the 🙂', sentences[3]='中', sentences[4]='中', sentences[5]='中', "
        "sentences[6]='中', ...; more than 4 tokens in sentences[2]='a a a a a a'."
    )
    with pytest.warns(UserWarning, match=r"in sentences\[5000\]='中'\.") as warned:
        list(translator.translate(iter([*["the dog"] * 5000, "中", *["dog"] * 5000, "中"])))
    assert len(warned) == 1 and warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator(["the dog", "", "a dog"])


@pytest.mark.once
def test_a_call_warns_of_sources_in_the_target_language():
    sentences = ["the dog runs and the cat sees the house"] * 10
    languages = {"source": "de", "target": "en"}
    with pytest.warns(UserWarning, match="look like en, but the model translates from de") as told:
        copying_translator(metadata=languages)(sentences)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copying_translator(metadata={"source": "en", "target": "de"})(sentences)
        copying_translator(metadata={**languages, "tags": ["<2en>"]})(sentences)


@pytest.mark.once
def test_each_window_is_translated_before_the_next_is_read():
    asked = []

    def windows():
        for window in (["the dog", ""], [], ["a cat"]):
            asked.append(window)
            yield window

    for count, results in enumerate(copying_translator().translate_windows(windows()), start=1):
        assert len(asked) == count
        assert [[text for text, _ in sentence] for sentence in results] == [[t] for t in asked[-1]]
    assert count == 3


@pytest.mark.once
def test_texts_before_an_error_of_the_stream_are_translated():
    def stream():
        yield from ("the dog", "a cat")
        raise OSError("the disk is gone")

    results = copying_translator().translate(stream())
    assert [next(results)[0], next(results)[0]] == ["the dog", "a cat"]
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)


@pytest.mark.once
def test_missing_results_are_left_out():
    sentences = SENTENCES[:9]
    results = list(copying_translator().n_best(sentences, 3))
    assert results == [[(sentence, copied_score(sentence))] for sentence in sentences]


@pytest.mark.once
def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    translator = copying_translator()
    monkeypatch.setattr(progress, "_SECONDS_BEFORE", 0)
    translator(SENTENCES)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    translator(SENTENCES)
    output, errors = capsys.readouterr()
    assert output == "" and "0/40" in errors
    with progress.progress_shown(False):  # --quiet
        translator(SENTENCES)
    assert capsys.readouterr() == ("", "")
    translator(SENTENCES)
    assert "0/40" in capsys.readouterr().err


# With a model


@pytest.fixture(scope="module")
def translator():
    return Translator(new_model(), tokenizer(), {"source": "en"}, extra_length=3)


@pytest.fixture(scope="module")
def results(translator):
    return list(translator.translate(TEXTS, split=None))


TEXTS = ["the dog", "", "a small cat sees the dog", "ж", "東京", "the red house and the man"]


@pytest.mark.each_backend_long
def test_translations_equal_the_search_of_each_sentence(translator, results):
    for text, (translation, score) in zip(TEXTS, results):
        if not text:
            assert (translation, score) == ("", 0.0)
            continue
        (ids,) = tokenizer().encode([text])
        # Padded to one shape: few programs.
        source = np.zeros((1, 16), "int32")
        source[0, : len(ids) + 1] = [*ids, END_ID]
        output_ids, scores = beam_search(translator.model, source, extra_length=3, num_results=2)
        assert tokenizer().decode(to_numpy(output_ids)[0])[0] == translation
        assert_close(to_numpy(scores)[0, 0], score, atol=1e-4)
    assert len({translation for translation, _ in results}) > 3


def test_n_best_begins_with_the_best(translator, results):
    for (best, *others), (translation, score) in zip(translator.n_best(TEXTS, 2), results):
        assert best[0] == translation and best[1] == pytest.approx(score, abs=1e-4)
        assert len(others) == 1 and others[0][1] <= best[1]


def test_search_options_reach_the_search(translator):
    greedy = Translator(translator.model, tokenizer(), extra_length=3, beam_size=1, alpha=0.0)
    source = np.array([[*tokenizer().encode([TEXTS[0]])[0], END_ID]])
    _, scores = greedy_search(translator.model, source, extra_length=3)
    assert next(greedy.translate(TEXTS))[1] == pytest.approx(float(scores[0]), abs=1e-4)
    of_function = Translator(translator.model, tokenizer(), extra_length=3, search="greedy")
    assert of_function.search == greedy.search
    assert of_function(TEXTS) == greedy(TEXTS)
    with pytest.raises(ValueError, match="num_results=2, beam_size=1"):
        next(of_function.n_best(TEXTS, 2))


def test_samples_depend_only_on_the_seed(translator):
    sampler = Translator(translator.model, tokenizer(), extra_length=3, search="random", seed=1)
    forward = sampler(TEXTS)
    assert sampler(TEXTS) == forward
    sampler.search = kt.Sampling(seed=2, extra_length=3)
    assert sampler(TEXTS) != forward
    assert [len(texts) for texts in sampler.n_best(TEXTS, 5)] == [5] * len(TEXTS)


def test_samples_depend_on_the_place_in_the_call_and_not_on_batches(translator, monkeypatch):
    search = kt.Sampling(seed=1, extra_length=3)
    sampler = Translator(translator.model, tokenizer(), search=search)
    texts = ["the dog", "a cat", "", "the dog"] * 3
    whole = sampler(texts)
    assert len({*whole[::4], *whole[3::4]}) > 3  # equal sentences
    sampler.batch_tokens = 32
    assert sampler(texts) == whole
    monkeypatch.setattr(translator_module, "in_windows", partial(in_windows, size=7))
    assert sampler(texts) == whole
    parts = sampler.translate_windows([texts[7:10], texts[10:]], first_number=7)
    assert [outputs[0][0] for part in parts for outputs in part] == whole[7:]


def test_translations_do_not_depend_on_the_order_of_sources(translator, results):
    assert translator(TEXTS) == [translation for translation, _ in results]
    assert translator([]) == []
    again = list(translator.translate(iter(TEXTS[::-1])))[::-1]
    assert [text for text, _ in again] == [text for text, _ in results]
    assert_close(np.array([s for _, s in again]), np.array([s for _, s in results]), atol=1e-4)


def test_save_and_load_give_the_same_translations(translator, results, tmp_path):
    translator.save_to_preset(tmp_path / "preset", card="# A card\n")
    loaded = kt.Translator.from_preset(tmp_path / "preset", extra_length=3, batch_tokens=64)
    assert loaded.metadata == {"source": "en"}
    assert (loaded.extra_length, loaded.batch_tokens) == (3, 64)
    again = list(loaded.translate(TEXTS))
    assert [text for text, _ in again] == [text for text, _ in results]
    assert_close(np.array([s for _, s in again]), np.array([s for _, s in results]), atol=1e-5)
    assert (tmp_path / "preset" / "README.md").read_text() == "# A card\n"


@pytest.mark.parametrize(
    "search",
    [
        kt.BeamSearch(3, 1.0, extra_length=4, constraints=(kt.constraints.NoRepeatedNgrams(2),)),
        kt.Sampling(0.8, top_p=0.9, seed=3, extra_length=4),
    ],
)
def test_a_preset_keeps_its_search(translator, tmp_path, search):
    tuned = Translator(translator.model, tokenizer(), search=search)
    tuned.save_to_preset(tmp_path / "preset")
    loaded = kt.Translator.from_preset(tmp_path / "preset")
    assert loaded.search == search
    assert loaded(TEXTS) == tuned(TEXTS)
    greedy = kt.Translator.from_preset(tmp_path / "preset", search="greedy")
    assert greedy.search == kt.BeamSearch(1, 0.0, extra_length=4, constraints=search.constraints)


def test_an_output_that_is_impossible_is_empty(translator):
    constraints = (
        kt.constraints.BannedTokens(range(3, tokenizer().vocabulary_size)),
        kt.constraints.MinLength(2),
    )
    hopeless = Translator(translator.model, tokenizer(), extra_length=3, constraints=constraints)
    assert list(hopeless.translate(TEXTS[:1])) == [("", -np.inf)]


@pytest.mark.parametrize("search", ["greedy", "random"])
def test_nan_logits_raise_an_error(search):
    model = new_model(num_layers=1)
    bias = model.decoder.layers[0].feed_forward.output_dense.bias
    bias.assign(np.full(bias.shape, np.nan))
    translator = Translator(model, tokenizer(), search=search, extra_length=1)
    assert translator([""]) == [""]
    with pytest.raises(ValueError, match="logits are infinite or not a number"):
        translator(["", SENTENCES[0]])


A_S = [" ".join("a" * count) for count in range(1, 40)]


def test_learned_positions_are_used_to_the_last():
    # 13 tokens and the end token; 14 + 6 positions are just enough.
    model = new_model(position_encoding="learned", max_length=20)
    translator = Translator(model, tokenizer(), extra_length=6)
    text = next(text for text in A_S if len(tokenizer().encode([text])[0]) == 13)
    assert len(translator([text])) == 1


def test_a_sentence_of_thousands_of_characters_is_translated():
    # One position at a time would take long: the model is told to end at once.
    model = new_model()
    end = to_numpy(model.encoder.token_embedding.embeddings)[END_ID]
    norm = model.decoder.layers[-1].feed_forward_norm
    norm.gamma.assign(0.01 * norm.gamma)
    norm.beta.assign(20 * end)
    assert Translator(model, tokenizer())(["the dog " * 100 + "x" * 1000]) == [""]
