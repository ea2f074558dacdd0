"""`Translator.train` and `ConstituencyParser.train`: from text to a task, from Python."""

import json
import logging
import signal

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.synthetic import generate
from keras_transformer.option_fields import from_keywords
from keras_transformer.presets.registry import license_in
from keras_transformer.tasks import pipeline
from keras_transformer.tasks.pipeline import begin_training
from keras_transformer.training.training_state import list_states, newest_state
from keras_transformer.translation import train_translator
from keras_transformer.translation.train_translator import TranslatorTrainingOptions, score_text

pytestmark = pytest.mark.usefixtures("cheap_trainings")

# A model and batches that take a second.
SMALL = {
    **{"vocabulary_size": 300, "num_layers": 1, "scale": 0.25, "batch_tokens": 512},
    **{"num_shapes": 1, "interval": 2, "average": 2, "seed": 3},
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for split, size in (("train", 200), ("val", 6)):
        examples = list(generate(split, size))
        (folder / f"{split}.en").write_text("".join(f"{x.english}\n" for x in examples))
        (folder / f"{split}.de").write_text("".join(f"{x.german}\n" for x in examples))
        (folder / f"{split}.mrg").write_text("".join(f"( {x.tree} )\n" for x in examples))
    return folder


def parallel_texts(folder):
    return [
        kt.data.ParallelText.from_files(folder / f"{split}.en", folder / f"{split}.de")
        for split in ("train", "val")
    ]


@pytest.fixture(scope="module")
def trained(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    options = {**SMALL, "steps": 5, "output_dir": str(folder)}
    return folder, kt.Translator.train(*parallel_texts(texts), **options)


def test_a_trained_translator_is_saved_and_scored(trained, tmp_path):
    folder, translator = trained
    results = json.loads((folder / "results.json").read_text())
    assert results["steps"] == 5 and len(results["history"]["val_bleu"]) == 3
    assert results["scores"]["val"]["num_sentences"] == 6
    assert (results["source"], results["target"]) == ("en", "de")
    # The task that is returned is the one that is saved, and a task like any other.
    sentences = ["The dog sleeps.", "A man sees the house."]
    translator.search = kt.BeamSearch(extra_length=5)
    translations = translator(sentences)
    translator.save_to_preset(tmp_path / "preset")
    for path in (folder / "model", tmp_path / "preset"):
        loaded = kt.Translator.from_preset(path, extra_length=5)
        assert loaded(sentences) == translations
    languages = {"source": "en", "target": "de", "dataset": "text"}
    assert loaded.metadata == {**languages, "longest_source": loaded.metadata["longest_source"]}
    card = (folder / "model" / "README.md").read_text()
    assert "# en to de, trained on text" in card and "command" not in card


def test_stopped_and_resumed_is_the_same_training(trained, texts, tmp_path, monkeypatch):
    folder, translator = trained
    options = {**SMALL, "steps": 5, "output_dir": tmp_path, "resume": True}
    batch, signals = kt.data.TokenBatches.batch, [signal.SIGTERM]

    def batch_and_signal(self, epoch, index):
        if self.training and epoch * len(self) + index == 2 and signals:
            signal.raise_signal(signals.pop())
        return batch(self, epoch, index)

    with monkeypatch.context() as patch, pytest.raises(kt.training.TrainingStopped) as stop:
        patch.setattr(kt.data.TokenBatches, "batch", batch_and_signal)
        kt.Translator.train(*parallel_texts(texts), **options)
    assert stop.value.code == 128 + signal.SIGTERM
    assert 1 <= len(list_states(tmp_path / "checkpoints")) <= 2
    assert not (tmp_path / "model").exists()
    resumed = kt.Translator.train(*parallel_texts(texts), **options)
    weights = [task.model.get_weights() for task in (translator, resumed)]
    assert all(map(np.array_equal, *weights))
    histories = [json.loads((x / "history.json").read_text()) for x in (folder, tmp_path)]
    assert {"loss", "accuracy", "perplexity", "learning_rate"} < histories[0].keys()
    assert histories[0] == histories[1]


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "earlier training. Pass `resume=True`.*`overwrite=True`.*`output_dir`"),
        ({"resume": True, "steps": 4}, "`steps` must be at least 5.*step-5"),
        ({"resume": True, "seed": 4}, "Expected: seed=3. Received: seed=4."),
        ({"resume": True, "overwrite": True}, "not both"),
        ({"batch_token": 9}, "no option `batch_token`. The most similar one is `batch_tokens`"),
        ({"beam_size": 9}, "no option `beam_size`"),
        ({"resume": True, "patience": -1}, "`patience` must be an integer, 0 or larger"),
        ({"resume": True, "keep_best": "bleu"}, "`keep_best` must be one of .*val_loss.*val_bleu"),
        ({"resume": True, "keep_best": "val_bleu", "checkpoint_steps": 2}, "`checkpoint_steps`"),
    ],
    ids=str,
)
def test_wrong_options_of_a_training_are_refused_and_its_model_stays(
    trained, texts, options, words
):
    folder, _ = trained
    options = {**SMALL, "steps": 5, "output_dir": folder, **options}
    with pytest.raises(kt.UserError, match=words):
        kt.Translator.train(*parallel_texts(texts), **options)
    assert (folder / "model").is_dir()


