"""Folders of other libraries' models, and what is wrong with them."""

import json
import os
import pickle

import ml_dtypes
import numpy as np
import pytest

from keras_transformer.convert.hf_checkpoint import open_checkpoint
from tests.helpers import normal

pytestmark = pytest.mark.once

WEIGHTS = {"a.weight": normal(3, 4), "b": normal(5, seed=1)}


def write_config(folder, **config):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "marian", **config}))
    return folder


def write_safetensors(folder, weights=WEIGHTS, name="model.safetensors"):
    from safetensors.numpy import save_file

    save_file(weights, write_config(folder) / name)
    return folder


def write_torch(folder, value=None, **options):
    torch = pytest.importorskip("torch")

    weights = {name: torch.tensor(values) for name, values in WEIGHTS.items()}
    path = write_config(folder) / "pytorch_model.bin"
    torch.save(weights if value is None else value, path, **options)
    return folder


def check_weights(folder):
    foreign = open_checkpoint(folder)
    assert foreign.names == {*WEIGHTS}
    for name, values in WEIGHTS.items():
        assert foreign.tensor(name).dtype == "float32"
        np.testing.assert_array_equal(foreign.tensor(name), values)


def test_weights_are_read_from_safetensors(tmp_path):
    check_weights(write_safetensors(tmp_path / "model"))


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_pytorch_new_and_old(zipped, tmp_path):
    check_weights(write_torch(tmp_path / "model", _use_new_zipfile_serialization=zipped))


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_weights_in_several_files(suffix, tmp_path):
    torch = pytest.importorskip("torch")

    folder, stem = write_config(tmp_path / "model"), "pytorch_model"
    if suffix == "safetensors":
        stem = "model"
    parts = {name: f"{stem}-{i}.{suffix}" for i, name in enumerate(WEIGHTS)}
    for name, part in parts.items():
        if suffix == "safetensors":
            write_safetensors(folder, {name: WEIGHTS[name]}, part)
        else:
            torch.save({name: torch.tensor(WEIGHTS[name])}, folder / part)
    index = folder / f"{stem}.{suffix}.index.json"
    index.write_text(json.dumps({"weight_map": parts}))
    check_weights(folder)
    for wrong in ({"a": "../model.safetensors"}, {}, 5, {"a": 3}, {"a": ["b"]}):
        index.write_text(json.dumps({"weight_map": wrong}))
        with pytest.raises(ValueError, match="Expected names of files next to it"):
            open_checkpoint(folder)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_float16_and_bfloat16_weights_are_read_as_float32(dtype, tmp_path):
    values = normal(2, 3).astype(dtype)
    foreign = open_checkpoint(write_safetensors(tmp_path / "model", {"a": values}))
    np.testing.assert_array_equal(foreign.tensor("a"), values.astype("float32"))


def test_short_floats_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")

    values = torch.tensor(normal(2, 3)).bfloat16()
    foreign = open_checkpoint(write_torch(tmp_path / "model", {"a": values}))
    np.testing.assert_array_equal(foreign.tensor("a"), values.float().numpy())


@pytest.mark.parametrize("cut", [4, 40, -1])
def test_safetensors_that_is_cut_short(cut, tmp_path):
    folder = write_safetensors(tmp_path / "model")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"model\.safetensors is cut short"):
        open_checkpoint(folder)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("cut", [0, 40, -200, -1])
def test_file_of_pytorch_that_is_cut_short(zipped, cut, tmp_path):
    folder = write_torch(tmp_path / "model", _use_new_zipfile_serialization=zipped)
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is (cut short|damaged)"):
        open_checkpoint(folder)


class Command:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_nothing_is_unpickled(tmp_path):
    command = Command(str(tmp_path / "run"))
    folder = write_torch(tmp_path / "model", {"a": command})
    plain = write_config(tmp_path / "plain")
    (plain / "pytorch_model.bin").write_bytes(pickle.dumps({"a": command}))
    for path in (folder, plain):
        with pytest.raises(ValueError, match="more than tensors"):
            open_checkpoint(path)
    assert not (tmp_path / "run").exists()


def test_file_of_something_else(tmp_path):
    for value in ([1.0], {"a": {"b": 1}}):
        folder = write_torch(tmp_path / "model", value)
        with pytest.raises(ValueError, match="does not hold a dict of tensors"):
            open_checkpoint(folder)


