"""The commands for translation from end to end, on a folder of a few hundred pairs."""

import contextlib
import io
import json
import os
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import h5py
import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.commands import evaluate
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.synthetic import generate
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.training.training_state import list_states
from keras_transformer.weights.checkpoints import list_checkpoints
from keras_transformer.weights.weights_file import datasets
from tests.commands.conftest import call
from tests.helpers import conversation
from tests.small_corpus import new_model, tokenizer

pytestmark = pytest.mark.usefixtures("cheap_trainings")

RECIPE = Path(__file__).parents[2] / "recipes" / "translation"
SIZES = {"train": 300, "val": 12, "test": 20}


def run_script(monkeypatch, name, *arguments, stdin=""):
    """Run a script of the recipes in this process, as `python NAME ARGUMENTS` would."""
    monkeypatch.setattr(sys, "argv", [str(RECIPE / name), *map(str, arguments)])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
    runpy.run_path(str(RECIPE / name), run_name="__main__")


def write_corpus(folder):
    folder.mkdir()
    for split, size in SIZES.items():
        examples = list(generate(split, size))
        (folder / f"{split}.en").write_text("".join(f"{e.english}\n" for e in examples))
        (folder / f"{split}.de").write_text("".join(f"{e.german}\n" for e in examples))
    return folder


