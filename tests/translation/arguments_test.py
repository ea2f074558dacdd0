"""Wrong arguments of a translator, each with the words of its error that matter."""

import json

import pytest

import keras_transformer as kt
from keras_transformer.protection.spans import MarkedText
from tests.helpers import error_of
from tests.small_corpus import new_model, tokenizer
from tests.translation.translator_test import Translator, copying_translator
from tests.translation.two_vocabularies_test import new_translator

pytestmark = pytest.mark.once


@pytest.mark.parametrize("value", [0, 1, -5, 2.5, "many"])
def test_a_limit_of_sources_leaves_room_for_a_token(value):
    assert f"max_source_length={value!r}" in error_of(copying_translator, max_source_length=value)


@pytest.mark.parametrize("value", [0, -1, 2.5, None])
def test_a_batch_holds_at_least_a_token(value):
    message = error_of(copying_translator, value)
    assert message.startswith("`batch_tokens` must be") and f"batch_tokens={value}" in message


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (Translator, {"beam_size": 0}, "beam_size=0"),
        (Translator, {"beam_sise": 8}, "Did you mean `beam_size`"),
        (Translator, {"search": kt.Sampling(), "beam_size": 8}, "Sampling has no option `beam"),
        (Translator, {"search": "bean"}, "search='bean'"),
        (new_translator, {"source_prefix": "<fr>"}, "`source_prefix` must be a list of tokens"),
        (new_translator, {"source_prefix": ["<b>"]}, "`source_prefix` must be tokens"),
        (new_translator, {"source_prefix": ["<b>"]}, "no token '<b>'"),
        (new_translator, {"target_prefix": ["<fr>"]}, "no token '<fr>'"),
        (new_translator, {"max_source_length": 2}, "3 or larger (a token and the end token, after"),
    ],
)
def test_a_translator_with_wrong_options_is_not_made(make, options, words):
    arguments = (new_model(), tokenizer()) if make is Translator else ()
    assert words in error_of(make, *arguments, **options)


def test_learned_positions_must_leave_room_for_a_source():
    message = error_of(copying_translator(max_length=51), ["a"])
    assert all(x in message for x in ("max_length=51", "at most 49", "extra_length=50"))
    assert copying_translator(max_length=52)(["a"]) == ["a"]
    positions = {"position_encoding": "learned", "max_length": 6, "vocabulary_size": 60}
    with_prefix = new_translator(
        model=new_model(**positions), source_tokenizer=None, source_prefix=["<a>"]
    )
    assert "max_length=6" in error_of(with_prefix, ["the dog"])


@pytest.mark.parametrize("texts", ["the dog", None, 5, MarkedText("the dog")], ids=str)
def test_each_method_requires_a_list_of_texts(texts):
    translator = copying_translator()
    for method in (
        translator.prepare,
        translator.translate_units,
        lambda x: list(translator.translate(x)),
        lambda x: list(translator.n_best(x, 1)),
    ):
        assert "`sentences` must be a list" in error_of(method, texts)
    assert "`sources` must be a list" in error_of(translator.score, texts, ["a"])


@pytest.mark.parametrize("value", [None, float("nan"), ["the", "dog"], b"dog"], ids=repr)
def test_a_text_that_is_not_a_string_is_named_before_any_is_searched(value):
    translator = copying_translator()
    for method in (translator, translator.prepare):
        assert f"Received: sentences[1]={value!r}" in error_of(method, ["the dog", value])
    assert "[0]" in error_of(translator.score, [value], ["a"])
    assert translator.search.shapes == []
    stream = translator.translate(iter(["the dog"] * 4096 + [value]))
    assert f"Received: sentences[4096]={value!r}" in error_of(list, stream)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x(["a"], split="words"), '`split` must be "sentences", "lines" or None'),
        (lambda x: x.protecting("xml"), "html, markdown. Received: markup='xml'"),
        (lambda x: list(x.n_best(["a"], 0)), "`num_results` must be a positive integer."),
        (lambda x: list(x.n_best(["a"], "2")), "`num_results` must be a positive integer."),
        (
            lambda x: x(["a dog"], ["eng_Latn", "deu_Latn"]),
            "`source_lang` must be a string, the language of all texts. Received: "
            "source_lang=['eng_Latn', 'deu_Latn']",
        ),
    ],
    ids=["split", "markup", "no results", "results", "languages"],
)
def test_wrong_arguments_of_a_call_are_named(call, words):
    assert words in error_of(call, copying_translator())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"beam_size": "x"}, "beam_size"),
        ({"alfa": 1.0}, "Did you mean `alpha`"),
        ({"constraints": 3}, "Cannot make the search of"),
        ({"constraints": [{"class_name": "os>system", "config": {"command": "ls"}}]}, "os>system"),
        ({"constraints": [{"class_name": "keras_transformer>Transformer"}]}, ">Transformer"),
    ],
    ids=str,
)
def test_a_preset_whose_search_cannot_be_made_is_refused_in_one_line(change, words, tmp_path):
    Translator(new_model(), tokenizer()).save_to_preset(tmp_path)
    path = tmp_path / "task.json"
    task = json.loads(path.read_text("utf-8"))
    task["config"]["search"]["config"].update(change)
    path.write_text(json.dumps(task), "utf-8")
    message = error_of(Translator.from_preset, tmp_path)
    assert f"Cannot make the search of {tmp_path}" in message and words in message
    assert "\n" not in message


def test_a_preset_of_another_task_is_refused(tmp_path):
    class OtherTranslator(Translator):
        pass

    Translator(new_model(), tokenizer()).save_to_preset(tmp_path / "preset")
    assert "OtherTranslator" in error_of(OtherTranslator.from_preset, tmp_path / "preset")