@pytest.mark.once
def test_a_training_requires_an_output_folder(texts):
    with pytest.raises(kt.UserError, match="`output_dir` is required"):
        kt.Translator.train(*parallel_texts(texts), **SMALL)


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="PyTorch compiles nothing")
def test_a_training_logs_what_it_compiles(texts, tmp_path, caplog):
    caplog.set_level("INFO")
    kt.Translator.train(*parallel_texts(texts), **SMALL, output_dir=tmp_path, steps=2)
    # TensorFlow compiles later, and so short a training never.
    is_compiled = any("batch shape is compiled" in message for message in caplog.messages)
    assert is_compiled == (keras.backend.backend() == "jax")


@pytest.mark.slow
@pytest.mark.parametrize(
    "choice",
    [{}, {"average": 1}, {"ema": 0.5}, {"keep_best": "val_loss", "average": 1, "patience": 1}],
    ids=str,
)
def test_resuming_a_finished_training_changes_nothing(texts, tmp_path, choice):
    # With a moving average too, which must not find its way into the weights between two `fit`.
    options = {**SMALL, "steps": 3, "output_dir": tmp_path, **choice}
    first = kt.Translator.train(*parallel_texts(texts), **options)
    again = kt.Translator.train(*parallel_texts(texts), **options, resume=True)
    assert all(map(np.array_equal, first.model.get_weights(), again.model.get_weights()))
    averages = first.model.optimizer.inner_optimizer.use_ema
    assert averages == ("ema" in choice)
    if "keep_best" in choice:
        card = (tmp_path / "model" / "README.md").read_text()
        assert "best 1 checkpoints by val_loss, averaged" in card
    if not averages:
        return
    checkpoint = kt.Transformer(**first.model.hyperparameters)
    kt.training.load_weights(checkpoint, list_states(tmp_path / "checkpoints")[-1])
    assert not all(map(np.array_equal, first.model.get_weights(), checkpoint.get_weights()))


SMALL_PARSER = {"beam_size": 1, "extra_length": 30, "val_sentences": 2}