def train_arguments(data, run):
    return [
        *("--dataset", "text", "--data-dir", data, "--output-dir", run, "--seed", "3"),
        *("--vocabulary-size", "300", "--batch-tokens", "512", "--num-shapes", "1"),
        *("--steps", "5", "--interval", "2", "--average", "2", "--num-layers", "1"),
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The corpus, and a run that has been trained on it."""
    folder = tmp_path_factory.mktemp("recipe")
    data, run = write_corpus(folder / "data"), folder / "run"
    with pytest.MonkeyPatch.context() as monkeypatch:
        call(monkeypatch, "train translation", *train_arguments(data, run))
    return data, run


@pytest.mark.each_backend
def test_train_leaves_model_scores_checkpoints_and_log(trained):
    _, run = trained
    results = json.loads((run / "results.json").read_text())
    assert results["steps"] == 5
    assert results["hyperparameters"]["num_layers"] == 1
    assert results["scores"]["test"]["num_sentences"] == SIZES["test"]
    # One value an interval, the last of which is cut short by the number of steps.
    assert len(results["history"]["val_bleu"]) == 3
    files = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert files == [f"step-{n}.{kind}.h5" for n in (4, 5) for kind in ("state.weights", "weights")]
    assert json.loads((run / "history.json").read_text()) == results["history"]
    assert (run / "training.png").read_bytes().startswith(b"\x89PNG")
    last = results["val_bleu_before_averaging"]
    assert last == results["history"]["val_bleu"][-1]
    card = (run / "model" / "README.md").read_text()
    assert results["scores"]["test"]["bleu_signature"] in card and "--seed 3" in card
    assert any((run / "tensorboard").rglob("events*"))


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() == "torch", reason="PyTorch trains on one device")
def test_two_replicas_or_two_processes_train_and_write_one_run(trained, tmp_path):
    """Two replicas on TensorFlow; on JAX two processes."""
    data, _ = trained
    run = tmp_path / "run"
    # Processes of their own: the devices are made before the backend looks at the CPU.
    command = [
        sys.executable,
        "-m",
        "keras_transformer",
        "train",
        "translation",
        *train_arguments(data, run),
    ]
    options = [["--replicas", "2"]]
    if keras.backend.backend() == "jax":
        with socket.create_server(("localhost", 0)) as server:
            address = f"localhost:{server.getsockname()[1]}"
        options = [
            [*("--coordinator", address, "--num-processes", "2"), *("--process-id", str(i))]
            for i in range(2)
        ]
    processes = [subprocess.Popen([*command, *more], stderr=subprocess.PIPE) for more in options]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    losses = json.loads((run / "results.json").read_text())["history"]["loss"]
    # Of a vocabulary of 300, about log(300) to begin with.
    assert len(losses) == 3 and all(4 < loss < 8 for loss in losses)
    assert (run / "model" / "model.weights.h5").is_file()
    # The first process alone writes.
    assert not (run / "process-1").exists()


@pytest.mark.slow
def test_train_uses_the_options_of_the_optimizer(trained, tmp_path, command):
    data, _ = trained
    run = tmp_path / "run"
    command(
        *("train translation", *train_arguments(data, run), "--steps", "2"),
        *("--accumulate", "2"),
        *("--clip-norm", "1.0", "--ema", "0.5"),
    )
    results = json.loads((run / "results.json").read_text())
    assert (results["steps"], results["skipped_updates"]) == (2, 0)
    assert len(results["history"]["loss"]) == 1
    # The model is the moving average, not an average of checkpoints.
    assert not (run / "averaged.weights.h5").exists()
    assert (run / "model" / "model.weights.h5").is_file()


def assert_same_training(run, other_run):
    """Bit for bit: what was averaged, the average, and all scores on the way."""
    results = [json.loads((x / "results.json").read_text()) for x in (run, other_run)]
    for name in ("scores", "val_bleu_before_averaging", "validation"):
        assert results[0][name] == results[1][name]
    histories = [result["history"] for result in results]
    assert histories[0].keys() == histories[1].keys()
    for name in histories[0]:
        # The means of training are those of the rest of an interval that was left.
        if name.startswith("val_") or name == "learning_rate":
            assert histories[0][name] == histories[1][name]
    folders = [x / "checkpoints" for x in (run, other_run)]
    names = [sorted(path.name for path in list_checkpoints(folder)) for folder in folders]
    assert names[0] == names[1]
    parts = [*(f"checkpoints/{name}" for name in names[0]), "model/model.weights.h5"]
    for part in parts:
        with h5py.File(run / part) as file, h5py.File(other_run / part) as other_file:
            tensors, other_tensors = datasets(file), datasets(other_file)
            assert tensors.keys() == other_tensors.keys()
            for name in tensors:
                assert np.array_equal(tensors[name][()], other_tensors[name][()]), name


# Runs a command that dies when it asks for its fifth batch.
KILLED = """
import os, signal, sys
from keras_transformer.commands import main
from keras_transformer.data.batching import TokenBatches

def batch_or_death(self, epoch, index):
    if self.training and epoch * len(self) + index == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return batch(self, epoch, index)

batch, TokenBatches.batch = TokenBatches.batch, batch_or_death
main()
"""


@pytest.fixture(scope="module")
def stopped(trained, tmp_path_factory):
    """A training that a signal has stopped after a step: its arguments, status and last lines."""
    data, _ = trained
    folder = tmp_path_factory.mktemp("stopped")
    arguments = [*map(str, train_arguments(data, folder / "run")), "--resume"]
    batch, signals = TokenBatches.batch, [signal.SIGTERM]

    def batch_and_signal(self, epoch, index):
        # Keras may ask for the first batch twice; a second signal would end the process.
        if self.training and index == 0 and signals:
            os.kill(os.getpid(), signals.pop())
        return batch(self, epoch, index)

    # The signal comes while the first batch is made.
    errors = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stderr(errors),
        pytest.raises(SystemExit) as exit,
    ):
        patch.setattr(TokenBatches, "batch", batch_and_signal)
        call(patch, "train translation", *arguments)
    return folder / "run", arguments, exit.value.code, errors.getvalue()


def test_a_stopped_training_prints_the_command_that_resumes_it(stopped):
    run, arguments, status, errors = stopped
    assert status == 128 + signal.SIGTERM
    *_, where, line = errors.strip().splitlines()
    assert line.endswith(shlex.join(arguments)) and "step-1.state.weights.h5" in where
    assert [path.name for path in list_states(run / "checkpoints")] == ["step-1.state.weights.h5"]


@pytest.mark.slow  # tasks/train_test.py resumes from Python
def test_a_stopped_and_killed_training_resumes_exactly(trained, stopped, tmp_path, command):
    (_, whole), (stopped_run, arguments, *_) = trained, stopped
    run = tmp_path / "run"
    shutil.copytree(stopped_run, run)
    arguments = [str(run) if x == str(stopped_run) else x for x in arguments]

    # Once is enough: `resume_test.py` kills more often, on all backends.
    if keras.backend.backend() == "tensorflow":
        command = [sys.executable, "-c", KILLED, "train", "translation", *arguments]
        process = subprocess.run(command, capture_output=True)
        assert process.returncode == -signal.SIGKILL, process.stderr.decode()

    command("train translation", *arguments)
    assert_same_training(run, whole)


def other_trainings():
    """Options that do not go with the run's folder, and what must be named."""
    yield [], ["--resume", "--overwrite", "--output-dir"]
    yield ["--resume", "--overwrite"], ["not both"]
    yield ["--resume", "--steps", "4"], ["step-5", "--steps must be at least 5"]
    yield ["--resume", "--variant", "small"], ["variant=tiny", "small"]
    yield ["--resume", "--batch-tokens", "600"], ["batch_tokens=512", "600"]
    yield ["--resume", "--seed", "4"], ["seed=3", "4"]


@pytest.mark.once
@pytest.mark.parametrize("options, words", list(other_trainings()), ids=str)
def test_a_folder_of_another_training_is_refused(options, words, trained, command):
    data, run = trained
    assert_refused(command, [*train_arguments(data, run), *options], words)


@pytest.mark.once
def test_a_model_without_checkpoints_is_not_replaced(trained, tmp_path, command):
    data, run = trained
    shutil.copytree(run / "model", tmp_path / "run" / "model")
    arguments = train_arguments(data, tmp_path / "run")
    assert_refused(command, arguments, ["run/model holds the model", "--overwrite"])
    (tmp_path / "run" / "model" / "notes.txt").touch()
    arguments = [*arguments, "--overwrite"]
    assert_refused(command, arguments, ["other files in it would be lost"])


@pytest.mark.once
def test_a_resumed_training_needs_the_same_text_and_tokenizer(trained, tmp_path, command):
    data, run = trained
    arguments = train_arguments(tmp_path / "data", tmp_path / "run")
    shutil.copytree(data, tmp_path / "data")
    shutil.copytree(run, tmp_path / "run")
    for split, name in (("val", "validation_text"), ("train", "training_text")):
        with open(tmp_path / "data" / f"{split}.en", "r+") as file:
            file.write("Another")
        words = ["Cannot resume from", f"Expected: {name}=", f"Received: {name}="]
        assert_refused(command, [*arguments, "--resume"], words)
    Tokenizer.train(["abc"] * 9, 9).save(tmp_path / "run" / "tokenizer.spm")
    assert_refused(command, [*arguments, "--resume"], ["tokenizer="])


def assert_refused(command, arguments, words):
    (message,) = command.fails("train translation", *arguments).splitlines()
    assert message.startswith("error: ") and all(word in message for word in words)


def fail_to_write(path):
    raise OSError("disk full")


def test_evaluate_writes_scores_and_hypotheses(trained, tmp_path, monkeypatch, capsys, command):
    data, run = trained
    scores = tmp_path / "scores.json"
    arguments = ("--model", run / "model", "--dataset", "text", "--data-dir", data)
    # As train.py scores: greedily.
    greedy = ("--beam-size", "1", "--alpha", "0")
    again = ("--references", data / "test.de", "--against", data / "test.de")
    to_file = ("--output-json", scores)
    printed = command("evaluate translation", *arguments, *greedy, *again, *to_file).out
    trained_scores = json.loads((run / "results.json").read_text())["scores"]["test"]
    assert json.loads(scores.read_text())["chrf"] == pytest.approx(trained_scores["chrf"], abs=0.5)
    assert len((run / "model.test.hypotheses.txt").read_text().split("\n")) == SIZES["test"] + 1
    assert "nrefs:2|case:mixed|eff:no|tok:13a" in printed
    assert "beam_size 1, alpha 0.0, length_penalty gnmt, coverage_penalty 0.0" in printed
    assert "100.00 of the other: p = 0.00" in printed
    assert f"The translations are in {run / 'model.test.hypotheses.txt'}." in printed
    # Two files are scored alike, without a corpus.
    files = ("--sources", data / "test.en", "--references", data / "test.de")
    printed = command("evaluate translation", *arguments[:2], *files, *greedy, *to_file).out
    assert json.loads(scores.read_text())["chrf"] == pytest.approx(trained_scores["chrf"], abs=0.5)
    assert "model.test.en.hypotheses.txt" in printed
    # Where nothing can be written at the end, scores are printed all the same.
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "atomic_write", fail_to_write)
        with pytest.raises(OSError, match="disk full"):
            command("evaluate translation", *arguments, *greedy)
    assert "BLEU|nrefs:1" in capsys.readouterr().out
    # What is wrong is told before anything is translated.
    monkeypatch.setattr(kt.Translator, "__call__", None)
    for wrong, words in (
        (("--against", tmp_path / "none.de"), "it does not exist"),
        (("--sources", data / "test.en"), "either --dataset, or --sources and --references"),
        (("--against", data / "val.de"), "12 hypotheses and 20 references"),
        (("--tokenize", "alien"), "alien"),
        (("--hypotheses", scores / "x.txt"), "Not a directory. Pass another --hypotheses"),
        (("--output-json", tmp_path), "Is a directory. Pass another --output-json"),
    ):
        assert words in command.fails("evaluate translation", *arguments, *wrong)


