import pytest

import keras_transformer as kt
from keras_transformer.commands import list_presets, main
from keras_transformer.presets.location import saved_models
from keras_transformer.presets.registry import (
    details,
    license_in,
    score_in,
)
from tests.small_corpus import new_model, tokenizer

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(capsys, *arguments):
    """Run `keras-transformer`; return the exit status, and what is printed."""
    status = 0
    try:
        main(arguments)
    except SystemExit as stop:
        status = stop.code
    return status, *capsys.readouterr()


def test_list_names_each_preset_with_its_score(capsys):
    status, output, errors = run(capsys, "list")
    assert (status, errors) == (0, "")
    heads, *rows = output.splitlines()
    assert heads.split() == [
        *("name", "task", "languages", "parameters", "size", "score", "license")
    ]
    assert [row.split()[0] for row in rows] == sorted(x.name for x in saved_models().iterdir())
    (words,) = (row.split() for row in rows if row.startswith("multi30k_en_de "))
    assert words == [
        *("multi30k_en_de", "Translator", "en-de", "2,088,192"),
        *("4.9", "MB", "BLEU", "40.77", "research-use"),
    ]
    assert "F1 82.16" in rows[0] and "cc-by-3.0" in rows[0] and " en " in rows[0]


def test_list_warns_about_broken_presets(capsys, tmp_path):
    kt.Translator(new_model(), tokenizer()).save_to_preset(tmp_path / "mine", card="")
    _, output, _ = run(capsys, "list", "--folder", str(tmp_path))
    assert output.splitlines()[1].split()[:2] == ["mine", "Translator"]
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "config.json").write_text('{"model_type": "marian"}')
    status, output, errors = run(capsys, "list", "--folder", str(tmp_path))
    assert output.splitlines()[1].split()[:2] == ["mine", "Translator"]
    assert status == 0 and "another is not a preset" in errors
    status, _, errors = run(capsys, "list", "--folder", str(tmp_path / "mine"))
    assert status == 2 and errors.count("\n") == 1 and "no presets in" in errors


def test_list_without_a_checkout_shows_conversions(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(list_presets, "saved_models", lambda: tmp_path / "none")
    status, _, errors = run(capsys, "list")
    assert status == 2 and "only in a checkout" in errors
    source, path = "hf://user/opus", tmp_path / "cache/keras-transformer/converted/opus"
    kt.Translator(new_model(), tokenizer(), {"converted_from": source}).save_to_preset(path)
    status, output, _ = run(capsys, "list")
    assert status == 0 and output.splitlines()[1].split()[:2] == [source, "Translator"]


def test_info_prints_parts_and_card(capsys):
    status, output, _ = run(capsys, "info", "craft_parser")
    assert status == 0
    assert "tokens: 4000" in output and "num_layers=4" in output and "102 in all" in output
    assert output.rstrip().endswith("beam 21: F1 83.67, by consensus")
    for name in ("craft_praser", "hf://x"):
        status, output, errors = run(capsys, "info", name)
        assert status == 2 and output == "" and errors.count("\n") == 1 and name in errors
    assert run(capsys, "info")[0] == 2


def test_details_of_two_vocabularies(tmp_path):
    translator = kt.Translator(
        new_model(source_vocabulary_size=60), tokenizer(), {"source": "en", "target": "de"},
        source_prefix=["t"], target_prefix=["a"], search=kt.BeamSearch(7),
    )  # fmt: skip
    translator.save_to_preset(tmp_path / "preset")
    values = details(tmp_path / "preset")
    assert (values["source prefix"], values["target prefix"]) == ("t", "a")
    assert values["search"].startswith("keras_transformer>BeamSearch beam_size=7")
    assert values["languages"] == "en-de" and values["folder"] == str(tmp_path / "preset")


def test_the_last_score_of_the_test_set_is_read():
    card = "- val: BLEU 1.5\n- test, greedy: BLEU 2.25 (x), chrF 3\n- test, beam 4: BLEU 3\n- x"
    assert score_in(card) == "BLEU 3"
    assert score_in("- dev:\n  - F1 7.5, beam 4: F1 6\n") == "F1 7.5"
    assert score_in("") == ""


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("", ""),
        ("---\nlicense: mit\n---\n# A card\n", "mit"),
        ("---\nlicense: other\nlicense_name: mine\n---\n", "mine"),
        ("# A card\n\n- license: Apache 2.0\n", "Apache 2.0"),
        ('---\nlicense: "cc-by-4.0" # of the data\n---\n', "cc-by-4.0"),
        ("---\nlicense:\n- mit\n- apache-2.0\nlanguage: en\n---\n", "mit, apache-2.0"),
        ("---\nlicense: [mit, gpl]\n---\n", "mit, gpl"),
        ("---\nlicense: other\nlicense_name:\nlicense_link: x\n---\n", "other"),
        ("---\nlanguage: en\n---\n\n- license: mit\n", "mit"),
        ("# A card\n\n    license: not a field\n", ""),
    ],
)
def test_names_and_lists_of_licenses_are_read(card, expected):
    assert license_in(card) == expected