@pytest.fixture(scope="module")
def trained_parser(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parser")
    trees = (kt.parsing.Treebank.from_file(texts / f"{split}.mrg") for split in ("train", "val"))
    options = {**SMALL, **SMALL_PARSER, "steps": 2, "accumulate": 2, "output_dir": folder}
    return folder, kt.ConstituencyParser.train(*trees, **options)


def test_a_trained_parser_is_saved_and_scored(trained_parser):
    folder, parser = trained_parser
    (tree,) = parser([["The", "dog", "runs", "."]])
    assert tree.leaves() == ["The", "dog", "runs", "."]
    results = json.loads((folder / "results.json").read_text())
    assert results["scores"]["val"]["sentences"] == 2 and len(results["history"]["val_f1"]) == 1
    assert results["steps"] == 2  # of two batches each
    loaded = kt.ConstituencyParser.from_preset(folder / "model")
    assert loaded.search == parser.search == kt.ConstituencyParser.default_search
    assert loaded([["The", "dog", "runs", "."]]) == [tree]
    assert keras.config.dtype_policy().name == "float32"


def test_fine_tuning_begins_with_a_preset(trained, texts, tmp_path, monkeypatch):
    folder, translator = trained
    scored = []

    def score(translator, text):
        scored.append(text.name)
        return score_text(translator, text)

    monkeypatch.setattr(train_translator, "score_text", score)
    # What decides the sizes is left to the preset.
    options = {**SMALL, "steps": 2, "output_dir": tmp_path, "init": str(folder / "model")}
    with pytest.raises(kt.UserError, match="`scale`.*`init`.*vocabulary_size=300"):
        kt.Translator.train(*parallel_texts(texts), **options)
    for name in ("vocabulary_size", "num_layers", "scale"):
        del options[name]
    options = {**options, "peak_learning_rate": 1e-9, "dropout": 0.0, "average": 1}
    tuned = kt.Translator.train(*parallel_texts(texts), **options)
    assert len(scored) == 1  # the last weights once, although they are the "average" too
    assert tuned.tokenizer.proto == translator.tokenizer.proto
    expected = {**translator.model.hyperparameters, "dropout": 0.0}
    assert tuned.model.hyperparameters == expected
    for x, y in zip(tuned.model.get_weights(), translator.model.get_weights(), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["hyperparameters"]["hidden_dim"] == expected["hidden_dim"]
    # It goes on, and learns. What depends on the number of updates stays as it was.
    more = {**options, "steps": 4, "resume": True}
    kt.Translator.train(*parallel_texts(texts), **more)
    run = newest_state(tmp_path / "checkpoints").run
    assert (run["warmup_steps"], run["cooldown_steps"]) == (1, 1)
    with pytest.raises(kt.UserError, match="Expected: init=.*Received: init=None"):
        kt.Translator.train(*parallel_texts(texts), **{**more, **SMALL, "init": None})


def test_fine_tuning_keeps_the_search_the_alignment_and_the_license_of_its_base(
    trained, texts, tmp_path
):
    _, first = trained
    metadata = {**first.metadata, "alignment": {"layer": 0, "head": 1}}
    search = kt.BeamSearch(5, alpha=1.0, extra_length=7)
    base = kt.Translator(first.model, first.preprocessor, metadata, search=search)
    base.save_to_preset(tmp_path / "base", card="# Base\n\n- license: cc-by-4.0\n")
    options = {"steps": 1, "output_dir": tmp_path / "tuned", "init": str(tmp_path / "base")}
    tuned = kt.Translator.train(*parallel_texts(texts), **options)
    loaded = kt.Translator.from_preset(tmp_path / "tuned" / "model")
    assert tuned.search == loaded.search == search
    assert loaded.metadata["alignment"] == metadata["alignment"]
    card = (tmp_path / "tuned" / "model" / "README.md").read_text()
    assert license_in(card) == "cc-by-4.0" and f"fine-tuned from {tmp_path / 'base'}" in card


def test_fine_tuning_has_its_own_defaults(trained, tmp_path):
    names = ("steps", "interval", "warmup_steps", "cooldown_steps", "average", "peak_learning_rate")

    def found(name, **options):
        where = {"output_dir": tmp_path / name, **options}
        context = begin_training(from_keywords(TranslatorTrainingOptions, where))
        parts = (context.options.fitting, context.options.optimizer, context.options.checkpoints)
        values = {name: value for part in parts for name, value in vars(part).items()}
        return [values[name] for name in names]

    init = str(trained[0] / "model")
    assert found("scratch") == [7500, 500, 2000, 0, 5, 0.003]
    assert found("tuned", init=init) == [300, 100, 20, 200, 1, 0.001]
    assert found("lora", init=init, lora=8) == [300, 100, 20, 200, 1, 0.001]
    assert found("short", init=init, steps=30) == [30, 100, 2, 20, 1, 0.001]
    for value, options in (
        (0.0, {"lora": 8}),
        (0.1, {}),
        (0.2, {"lora": 8, "label_smoothing": 0.2}),
    ):
        where = {"output_dir": tmp_path, "init": init, **options}
        chosen = pipeline._hyperparameters(from_keywords(TranslatorTrainingOptions, where))
        assert chosen["label_smoothing"] == value
    given = {"steps": 7500, "warmup_steps": 2000, "cooldown_steps": 0, "average": 5}
    given["peak_learning_rate"] = 0.003
    assert found("given", init=init, **given) == [7500, 100, 2000, 0, 5, 0.003]


@pytest.mark.parametrize(("warmup_steps", "is_told"), [(50, True), (3, False)])
def test_a_training_warns_if_the_warmup_is_longer(texts, tmp_path, caplog, warmup_steps, is_told):
    options = {**SMALL, "steps": 3, "warmup_steps": warmup_steps, "output_dir": tmp_path}
    kt.Translator.train(*parallel_texts(texts), **options)
    assert ("`steps=3` is less than `warmup_steps=50`" in caplog.text) == is_told
    assert ("only reaches 6 % of its peak" in caplog.text) == is_told


def test_a_training_logs_progress_and_scores_if_verbose(
    trained, texts, tmp_path, monkeypatch, capfd
):
    # As in a program without a log. (pytest has handlers.)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    options = {"init": str(trained[0] / "model"), "steps": 1, "overwrite": True}
    for verbose in (False, True):
        capfd.readouterr()
        kt.Translator.train(*parallel_texts(texts), verbose=verbose, output_dir=tmp_path, **options)
        printed = capfd.readouterr().err
        told = ["step 1 of 1: loss", "val: BLEU", "The model is in"]
        assert [words in printed for words in told] == [verbose] * 3
    assert not logging.getLogger("keras_transformer").handlers


def test_fine_tuning_a_parser(trained_parser, texts, tmp_path):
    folder, first = trained_parser
    val = kt.parsing.Treebank.from_file(texts / "val.mrg")
    options = {**SMALL_PARSER, "init": str(folder / "model"), "steps": 1, "batch_tokens": 512}

    def tune(train, **others):
        folder = {"output_dir": tmp_path / "tuned", "overwrite": True}
        return kt.ConstituencyParser.train(train, val, **{**options, **folder, **others})

    # Trees of fewer symbols keep all that the parser knows.
    tuned = tune(val, peak_learning_rate=1e-9)
    assert tuned.metadata["symbols"] == first.metadata["symbols"]
    for x, y in zip(tuned.model.get_weights(), first.model.get_weights(), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
    for others, words in (
        ({"linearization": "top-down"}, "Pass the `linearization`"),
        ({"deterministic_attention": False}, "another .*`deterministic_attention`"),
    ):
        with pytest.raises(kt.UserError, match=words):
            tune(val, **others)
    (tmp_path / "other.mrg").write_text("( (S (QQ (XYZ dog)) (VBZ runs)) )\n")
    with pytest.raises(kt.UserError, match="symbols that the parser.*lacks: .*QQ"):
        tune(kt.parsing.Treebank.from_file(tmp_path / "other.mrg"))


@pytest.mark.slow
@pytest.mark.once
def test_a_training_cannot_begin_with_these_presets(texts, tmp_path):
    run = tmp_path / "run"

    def begin(init, **others):
        kt.Translator.train(*parallel_texts(texts), output_dir=run, init=str(init), **others)

    with pytest.raises(kt.UserError, match="nothing"):
        begin(tmp_path / "nothing")
    vocabulary = kt.data.Tokenizer.train((texts / "train.en").read_text().splitlines(), 100)
    model = kt.Transformer(100, 1, 8, 16, 2)
    preset = tmp_path / "preset"
    kt.Translator(model, vocabulary, {}).save_to_preset(preset)
    for part in ("tokenizer.json", "preprocessor.json", "task.json"):
        (preset / part).unlink()
    with pytest.raises(kt.UserError, match="that has a tokenizer"):
        begin(preset)
    assert not run.exists()
    model.quantize("int8")
    kt.Translator(model, vocabulary, {}).save_to_preset(tmp_path / "int8")
    with pytest.raises(kt.UserError, match="quantized"):
        begin(tmp_path / "int8")