@pytest.mark.once
def test_evaluate_warns_of_reversed_languages():
    direction = evaluate.in_direction
    translator = kt.Translator(new_model(), tokenizer(), {"source": "en", "target": "de"})

    def languages(source, target):
        return direction(translator, SimpleNamespace(source=source, target=target, tag=None))[1]

    with pytest.warns(UserWarning, match="translates en to de.* the other way round: `source=de`"):
        assert languages("de", "en") == ("de", "en")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert languages(None, None) == languages("en", "de") == ("en", "de")
        assert languages("en", "fr") == ("en", "fr")


def test_evaluate_requires_languages(trained, tmp_path, command):
    data, run = trained
    translator = kt.Translator.from_preset(run / "model")
    translator.metadata = {}
    translator.save_to_preset(tmp_path / "model")
    arguments = ("--model", tmp_path / "model", "--dataset", "text", "--data-dir", data)
    assert "pass --source and --target" in command.fails("evaluate translation", *arguments)


def test_translate_keeps_lines_in_order(trained, command):
    _, run = trained
    lines = ["The man sees the dog that sleeps under the old tree.", "", "A dog runs."]
    arguments = ("translate", "--model", run / "model", "--extra-length", "5")
    together = command(*arguments, stdin="".join(f"{line}\n" for line in lines)).out.split("\n")
    alone = []
    for line in lines:
        alone.append(command(*arguments, stdin=f"{line}\n").out.removesuffix("\n"))
    assert together == [*alone, ""]


