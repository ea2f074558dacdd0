"""What an export replaces: an earlier export to the same format, and nothing else."""

import json

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
    if format == "ctranslate2":
        pytest.importorskip("ctranslate2")
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
