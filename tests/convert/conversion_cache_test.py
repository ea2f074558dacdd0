"""Other libraries' models in `from_preset`: recognized, converted once, and kept."""

import contextlib
import json
import shutil

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.commands import main
from keras_transformer.convert import from_hf_marian
from keras_transformer.convert.conversion_cache import as_preset, conversions
from keras_transformer.files import temporary_folder
from keras_transformer.presets.registry import read_card, summaries
from tests.convert.hf_marian_folder import random_config, spm, vocabulary, write_folder
from tests.convert.local_hub import local_hub
from tests.convert.marian_reference import Reference

pytestmark = pytest.mark.once
pytest.importorskip("transformers")

SENTENCES = ["the dog", "a cat"]
SHORT = {"extra_length": 2, "beam_size": 1, "alpha": 0.0}  # random models never end


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "keras-transformer" / "converted"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "opus"
    write_folder(folder, **random_config(3))
    return folder


@pytest.fixture
def opus(written, tmp_path):
    return shutil.copytree(written, tmp_path / "opus")


def count_conversions(monkeypatch):
    """Return a list that gets an item for each model that is converted from now on."""
    converted, convert = [], from_hf_marian.convert_marian

    def counted(folder):
        converted.append(folder)
        return convert(folder)

    monkeypatch.setattr(from_hf_marian, "convert_marian", counted)
    return converted


def test_from_preset_converts_a_marian_folder_once(opus, monkeypatch, cache):
    converted = count_conversions(monkeypatch)
    translator = kt.Translator.from_preset(opus)
    again = kt.Translator.from_preset(str(opus), beam_size=2)
    expected = kt.Translator.from_preset(kt.convert.marian(opus))
    converted.pop()
    assert len(converted) == 1  # the second time it is read from the cache
    assert again.search.beam_size == 2 and translator.search == expected.search
    for ours in (translator, again):
        weights = ours.model.get_weights(), expected.model.get_weights()
        assert all(map(np.array_equal, *weights)) and len(weights[0]) == len(weights[1])
        assert ours.preprocessor.encode_sources(SENTENCES) == expected.preprocessor.encode_sources(
            SENTENCES
        )
    # The cache holds a preset, and no copy of the source.
    (preset,) = cache.iterdir()
    assert not {path.name for path in preset.rglob("*")} & {"model.safetensors", "vocab.json"}


def test_a_folder_whose_files_change_is_converted_again(opus, monkeypatch, cache):
    converted = count_conversions(monkeypatch)
    first = as_preset(opus)
    write_folder(shutil.rmtree(opus) or opus, **random_config(4))
    second = as_preset(opus)
    assert len(converted) == 2 and first != second
    assert [x.path for x in conversions()] == [second]  # the earlier one is gone


def test_a_conversion_that_fails_leaves_nothing_and_names_the_file(opus, cache):
    file = opus / "model.safetensors"
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(kt.UserError, match=r"model.safetensors is cut short"):
        kt.Translator.from_preset(opus)
    assert conversions() == []


def test_half_written_conversions_are_not_read(opus, cache):
    path = as_preset(opus)
    for name in (".download-x", f".{path.name}.new"):
        shutil.copytree(path, cache / name)
    assert [x.path for x in conversions()] == [path]


