"""Reading folders of models in HuggingFace's form."""

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
def test_weights_are_read_from_new_and_old_files_of_pytorch(zipped, tmp_path):
    check_weights(write_torch(tmp_path / "model", _use_new_zipfile_serialization=zipped))


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_weights_are_read_from_several_files(suffix, tmp_path):
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


def test_bfloat16_weights_of_pytorch_are_read_as_float32(tmp_path):
    torch = pytest.importorskip("torch")

    values = torch.tensor(normal(2, 3)).bfloat16()
    foreign = open_checkpoint(write_torch(tmp_path / "model", {"a": values}))
    np.testing.assert_array_equal(foreign.tensor("a"), values.float().numpy())


@pytest.mark.parametrize(
    ("kind", "cut"),
    [
        *(("safetensors", cut) for cut in (4, 40, -1)),
        *((zipped, cut) for zipped in (True, False) for cut in (0, 40, -200, -1)),
    ],
)
def test_a_file_that_is_cut_short_is_named(kind, cut, tmp_path):
    if kind == "safetensors":
        folder, name = write_safetensors(tmp_path / "model"), "model.safetensors"
    else:
        folder = write_torch(tmp_path / "model", _use_new_zipfile_serialization=kind)
        name = "pytorch_model.bin"
    (folder / name).write_bytes((folder / name).read_bytes()[:cut])
    with pytest.raises(ValueError, match=f"{name} is (cut short|damaged)"):
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


@pytest.mark.parametrize("value", [[1.0], {"a": {"b": 1}}], ids=["list", "nested"])
def test_a_file_of_pytorch_without_tensors_is_refused(value, tmp_path):
    folder = write_torch(tmp_path / "model", value)
    with pytest.raises(ValueError, match="does not hold a dict of tensors"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, r"no config\.json"),
        ('{"registered_name": "Model"}', "not a model in HuggingFace's form: no model_type"),
        ('{"model_type": "marian"}', r"one of model\.safetensors, pytorch_model\.bin"),
        ("[1]", "Expected a JSON object"),
        ("{", r"config\.json is damaged"),
    ],
)
def test_a_folder_of_another_form_is_refused(config, message, tmp_path):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(ValueError, match=message):
        open_checkpoint(tmp_path)
    with pytest.raises(ValueError, match="There is no folder .*nowhere"):
        open_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.tensor("c"), "no weights 'c'"),
        (lambda x: x.json("vocab.json"), r"vocab\.json is missing"),
        (lambda x: x.validate_type("bart", "fsmt"), "of type 'marian'. Expected bart or fsmt"),
        (lambda x: x.size("heads"), "heads must be a positive integer"),
        (lambda x: x.size("norm"), "norm must be a positive integer"),
        (lambda x: x.option("norm", "layer"), "Unsupported norm='rms' in .*Expected 'layer'"),
        (lambda x: x.number("norm", 1.0), "norm must be a number"),
        (lambda x: x.number("bias", 1.0), "bias must be a number"),
    ],
)
def test_a_wrong_entry_is_named(call, message, tmp_path):
    folder = write_safetensors(tmp_path / "model")
    write_config(folder, layers=3, norm="rms", bias=True)
    with pytest.raises(ValueError, match=message):
        call(open_checkpoint(folder))


def test_entries_of_the_configuration_are_read(tmp_path):
    folder = write_safetensors(tmp_path / "model")
    write_config(folder, layers=3, norm="rms", dropout=0.3, heads=None)
    foreign = open_checkpoint(folder)
    foreign.validate_type("bart", "marian")
    assert foreign.size("layers") == 3
    assert foreign.option("norm", "layer", "rms") == "rms"
    assert foreign.option("bias", True) is True
    assert foreign.number("dropout", 0.1) == 0.3
    assert foreign.number("heads", 2) == foreign.number("nothing", 2) == 2


def test_vocabularies_need_the_ids_from_zero_once_each(tmp_path):
    folder = write_safetensors(tmp_path / "model")
    path = folder / "vocab.json"
    path.write_text('{"b": 1, "a": 0}')
    assert [*open_checkpoint(folder).vocabulary("vocab.json")] == ["a", "b"]
    for values in ('{"a": 1}', '{"a": 0, "b": 0}', '{"a": "0"}', '{"a": [0]}', '{"a": null}'):
        path.write_text(values)
        with pytest.raises(ValueError, match=r"vocab.json is damaged. Expected the ids 0, 1"):
            open_checkpoint(folder).vocabulary("vocab.json")


def test_weights_that_were_not_read_are_named(tmp_path):
    foreign = open_checkpoint(write_safetensors(tmp_path / "model"))
    foreign.tensor("b")
    foreign.validate_all_read(needless=["a.weight"])
    with pytest.raises(ValueError, match=r"weights that are not supported: 'a\.weight'\."):
        foreign.validate_all_read()
    foreign.tensor("a.weight")
    foreign.validate_all_read()


def test_pytorch_weights_are_downloaded_only_without_safetensors(tmp_path, monkeypatch):
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
    """An error of a library of the network, whose class is unknown here."""


def test_a_repository_that_cannot_be_read_is_one_line(tmp_path, monkeypatch):
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
