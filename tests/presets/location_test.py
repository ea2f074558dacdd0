"""Names of presets: folders, those of saved_models, and repositories of hubs, without a network."""

import sys
from pathlib import Path

import pytest

import keras_transformer as kt
from keras_transformer.presets import location
from keras_transformer.presets.location import locate, saved_models
from tests.small_corpus import new_model, tokenizer

pytestmark = pytest.mark.once


def message_of(name):
    with pytest.raises(kt.UserError) as error:
        locate(name)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_name_is_found_in_saved_models_unless_there_is_such_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # wherever it is called
    assert locate("multi30k_en_de") == saved_models() / "multi30k_en_de"
    (tmp_path / "multi30k_en_de").mkdir()  # a folder comes first
    assert locate("multi30k_en_de") == Path("multi30k_en_de")
    message = message_of("multi30k_en_ed")
    assert (
        "multi30k_en_ed" in message
        and "craft_parser, en_pt, english_parser, multi30k_de_en" in message
    )
    assert "Available names" not in message_of(tmp_path / "none")
    for name in ("../saved_models", "..", ""):
        if not Path(name).is_dir():
            message_of(name)


def test_an_installed_package_finds_names_in_the_working_directory(tmp_path, monkeypatch):
    installed = tmp_path / "site-packages" / "keras_transformer" / "presets" / "location.py"
    monkeypatch.setattr(location, "__file__", str(installed))
    monkeypatch.chdir(tmp_path)
    assert "Without a checkout" in message_of("small")
    (tmp_path / "saved_models" / "small").mkdir(parents=True)
    assert locate("small") == Path("saved_models/small")


def test_an_unknown_name_without_a_checkout_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(location, "saved_models", lambda: tmp_path / "none")
    assert "Without a checkout" in message_of("multi30k_en_de")


@pytest.mark.parametrize(
    "name",
    ["hf://", "hf://model", "hf://a/b/c", "hf://../../etc", "hf://user/model@"],
)
def test_malformed_names_are_refused(name):
    assert f"Received: {name}" in message_of(name)


def test_a_repository_of_the_hub_is_downloaded_and_loaded(tmp_path, monkeypatch):
    """What is asked of the hub's package, and that the folder it gives is the preset."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    kt.Translator(new_model(), tokenizer()).save_to_preset(tmp_path / "preset")
    asked = []

    def snapshot_download(repository, revision, allow_patterns):
        asked.append((repository, revision))
        if allow_patterns == ["config.json"]:  # to see what kind of model it is
            return str(tmp_path / "preset")
        files = [x.relative_to(tmp_path / "preset") for x in (tmp_path / "preset").rglob("*.*")]
        left = [x for x in files if not any(x.match(pattern) for pattern in allow_patterns)]
        assert not left and not any(Path("run.py").match(pattern) for pattern in allow_patterns)
        return str(tmp_path / "preset")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert isinstance(kt.Translator.from_preset("hf://user/model"), kt.Translator)
    kt.Transformer.from_preset("hf://user/model@v1.0")
    assert asked == [("user/model", None), ("user/model", None), ("user/model", "v1.0")]


def test_an_error_of_a_hub_is_one_line(monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")

    def fail(*_, **__):
        raise OSError("404 Client Error.\n\nRepository Not Found")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    message = message_of("hf://user/model")
    assert "Cannot download hf://user/model" in message and "404 Client Error" in message


def test_a_missing_package_of_a_hub_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install huggingface_hub" in message_of("hf://user/model")


def test_without_a_network_an_uncached_repository_is_named(tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub").constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    message = message_of("hf://nobody/nothing")
    assert "Cannot download hf://nobody/nothing, which is not in the cache" in message