def test_another_architecture_is_named_with_the_supported_ones(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nllb-moe"}))
    with pytest.raises(kt.UserError, match="type 'nllb-moe'. Supported are Marian") as error:
        kt.Translator.from_preset(tmp_path)
    assert "\n" not in str(error.value)


def test_a_repository_is_downloaded_once_and_again_when_it_changes(opus, tmp_path, monkeypatch):
    (opus / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n\n# opus\n", "utf-8")
    with local_hub(monkeypatch, tmp_path / "hub", opus=opus) as hub:
        expected = kt.convert.marian(opus).model.get_weights()
        found = kt.Translator.from_preset("hf://user/opus").model.get_weights()
        assert all(map(np.array_equal, found, expected))
        assert "model.safetensors" in hub.requested
        # The card has the model's license, and names its source.
        (row,) = summaries([as_preset("hf://user/opus")])
        card = read_card(as_preset("hf://user/opus"))
        assert (row["name"], row["license"]) == ("hf://user/opus", "cc-by-4.0")
        assert "Converted from hf://user/opus" in card and card.endswith("# opus\n")
        hub.requested.clear()
        kt.Translator.from_preset("hf://user/opus")
        assert set(hub.requested) <= {"config.json"}
        # The download is not kept next to its conversion.
        assert not [*tmp_path.rglob(".download-*")]
        assert not [*(tmp_path / "hub").rglob("model.safetensors")]
        (opus / "generation_config.json").write_text(json.dumps({"num_beams": 3}))
        assert kt.Translator.from_preset("hf://user/opus").search.beam_size == 3
        with pytest.raises(kt.UserError, match="Cannot download hf://user/none"):
            kt.Translator.from_preset("hf://user/none")


def test_without_a_network_the_last_conversion_of_a_repository_is_used(
    opus, tmp_path, monkeypatch, caplog
):
    with local_hub(monkeypatch, tmp_path / "hub", opus=opus):
        path = as_preset("hf://user/opus")
    shutil.rmtree(tmp_path / "hub")  # the hub has stopped, and its cache was cleared
    assert as_preset("hf://user/opus") == path
    assert "The last conversion is used" in caplog.text


def test_the_target_language_is_chosen_per_call_without_loading_again(tmp_path, monkeypatch):
    several = tmp_path / "several"
    names = vocabulary((spm(0), spm(1)), more=(">>deu<<", ">>fra<<"))
    config = {**random_config(2), "share_encoder_decoder_embeddings": True}
    write_folder(several, vocabularies=[names], **{**config, "vocab_size": len(names)})
    converted = count_conversions(monkeypatch)
    translator = kt.Translator.from_preset(several, **SHORT)
    assert translator.languages("target_lang") == ["deu", "fra"]
    with pytest.raises(kt.UserError, match="`target_lang` must be given.*: deu, fra"):
        translator(SENTENCES)
    outputs = {code: translator(SENTENCES, target_lang=code) for code in ("deu", "fra")}
    assert len(converted) == 1
    for code, expected in outputs.items():
        loaded = kt.Translator.from_preset(several, target_lang=code, **SHORT)
        assert loaded(SENTENCES) == expected and loaded.metadata["target"] == code
        assert loaded.preprocessor.encode_sources(SENTENCES) == kt.Translator.from_preset(
            kt.convert.marian(several, code)
        ).preprocessor.encode_sources(SENTENCES)
    with pytest.raises(kt.UserError, match="2 languages.*The most similar are deu, fra"):
        translator(SENTENCES, target_lang="dx")


def test_dtype_and_int8_are_chosen_in_the_same_call(opus):
    assert kt.Translator.from_preset(opus, dtype="bfloat16").model.compute_dtype == "bfloat16"
    translator = kt.Translator.from_preset(opus, quantization="int8", **SHORT)
    assert "int8" in {str(x.dtype) for x in translator.model.weights}
    assert len(translator(SENTENCES)) == 2


def test_the_commands_translate_with_a_foreign_model_and_clear_the_cache(opus, capsys):
    options = ["--beam-size", "1", "--alpha", "0", "--extra-length", "2"]
    main(["translate", "--model", str(opus), *options, "the dog"])
    output = capsys.readouterr()
    (expected,) = kt.Translator.from_preset(opus, **SHORT)(["the dog"])
    assert output.out == f"{expected}\n" and "Converting" in output.err
    main(["cache", "list"])
    assert str(opus) in capsys.readouterr().out
    main(["cache", "clear", str(opus)])
    assert conversions() == [] and "deleted" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["clear", "list"])
def test_a_model_that_is_not_in_the_cache_is_an_error_with_the_nearest_name(opus, action, capsys):
    path = as_preset(opus)
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["cache", action, str(opus), f"{opus}s"])
    output = capsys.readouterr()
    assert stop.value.code == 2 and output.out == "" and output.err.count("\n") == 1
    assert f"no conversion of {opus}s. The most similar name is {opus}." in output.err
    assert path.is_dir()  # the other one is not deleted either


