"""The command `keras-transformer convert`, for models that fairseq and PyTorch trained."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.helpers import to_numpy

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.commands.convert_test import call  # noqa: E402
from tests.convert.from_m2m100_test import make_folder  # noqa: E402
from tests.convert.from_torch_test import Model  # noqa: E402

pytestmark = pytest.mark.once


def test_languages_are_options(tmp_path, capsys):
    make_folder(tmp_path / "m", 4)
    options = ("--source-language", "fr", "--target-language", "zu")
    call("m2m100", tmp_path / "m", tmp_path / "preset", *options)
    assert "The preset is in" in capsys.readouterr().out
    translator = kt.Translator.from_preset(tmp_path / "preset")
    assert translator.preprocessor.source_prefix == ("__fr__",)
    assert translator.preprocessor.target_prefix == ("__zu__",)
    assert "# fr to zu" in (tmp_path / "preset" / "README.md").read_text("utf-8")


def test_a_state_dict_becomes_a_file_of_keras(tmp_path, capsys):
    state = Model(norm_first=True).state_dict()
    torch.save(state, tmp_path / "model.pt")
    options = (
        "--num-heads",
        "4",
        "--normalize-first",
        "True",
        "--reserved-ids",
        "1",
        "2",
        "3",
        "0",
    )
    call("torch", tmp_path / "model.pt", tmp_path / "model.keras", *options)
    assert "The model is in" in capsys.readouterr().out
    model = keras.saving.load_model(tmp_path / "model.keras")
    expected = kt.convert.torch(state, 4, reserved_ids=(1, 2, 3, 0), normalize_first=True)
    assert model.hyperparameters == expected.hyperparameters
    for weight, other in zip(model.weights, expected.weights):
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(other))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("torch", "model.pt", "model.keras"), "torch requires --num-heads."),
        (
            ("torch", "none.pt", "model.keras", "--num-heads", "4"),
            "Cannot read the file none.pt: it does not exist.",
        ),
        (
            ("fsmt", "none", "preset", "--source-language", "en"),
            "fsmt does not have the option --source-language.",
        ),
        (
            ("m2m100", "none", "preset", "--num-heads", "4"),
            "m2m100 does not have the option --num-heads.",
        ),
    ],
)
def test_wrong_options_take_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        call(*arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert [*tmp_path.iterdir()] == []
