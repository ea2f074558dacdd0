"""The text side: sentences to ids and back, the same for all that use a preset."""

import dataclasses

import pytest

import keras_transformer as kt
from keras_transformer.data.preprocessor import (
    PrefixedTokenizer,
    TranslationPreprocessor,
    as_preprocessor,
)
from keras_transformer.reserved_ids import END_ID, START_ID
from tests.small_corpus import new_model, tokenizer

pytestmark = pytest.mark.once
TEXT = "the dog sees a house"


def tokens_to_ids(text):
    return tokenizer().encode([text])[0]


def test_a_source_is_prefix_tokens_and_end():
    the = tokenizer().tokens_to_ids(["▁the"])
    preprocessor = TranslationPreprocessor(tokenizer(), source_prefix=["▁the"])
    assert preprocessor.encode_sources([TEXT]) == [[*the, *tokens_to_ids(TEXT), END_ID]]
    without_end = dataclasses.replace(preprocessor, source_end=False)
    assert without_end.encode_sources([TEXT]) == [[*the, *tokens_to_ids(TEXT)]]
    assert (preprocessor.num_added, without_end.num_added) == (2, 1)


def test_a_fingerprint_is_of_the_tokenizer_and_its_prefix():
    prefixes = [["▁the"], ["▁a"], ["▁a", "▁the"]]
    fingerprints = {PrefixedTokenizer(tokenizer(), x).fingerprint() for x in prefixes}
    assert len(fingerprints | {tokenizer().fingerprint()}) == 4


def test_a_source_of_white_space_has_no_ids():
    preprocessor = TranslationPreprocessor(tokenizer(), source_prefix=["▁the"])
    assert preprocessor.encode_sources(["", " \t", "\u2003"]) == [[], [], []]


@pytest.mark.parametrize(("own", "of_model"), [(5, None), (5, 9), (9, 5), (None, 5)])
def test_the_shorter_limit_cuts_and_keeps_prefix_and_end(own, of_model):
    preprocessor = TranslationPreprocessor(
        tokenizer(), source_prefix=["▁the"], max_source_length=own
    )
    (ids,) = preprocessor.encode_sources([TEXT], of_model)
    assert ids == [*tokenizer().tokens_to_ids(["▁the"]), *tokens_to_ids(TEXT)[:3], END_ID]


def test_a_translation_is_decoded_without_its_prefix():
    preprocessor = TranslationPreprocessor(tokenizer(), target_prefix=["▁the"])
    (ids,) = preprocessor.encode_targets([TEXT])
    assert ids == [*tokenizer().tokens_to_ids(["▁the"]), *tokens_to_ids(TEXT), END_ID]
    assert preprocessor.decode([[*ids, 0, 0]]) == [TEXT]


def test_the_config_holds_every_attribute_except_the_tokenizers():
    for changes in (
        {},
        {"source_prefix": ("▁the",), "target_prefix": ("▁a", "▁the")},
        {"source_end": False, "max_source_length": None},
        {"max_source_length": 7},
    ):
        preprocessor = TranslationPreprocessor(tokenizer(), **changes)
        config = preprocessor.get_config()
        assert TranslationPreprocessor.from_config(config, tokenizer=tokenizer()) == preprocessor


def test_training_encodes_as_translating_does():
    preprocessor = TranslationPreprocessor(
        tokenizer(), source_prefix=["▁the"], target_prefix=["▁a"]
    )
    # The batches add the end token to both, and the start token to the decoder's input.
    encoded = preprocessor.source_encoder().encode([TEXT])
    assert [[*ids, END_ID] for ids in encoded] == preprocessor.encode_sources([TEXT])
    encoded = preprocessor.target_encoder().encode([TEXT])
    assert [[*ids, END_ID] for ids in encoded] == preprocessor.encode_targets([TEXT])


def test_a_preset_keeps_it_and_kerashub_encodes_alike(tmp_path):
    keras_hub = pytest.importorskip("keras_hub")
    pytest.importorskip("keras_transformer.hub")  # registers the classes
    preprocessor = TranslationPreprocessor(
        tokenizer(), source_prefix=["▁the"], target_prefix=["▁a"], max_source_length=40
    )
    translator = kt.Translator(new_model(), preprocessor, extra_length=3)
    translator.save_to_preset(tmp_path / "preset")
    loaded = kt.Translator.from_preset(tmp_path / "preset").preprocessor
    assert loaded.get_config() == preprocessor.get_config()
    assert loaded.source_tokenizer is loaded.tokenizer
    theirs = keras_hub.models.Seq2SeqLMPreprocessor.from_preset(str(tmp_path / "preset"))
    assert theirs.texts.get_config() == preprocessor.get_config()
    inputs, targets, weights = theirs({"encoder_text": [TEXT], "decoder_text": ["a dog"]})
    source = [int(i) for i in inputs["encoder_token_ids"][0] if i]
    assert [source] == preprocessor.encode_sources([TEXT])
    (expected,) = preprocessor.encode_targets(["a dog"])
    assert [int(i) for i in targets[0] if i] == expected
    assert [int(i) for i in inputs["decoder_token_ids"][0] if i][:-1] == [START_ID, *expected[:-1]]
    assert int(weights[0].sum()) == len(expected)


def test_options_of_a_translator_replace_the_preset_options(tmp_path):
    translator = kt.Translator(new_model(), tokenizer(), max_source_length=9)
    translator.save_to_preset(tmp_path / "preset")
    again = kt.Translator.from_preset(tmp_path / "preset", max_source_length=None)
    assert again.preprocessor.max_source_length is None
    assert kt.Translator.from_preset(tmp_path / "preset").preprocessor.max_source_length == 9


@pytest.mark.parametrize("value", [1, 0, -3, 2.5, "7"])
def test_a_limit_without_room_for_a_token_is_an_error(value):
    with pytest.raises(kt.UserError, match="2 or larger.*max_source_length="):
        as_preprocessor(tokenizer(), max_source_length=value)


@pytest.mark.parametrize("prefix", ["<fr>", [3], None])
def test_a_prefix_that_is_not_a_list_of_strings_is_an_error(prefix):
    with pytest.raises(kt.UserError, match="`source_prefix` must be a list of tokens"):
        TranslationPreprocessor(tokenizer(), source_prefix=prefix)