def test_what_is_missing(tmp_path):
    with pytest.raises(ValueError, match="There is no folder .*nowhere"):
        open_checkpoint(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no config\.json"):
        open_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"registered_name": "Model"}')
    with pytest.raises(ValueError, match=r"not a model in HuggingFace's form: no model_type"):
        open_checkpoint(tmp_path)
    folder = write_config(tmp_path / "model")
    with pytest.raises(ValueError, match=r"one of model\.safetensors, pytorch_model\.bin"):
        open_checkpoint(folder)
    foreign = open_checkpoint(write_safetensors(folder))
    with pytest.raises(ValueError, match="no weights 'c'"):
        foreign.tensor("c")
    with pytest.raises(ValueError, match=r"vocab\.json is missing"):
        foreign.json("vocab.json")
    (folder / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match="Expected a JSON object"):
        open_checkpoint(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        open_checkpoint(folder)


def test_what_the_configuration_says(tmp_path):
    folder = write_safetensors(tmp_path / "model")
    write_config(folder, layers=3, norm="rms")
    foreign = open_checkpoint(folder)
    foreign.check_type("bart", "marian")
    with pytest.raises(ValueError, match="a model of type 'marian'. Expected bart or fsmt"):
        foreign.check_type("bart", "fsmt")
    assert foreign.size("layers") == 3
    for name in ("heads", "norm"):
        with pytest.raises(ValueError, match=f"{name} must be a positive integer"):
            foreign.size(name)
    assert foreign.option("norm", "layer", "rms") == "rms"
    assert foreign.option("bias", True) is True
    with pytest.raises(ValueError, match="Unsupported norm='rms' in .*Expected 'layer'"):
        foreign.option("norm", "layer")


def test_number_gives_configured_numbers_or_the_default(tmp_path):
    folder = write_safetensors(tmp_path / "model")
    write_config(folder, dropout=0.3, heads=None, norm="rms", bias=True)
    foreign = open_checkpoint(folder)
    assert foreign.number("dropout", 0.1) == 0.3
    assert foreign.number("heads", 2) == foreign.number("nothing", 2) == 2
    for name in ("norm", "bias"):
        with pytest.raises(ValueError, match=f"{name} must be a number"):
            foreign.number(name, 1.0)


def test_vocabularies_need_the_ids_from_zero_once_each(tmp_path):
    folder = write_safetensors(tmp_path / "model")
    path = folder / "vocab.json"
    path.write_text('{"b": 1, "a": 0}')
    assert [*open_checkpoint(folder).vocabulary("vocab.json")] == ["a", "b"]
    for values in ('{"a": 1}', '{"a": 0, "b": 0}', '{"a": "0"}', '{"a": [0]}', '{"a": null}'):
        path.write_text(values)
        with pytest.raises(ValueError, match=r"vocab.json is damaged. Expected the ids 0, 1"):
            open_checkpoint(folder).vocabulary("vocab.json")


def test_weights_that_nobody_asked_for(tmp_path):
    foreign = open_checkpoint(write_safetensors(tmp_path / "model"))
    foreign.tensor("b")
    foreign.check_all_read(needless=["a.weight"])
    with pytest.raises(ValueError, match=r"weights that are not supported: 'a\.weight'\."):
        foreign.check_all_read()
    foreign.tensor("a.weight")
    foreign.check_all_read()


def test_pytorch_weights_are_downloaded_only_without_safetensors(tmp_path, monkeypatch):
    """What is asked of the hub: text and vocabularies first, and PyTorch's weights if need be."""
    import huggingface_hub

    asked = []

    def snapshot_download(repository, revision, allow_patterns):
        asked.append((repository, revision, allow_patterns))
        if "pytorch_model*.bin" in allow_patterns:
            write_torch(tmp_path / "cache")
        return str(write_config(tmp_path / "cache"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    check_weights("hf://user/name@v1")
    assert [call[:2] for call in asked] == [("user/name", "v1")] * 2
    assert "*.safetensors" in asked[0][2] and "*.spm" in asked[0][2]
    write_safetensors(tmp_path / "cache")
    check_weights("hf://user/name")
    assert asked[2][:2] == ("user/name", None) and len(asked) == 3


class NoError(Exception):
    """As those of the libraries that ask the network: of no class that is known here."""


def test_repository_that_is_not_there(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    for name, message in (("no body/nothing", "must be"), ("nobody/nothing", "Cannot download")):
        with pytest.raises(ValueError, match=f"{message}.*hf://{name}|hf://{name} {message}") as x:
            open_checkpoint(f"hf://{name}")
        assert "\n" not in str(x.value)

    def fail(*_, **__):
        raise NoError("Server disconnected\nwithout sending a response.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(ValueError, match="Cannot download .*nothing.*Server disconnected") as x:
        open_checkpoint("hf://nobody/nothing")
    assert "\n" not in str(x.value)