def test_explain_draws_the_attention_of_a_given_translation(trained, command, tmp_path):
    _, run = trained
    folder = tmp_path / "pictures"
    arguments = ("A dog runs.", "--model", run / "model", "--output-dir", folder)
    # Hardly trained, it would translate by fifty words.
    arguments = (*arguments, "--translation", "Ein Hund rennt.")
    assert command(
        "explain translation", *arguments, "--heads", "0", "2", "--words", "</s>"
    ).out.startswith("A dog runs.\n\nEin Hund rennt.\n\n")
    files = sorted(["translation.html", "encoder.svg", "decoder.svg", "cross.svg"])
    assert sorted(path.name for path in folder.iterdir()) == files
    assert "--words must be among the tokens. Received: elephant" in command.fails(
        "explain translation", *arguments, "--words", "elephant"
    )


def test_n_best_translations_come_from_the_best_to_the_worst(trained, command):
    _, run = trained
    options = ("--n-best", "3", "--extra-length", "5")
    text = "A dog runs.\nThe man sees the dog.\n"
    lines = command("translate", "--model", run / "model", *options, stdin=text).lines
    rows = [line.split("\t") for line in lines]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
    for number in ("1", "2"):
        scores = [float(row[1]) for row in rows if row[0] == number]
        assert scores == sorted(scores, reverse=True)


