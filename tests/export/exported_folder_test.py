"""Folders that an export replaces, and models and options that it refuses."""

import json
import re

import keras
import pytest

import keras_transformer as kt
from keras_transformer.export.exported_folder import exported_folder
from keras_transformer.presets.location import EXPORT_MARK
from tests.export.to_marian_test import translator
from tests.small_corpus import new_model, tokenizer

pytestmark = pytest.mark.once

# Files of other programs, with the names that each format has.
FOREIGN = {
    "ctranslate2": ("model.bin", "config.json", "shared_vocabulary.json"),
    "marian": ("config.json", "model.safetensors", "vocab.json"),
    "marian_npz": ("model.npz", "decoder.yml", "vocab.spm"),
}


def test_an_export_replaces_an_earlier_one(tmp_path):
    for name in ("a", "b"):
        with exported_folder(tmp_path / "model", "marian_npz", ["a", "b"]) as folder:
            folder.mkdir()
            (folder / name).touch()
    assert {x.name for x in (tmp_path / "model").iterdir()} == {"b", EXPORT_MARK}
    mark = json.loads((tmp_path / "model" / EXPORT_MARK).read_text())
    assert mark == {"library": "keras_transformer", "format": "marian_npz"}


@pytest.mark.parametrize("mark", ["", "[]", '{"format": "marian"}'])
def test_an_export_to_another_format_is_not_replaced(tmp_path, mark):
    (tmp_path / "a").touch()
    (tmp_path / EXPORT_MARK).write_text(mark)
    with pytest.raises(kt.UserError, match="an export to .* a folder with a, keras"):
        with exported_folder(tmp_path, "marian_npz", ["a", "b"]):
            pytest.fail("began")


@pytest.mark.parametrize("format", FOREIGN)
def test_a_folder_of_another_program_is_not_replaced_by_an_export(tmp_path, format):
    import_library(format)
    zero_start = format == "marian_npz"
    ours = translator() if zero_start else kt.Translator(new_model(), tokenizer())
    for name in FOREIGN[format]:
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_text("years of work")
    with pytest.raises(kt.UserError, match=f"Expected .* an export to {format} that .* wrote"):
        ours.export(tmp_path / "model", format=format)
    assert all((tmp_path / "model" / x).read_text() == "years of work" for x in FOREIGN[format])
    ours.export(tmp_path / "new", format=format)
    ours.export(tmp_path / "new", format=format)
    (tmp_path / "new" / "my_lm.spm").touch()
    with pytest.raises(kt.UserError, match="a folder that also has my_lm.spm"):
        ours.export(tmp_path / "new", format=format)
    assert (tmp_path / "new" / "my_lm.spm").exists()


# Refused models and options


@keras.saving.register_keras_serializable()
def double(x):
    return x + x


class Words:
    """A tokenizer that is not a SentencePiece model."""

    def tokens_to_ids(self, symbols):
        return []


DETERMINISTIC = {"leaf_ids": [5], "word_start_ids": [4]}
# The format, the arguments of the model, and a part of the error.
MODELS = [
    ("ctranslate2", {"attention_window": 3}, "attention_window=3"),
    ("ctranslate2", DETERMINISTIC, "not support deterministic attention"),
    ("ctranslate2", {"activation": "tanh"}, "relu, gelu, silu"),
    ("ctranslate2", {"activation": double}, "relu, gelu, silu"),
    ("ctranslate2", {"vocabulary_size": 61}, "a model of 61 tokens, a tokenizer of 60"),
    ("marian", {"normalize_first": True}, "normalize_first=True"),
    ("marian", {"position_encoding": "learned", "max_length": 20}, "position_encoding='learned'"),
    ("marian", {"attention_window": 3}, "attention_window=3"),
    ("marian", {"max_wavelength": 100}, "max_wavelength=100"),
    ("marian", {"first_position": 2}, "first_position=2"),
    ("marian", {"final_norm": True}, "final_norm=True"),
    ("marian", {"layer_norm_epsilon": 0.01}, "layer_norm_epsilon=0.01"),
    ("marian", {"activation": "selu"}, "activation='selu'"),
    ("marian", {"key_dim": 4}, "key_dim=4"),
    ("marian", {"value_dim": 4}, "value_dim=4"),
    ("marian", DETERMINISTIC, "leaf_ids=[5]"),
    ("marian_npz", {"zero_start": False}, "Marian only supports zero_start="),
    ("marian_npz", {"max_wavelength": 10000}, "Marian only supports max_wavelength="),
    ("marian_npz", {"normalize_first": True}, "Marian only supports normalize_keys="),
    ("marian_npz", {"layer_norm_epsilon": 1e-5}, "Marian only supports layer_norm_epsilon="),
    ("marian_npz", {"activation": "tanh"}, "Marian only supports activation="),
    ("marian_npz", {"key_dim": 3}, "Marian only supports key_dim="),
    ("marian_npz", {"attention_window": 3}, "Marian only supports attention_window="),
]


@pytest.mark.parametrize(
    ("format", "options", "message"), MODELS, ids=[f"{x[0]}-{next(iter(x[1]))}" for x in MODELS]
)
def test_models_that_a_format_cannot_hold_are_refused(format, options, message, tmp_path):
    import_library(format)
    ours = (
        translator(**options)
        if format == "marian_npz"
        else kt.Translator(new_model(**options), tokenizer())
    )
    with pytest.raises(kt.UserError, match=re.escape(message)):
        ours.export(tmp_path / "model", format=format)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("format", "options", "message"),
    [
        ("tflite", {}, "`format` must be one of .*Received: format='tflite'"),
        ("ctranslate2", {"quantization": "int3"}, "int8_float32.* quantization='int3'"),
        ("ctranslate2", {"n_best": 3}, "`n_best` is not an option .*It has `quantization`"),
    ],
)
def test_wrong_options_of_an_export_are_refused(format, options, message, tmp_path):
    import_library(format)
    with pytest.raises(kt.UserError, match=message):
        kt.Translator(new_model(), tokenizer()).export(tmp_path / "model", format=format, **options)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("format", "options", "message"),
    [
        ("marian", {"target_prefix": ("▁the", "▁dog")}, "can force only one first token"),
        ("marian", {"source_end": False}, "source_end=False"),
        ("ctranslate2", {"source_tokenizer": Words()}, "Received: Words"),
    ],
)
def test_texts_that_a_format_cannot_hold_are_refused(format, options, message, tmp_path):
    import_library(format)
    with pytest.raises(kt.UserError, match=message):
        kt.Translator(new_model(), tokenizer(), **options).export(tmp_path / "x", format=format)
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ctranslate2", "marian", "marian_npz"])
def test_a_quantized_model_cannot_be_exported(format, tmp_path):
    import_library(format)
    ours = translator() if format == "marian_npz" else kt.Translator(new_model(), tokenizer())
    ours.model.quantize("int8")
    with pytest.raises(kt.UserError, match="Cannot export a quantized model"):
        ours.export(tmp_path / "model", format=format)
    assert not any(tmp_path.iterdir())


def import_library(format):
    """Skip a test of a format whose library is not installed."""
    if format == "ctranslate2":
        pytest.importorskip("ctranslate2")
