"""The command `keras-transformer convert`."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.commands import main
from tests.convert.from_m2m100_test import make_folder
from tests.convert.hf_marian_folder import random_config, write_folder

pytestmark = pytest.mark.once
pytest.importorskip("transformers")


def call(*arguments):
    main(["convert", *map(str, arguments)])


def test_convert_writes_a_preset_with_a_card(tmp_path, capsys):
    source, preset = tmp_path / "opus", tmp_path / "presets" / "x"
    write_folder(source, **random_config(3))
    (source / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-4.0\n---\n# A model\n")
    call("marian", source, preset)
    assert f"The preset is in {preset}." in capsys.readouterr().out
    loaded, read = (
        kt.Translator.from_preset(preset),
        kt.Translator.from_preset(kt.convert.marian(source)),
    )
    assert loaded.search == read.search and loaded.preprocessor.encode_sources(
        ["the dog"]
    ) == read.preprocessor.encode_sources(["the dog"])
    weights = loaded.model.get_weights(), read.model.get_weights()
    assert all(map(np.array_equal, *weights)) and len(weights[0]) == len(weights[1])
    card = (preset / "README.md").read_text("utf-8")
    assert (
        "license: cc-by-4.0" in card and f"Converted from {source}" in card and "# A model" in card
    )
    with pytest.raises(SystemExit):
        call("marian", source, preset)
    assert " exists. Choose another" in capsys.readouterr().err


def test_convert_takes_languages_as_options(tmp_path, capsys):
    make_folder(tmp_path / "m", 4)
    options = ("--source-language", "fr", "--target-language", "zu")
    call("m2m100", tmp_path / "m", tmp_path / "preset", *options)
    assert "The preset is in" in capsys.readouterr().out
    translator = kt.Translator.from_preset(tmp_path / "preset")
    assert translator.preprocessor.source_prefix == ("__fr__",)
    assert translator.preprocessor.target_prefix == ("__zu__",)
    assert translator.metadata.items() >= {"source": "fr", "target": "zu"}.items()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["mariana"], "Unknown format 'mariana'. Expected marian"),
        (["marian"], "There is no folder nowhere"),
        (["marian", "--target-language", "deu"], "There is no folder nowhere"),
        (["fsmt", "--source-language", "en"], "fsmt does not have the option --source-language."),
    ],
)
def test_wrong_arguments_take_one_line(arguments, message, tmp_path, capsys):
    form, *options = arguments
    with pytest.raises(SystemExit) as caught:
        call(form, "nowhere", tmp_path / "preset", *options)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1
    assert [*tmp_path.iterdir()] == []