def test_translations_nearest_to_references(trained, tmp_path, monkeypatch, capsys, command):
    """Of three translations of each line the one that the reference is."""
    _, run = trained
    lines = ["A dog runs.", "", "The man sees the dog."]
    arguments = ("translate", "--model", run / "model", "--extra-length", "5")

    text = "".join(f"{line}\n" for line in lines)
    rows = [row.split("\t") for row in command(*arguments, "--n-best", "3", stdin=text).lines]
    last = {int(number): text for number, _, text in rows}
    assert last[1] != rows[0][2]
    references = tmp_path / "references.de"
    references.write_text("".join(f"{last.get(i, '')}\n" for i in (1, 2, 3)))
    options = ("--references", references, "--language", "de")

    def chosen(table):
        run_script(monkeypatch, "nearest_translations.py", *options, stdin=table)
        return capsys.readouterr().out.splitlines()

    table = "".join("\t".join(row) + "\n" for row in rows)
    assert chosen(table) == [last[1], "", last[3]]
    # Of two words there are no three in a row, which would make each BLEU 0. Of equally near
    # translations, the first.
    references.write_text("a b\na b\n")
    assert chosen("1\t0\tx y\n1\t0\ta x\n1\t0\ta b\n2\t0\tx a\n2\t0\ta x\n") == ["a b", "x a"]
    for table, words in (
        ("3\t0\ta\n", "2 references and translations of line 3"),
        ("a\n", "a number, a score"),
    ):
        with pytest.raises(SystemExit):
            chosen(table)
        assert words in capsys.readouterr().err


def test_sampled_translations_follow_their_seed(trained, command):
    _, run = trained
    outputs = []
    for seed in (1, 1, 2):
        arguments = ("--model", run / "model", "--extra-length", "5")
        sampling = ("--sample", "--top-k", "20", "--seed", seed)
        outputs.append(command("translate", *arguments, *sampling, stdin="A dog runs.\n").out)
    assert outputs[0] == outputs[1] != outputs[2]
    for options, words in (
        (
            ["--top-k", "20", "--seed", "1"],
            "--top-k, --seed: expected with --sample only",
        ),
        (
            ["--sample", "--beam-size", "9"],
            "--beam-size: expected without --sample only",
        ),
    ):
        assert words in command.fails("translate", *arguments, *options, stdin="A dog runs.\n")