def test_files_of_killed_conversions_are_listed_and_cleared(cache, capsys):
    left = [cache / ".download.abc.unfinished", cache / ".unzipped.xyz.unfinished"]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "model.bin").write_bytes(bytes(2_000_000))
    with temporary_folder(cache, "download") as held:  # a running conversion's
        main(["cache", "list"])
        rows = capsys.readouterr().out.splitlines()
        assert rows == [f"(unfinished)  2.0 MB  {folder}" for folder in sorted(left)]
        main(["cache", "clear"])
        assert capsys.readouterr().out.count("deleted") == 2
        assert held.is_dir() and not any(folder.exists() for folder in left)


def test_a_conversion_deletes_the_files_of_a_killed_one(opus, cache):
    (cache / ".download.abc.unfinished").mkdir(parents=True)
    as_preset(opus)
    assert len([*cache.iterdir()]) == 1


@pytest.mark.parametrize("name", [".hidden", "x" * 10 + "." + "y" * 59, "𠀀" * 50])
def test_conversions_with_any_name_are_listed(opus, tmp_path, name):
    path = as_preset(opus.rename(tmp_path / name))
    assert [x.path for x in conversions()] == [path] and path.name[0] != "."


# Licenses


CARDS = {
    "hub": ("---\nlicense: cc-by-4.0\n---\n# A model\n", None, "cc-by-4.0"),
    "named": ("---\nlicense: other\nlicense_name: research\n---\n", "Text\n", "research"),
    "file": ("# A model\n", "\n# Attribution 4.0\n\nYou may\n", "Attribution 4.0"),
    "only a file": (None, "MIT License\n", "MIT License"),
}


def write_documents(folder, name):
    card, license_text, expected = CARDS[name]
    if card is not None:
        (folder / "README.md").write_text(card, "utf-8")
    if license_text is not None:
        (folder / "LICENSE").write_text(license_text, "utf-8")
    return license_text, expected


def check_license(preset, license_text, expected, capsys):
    main(["list", "--folder", str(preset.parent)])
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].endswith("license") and rows[1].endswith(f" {expected}")
    main(["info", str(preset)])
    output = capsys.readouterr().out
    assert f"license: {expected}\n" in output
    for line in (license_text or "").split("\n"):  # a license must accompany the weights
        assert line.strip() in output


@pytest.mark.parametrize("name", CARDS)
def test_a_license_goes_from_convert_to_list_and_info(opus, tmp_path, capsys, name):
    facts = write_documents(opus, name)
    main(["convert", "marian", str(opus), str(tmp_path / "presets" / "x")])
    capsys.readouterr()
    check_license(tmp_path / "presets" / "x", *facts, capsys)


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("form", ["zip", "folder in a zip", "repository", "zip in a repository"])
def test_the_license_of_a_model_of_marian_is_kept(tmp_path, monkeypatch, capsys, name, form):
    folder = Reference().write(tmp_path / "model" / "opus")
    facts = write_documents(folder, name)
    if "zip" in form:
        (tmp_path / "zips").mkdir()
        top = folder.parent if form == "folder in a zip" else folder
        source = tmp_path / "zips" / "opus.zip"
        shutil.make_archive(str(source.with_suffix("")), "zip", top)
        folder = source.parent
    with contextlib.ExitStack() as stack:
        if "repository" in form:
            stack.enter_context(local_hub(monkeypatch, tmp_path / "hub", opus=folder))
            source = "hf://user/opus"
        path = as_preset(source)
        main(["convert", "marian", str(source), str(tmp_path / "presets" / "x")])
    capsys.readouterr()
    check_license(tmp_path / "presets" / "x", *facts, capsys)
    check_license(path, *facts, capsys)
