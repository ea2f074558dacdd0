"""Fine-tuning with LoRA: what is trained, what is written, and exact resume."""

import json
from dataclasses import replace

import h5py
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.translation import train_translator
from tests.helpers import to_numpy
from tests.small_corpus import new_model, sentence_pairs, tokenizer

pytestmark = pytest.mark.usefixtures("cheap_trainings")

OPTIONS = {
    **{"dropout": 0.1, "peak_learning_rate": 0.01, "warmup_steps": 1, "num_shapes": 1},
    **{"batch_tokens": 256, "interval": 2, "average": 1, "lora": 2},
}


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    path = tmp_path_factory.mktemp("preset") / "model"
    kt.Translator(new_model(), tokenizer(), {"source": "en", "target": "de"}).save_to_preset(path)
    return path


def train(preset, folder, steps, **options):
    train, val = (
        kt.data.ParallelText("made-up", "train", "en", "de", lambda x=x: x)
        for x in (sentence_pairs(40), sentence_pairs(4, seed=1))
    )
    options = {**OPTIONS, "init": str(preset), "output_dir": folder, "steps": steps, **options}
    return kt.Translator.train(train, val, **options)


def weights_by_path(model):
    return {x.path: to_numpy(x) for x in model.weights}


def test_a_tuned_preset_is_merged_and_its_matrices_are_a_small_file(preset, tmp_path):
    train(preset, tmp_path, 4)
    before = kt.Translator.from_preset(preset).model
    tuned = kt.Translator.from_preset(tmp_path / "model").model
    changed = {
        path.split("/")[-2]
        for path, values in weights_by_path(tuned).items()
        if not np.array_equal(values, weights_by_path(before)[path])
    }
    assert changed == {"query", "value"}
    # The file alone turns the preset into the tuned model.
    before.load_lora_weights(tmp_path / "model.lora.h5")
    ids = {"encoder_token_ids": np.array([[5, 6, 2]]), "decoder_token_ids": np.array([[1, 7]])}
    np.testing.assert_allclose(to_numpy(before(ids)), to_numpy(tuned(ids)), atol=1e-5)
    with h5py.File(tmp_path / "model.lora.h5") as file:
        assert file.attrs["rank"] == 2


@pytest.mark.parametrize(("before", "after"), [(30.0, 29.0), (30.0, 31.0), (30.0, 30.0)])
def test_a_training_that_lowers_bleu_keeps_the_weights_of_its_preset(
    before, after, preset, tmp_path, monkeypatch, caplog
):
    def score(translator, _):
        weights = weights_by_path(translator.model)
        is_preset = all(np.array_equal(weights[x], known[x]) for x in known) and not any(
            values.any() for path, values in weights.items() if "lora_kernel_b" in path
        )
        return replace(scores, bleu=before if is_preset else after)

    scores = kt.evaluation.score_translations(["a b"], ["a b"])
    known = weights_by_path(kt.Translator.from_preset(preset).model)
    monkeypatch.setattr(train_translator, "score_text", score)
    monkeypatch.setattr(train_translator, "_ENOUGH_TO_CHOOSE", 4)
    train(preset, tmp_path, 4)
    found = weights_by_path(kt.Translator.from_preset(tmp_path / "model").model)
    is_kept = all(np.array_equal(found[x], known[x]) for x in known)
    assert is_kept == (after < before)
    assert ("keeps the weights of its preset" in caplog.text) == is_kept
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["scores"]["val"]["bleu"] == max(before, after)


@pytest.mark.slow
def test_a_stopped_lora_training_resumes_exactly(preset, tmp_path):
    # By default the cool-down ends with the training.
    rate = {"warmup_steps": 20, "cooldown_steps": 0}
    whole = train(preset, tmp_path / "whole", 4, **rate)
    train(preset, tmp_path / "parts", 2, **rate)
    parts = train(preset, tmp_path / "parts", 4, **rate, resume=True, overwrite=False)
    for x, y in zip(whole.model.get_weights(), parts.model.get_weights(), strict=True):
        np.testing.assert_array_equal(x, y)
    files = [tmp_path / name / "model.lora.h5" for name in ("whole", "parts")]
    with h5py.File(files[0]) as first, h5py.File(files[1]) as second:
        first.visititems(
            lambda name, x: (
                np.testing.assert_array_equal(x[()], second[name][()])
                if isinstance(x, h5py.Dataset)
                else None
            )
        )


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lora": 0}, "`lora` must be a positive integer"),
        ({"init": None}, "`lora` adapts a trained model: pass its preset as `init`"),
    ],
)
def test_wrong_options_of_lora_are_refused(preset, tmp_path, options, message):
    with pytest.raises(kt.UserError, match=message):
        train(preset, tmp_path, 2, **options)