@pytest.mark.slow
def test_one_model_is_trained_in_both_directions(tmp_path, command):
    """No file of val and test, one very long line, tags, and a vocabulary for each side."""
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    pairs = [(f"{x.english} %s", f"{x.german} %s") for x in generate("train", 200)]
    for side, name in enumerate(("news.xx-yy.xx", "news.xx-yy.yy")):
        lines = [pair[side] for pair in pairs] + ["%s " * 450]
        (data / name).write_text("".join(f"{line}\n" for line in lines))
    command(
        *("train translation", *train_arguments(data, run)),
        *("--source", "xx", "--target", "yy", "--also", "source=yy,target=xx,ratio=0.5"),
        *("--tag-target", "--source-vocabulary-size", "250", "--steps", "2", "--max-tokens", "100"),
    )
    results = json.loads((run / "results.json").read_text())
    assert results["left_out"] == {"too long": 2}
    assert results["tags"] == ["<2yy>", "<2xx>"]
    assert results["scores"]["test"]["num_sentences"] == 4  # one in 50
    assert (run / "source_tokenizer.spm").is_file()

    scores, greedy = tmp_path / "scores.json", ("--beam-size", "1", "--alpha", "0")
    arguments = ("--model", run / "model", "--dataset", "text", "--data-dir", data, *greedy)
    assert "--split must be the part of two files' names" in command.fails(
        "evaluate translation", *arguments, "--source", "xx", "--target", "yy"
    )
    for side, language in enumerate(("xx", "yy")):
        (data / f"few.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs[:4]))
    arguments = (*arguments, "--split", "few")
    back = ("--source", "yy", "--target", "xx", "--output-json", scores)
    command("evaluate translation", *arguments, *back)
    # By default the other direction has its own tag.
    outputs = (run / "model.few.hypotheses.txt").read_text()
    printed = command("evaluate translation", *arguments, *back, "--tag", "<2xx>").out
    assert (run / "model.few.hypotheses.txt").read_text() == outputs
    facts = json.loads(scores.read_text())
    assert facts["placeholders"]["num_placeholders"] == facts["num_sentences"] == 4
    assert {*facts["findings"]} > {"any", "placeholders", "repetition"}
    assert "of 4 copied" in printed and "translations with findings of `check`: " in printed

    translate = ("translate", "--model", run / "model", "--extra-length", "5")
    outputs = []
    for tag, line in ((["<2xx>"], "dog"), ([], "<2xx> dog"), (["<2yy>"], "dog"), (None, "dog")):
        tags = [] if tag is None else ["--tag", *tag]
        outputs.append(command(*translate, *tags, stdin=f"{line}\n").out)
    assert outputs[0] == outputs[1] and outputs[2] == outputs[3]


@pytest.fixture(scope="module")
def saved_model(trained, tmp_path_factory):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("a SavedModel is made by TensorFlow")
    path = tmp_path_factory.mktemp("export") / "saved_model"
    with pytest.MonkeyPatch.context() as monkeypatch:
        call(monkeypatch, "export translation", "--model", trained[1] / "model", "--output", path)
    return path


@pytest.mark.each_backend_long
def test_an_exported_saved_model_translates_like_python(trained, saved_model, command):
    sentence = "The man sees the dog."
    served = subprocess.run(
        [sys.executable, RECIPE / "translate_with_saved_model.py", saved_model, sentence],
        capture_output=True,
        text=True,
        check=True,
    )
    translation = command("translate", "--model", trained[1] / "model", stdin=f"{sentence}\n").out
    assert served.stdout == f"{sentence} -> {translation}"
    assert served.stderr == ""


@pytest.mark.once
def test_a_wrong_path_of_a_saved_model_is_one_line(monkeypatch, capsys, tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(SystemExit) as error:
            run_script(monkeypatch, "translate_with_saved_model.py", path, "The dog runs.")
        assert error.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line == f"error: {path} is not a SavedModel: it has no file saved_model.pb."


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="it can export")
def test_export_names_the_required_backend(trained, tmp_path, command):
    arguments = ("--model", trained[1] / "model", "--output", tmp_path / "saved_model")
    assert "KERAS_BACKEND=tensorflow" in command.fails("export translation", *arguments)


def bad_inputs():
    """For each kind of bad input: changes to the corpus, to the options, and what must be named."""
    yield "unequal lines", {"train.de": "ein\n"}, {}, ["train.de", "lines"]
    yield "empty file", {"val.en": ""}, {}, ["val.en", "empty"]
    yield "invalid UTF-8", {"train.en": b"a\n\xff\n"}, {}, ["train.en", "line 2", "UTF-8"]
    yield "missing folder", {}, {"--data-dir": "nowhere"}, ["nowhere", "--data-dir"]
    yield "unknown data set", {}, {"--dataset": "multi31k"}, ["multi31k", "multi30k"]
    yield "unknown variant", {}, {"--variant": "huge"}, ["huge", "base"]
    yield "vocabulary", {}, {"--vocabulary-size": "10"}, ["--vocabulary-size", "greater than"]
    yield "no text", {}, {"--vocabulary-sentences": "0"}, ["vocabulary_sentences=0", "positive"]
    yield "clipping", {}, {"--clip-norm": "-1"}, ["clip_norm=-1", "positive"]
    yield "no coordinator", {}, {"--num-processes": "2"}, ["coordinator", "HOST:PORT"]
    yield "token budget", {}, {"--batch-tokens": "8"}, ["batch_tokens=8", "longest"]
    yield "no checkpoint", {}, {"--average": "0"}, ["average=0", "positive"]
    yield "seed", {}, {"--seed": "-1"}, ["--seed", "seed=-1"]
    yield "another corpus", {}, {"--also": "data_dir=x,tag"}, ["NAME=VALUE", "data_dir=x,tag"]


@pytest.mark.once
@pytest.mark.parametrize(("name", "files", "options", "words"), list(bad_inputs()))
def test_bad_input_is_one_line_and_leaves_no_model(name, files, options, words, tmp_path, command):
    data = write_corpus(tmp_path / "data")
    for file, content in files.items():
        content = content.encode() if isinstance(content, str) else content
        (data / file).write_bytes(content)
    arguments = train_arguments(data, tmp_path / "run")
    for option, value in options.items():
        arguments += [option, value]
    assert_refused(command, arguments, words)
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.once
def test_invalid_utf8_is_reported_in_one_line(trained, command):
    _, run = trained
    assert "standard input, line 2" in command.fails(
        "translate", "--model", run / "model", stdin=b"good\n\xff\xfe\n"
    )


def test_lines_before_invalid_utf8_are_translated(trained, command):
    _, run = trained
    arguments = ("translate", "--model", run / "model", "--extra-length", "5")
    text = "A dog runs.\n\n中文\n"
    expected = command(*arguments, stdin=text)
    assert expected.err == "with nothing that the vocabulary knows: 1 line (3)\n"
    found = command(*arguments, stdin=text.encode() + b"\xff\nA dog.\n", status=2)
    assert found.out == expected.out and len(found.lines) == 3
    note, error = found.err.splitlines()
    assert note == expected.err.strip()
    assert error.startswith("error: standard input, line 4: cannot decode byte")


def test_lines_that_are_cut_are_reported(trained, command):
    _, run = trained
    arguments = ("translate", "--model", run / "model", "--extra-length", "5")
    lines = ["A dog runs.", *["A dog runs." * 9] * 7, "A dog runs." * 99, "", "A dog."]
    text = "\n".join(lines)
    # The numbers continue from window to window.
    options = ("--max-source-length", "8", "--buffer-size", "3", "--split", "none")
    found = command(*arguments, *options, stdin=text)
    assert found.err == "cut to 8 tokens: 8 lines (2, 3, 4, 5, 6, ...)\n"
    assert len(found.lines) == len(lines) and not found.lines[-2]
    assert len({*found.lines[1:9]}) == 1
    rows = command(*arguments, *options, "--n-best", "2", stdin=text).lines
    numbers = [row.split("\t")[0] for row in rows]
    assert numbers == [str(number) for number in range(1, len(lines) + 1) for _ in range(2)]


@pytest.mark.slow
def test_translate_answers_each_line_of_a_pipe_at_once(trained):
    _, run = trained
    arguments = ("--model", run / "model", "--extra-length", "5")
    with conversation("-m", "keras_transformer", "translate", *arguments) as process:
        answers = []
        for line in (b"A dog runs.\n", b"\r\n", b"The man sees the dog.\nA dog runs.\n"):
            process.stdin.write(line)
            process.stdin.flush()
            answers += [process.stdout.readline() for _ in range(line.count(b"\n"))]
        process.stdin.write(b"A dog runs.")
        process.stdin.close()
        answers += process.stdout.readlines()
    assert process.returncode == 0
    assert all(answer.endswith(b"\n") for answer in answers)
    first, blank, other, *same = answers
    assert blank == b"\n" and same == [first, first] and other != first


@pytest.mark.once
def test_a_buffer_size_of_0_is_refused(trained, command):
    _, run = trained
    error = command.fails("translate", "--model", run / "model", "--buffer-size", "0")
    assert "buffer_size=0" in error


@pytest.mark.once
def test_a_model_folder_without_a_model_is_refused(tmp_path, command):
    assert "config.json is missing" in command.fails("translate", "--model", tmp_path)
