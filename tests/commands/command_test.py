"""The command `keras-transformer`: which module runs, help, completion."""

import io
import os
import shlex
import subprocess
import sys

import pytest

import keras_transformer as kt
from keras_transformer.commands import COMMANDS, main, select

pytestmark = pytest.mark.once


def test_each_command_selects_its_function_and_has_a_summary():
    for name, command in COMMANDS.items():
        for words, function in (
            [([name, task], function) for task, function in command.items()]
            if isinstance(command, dict)
            else [([name], command)]
        ):
            assert select([*words, "--model", "x"]) == (function, len(words))
            assert function.__doc__.partition("\n")[0].endswith(".")


@pytest.mark.parametrize(("model", "task"), [("multi30k_en_de", "translation"),
                                             ("craft_parser", "parsing")])  # fmt: skip
def test_the_task_defaults_to_the_task_of_the_model(model, task):
    for words in (["evaluate", "--model", model], ["export", f"--model={model}"]):
        assert select(words) == (COMMANDS[words[0]][task], 1)


@pytest.mark.parametrize("words", [["translate", "--model", "multi30k_en_de"],
                                   ["parse", "--model", "craft_parser"]])  # fmt: skip
def test_a_line_of_standard_input_that_is_too_long_is_one_line(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a" * 100_001)))
    with pytest.raises(SystemExit) as error:
        main(words)
    output = capsys.readouterr()
    assert (
        error.value.code == 2
        and output.out == ""
        and output.err
        == ("error: standard input, line 1: 100,001 characters. Expected at most 100,000\n")
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["tranlate"], "Did you mean translate?", id="command"),
        pytest.param(["train", "parse"], "Did you mean parsing?", id="task"),
        pytest.param(["train", "--steps", "3"], "Expected translation, parsing.", id="no task"),
        pytest.param(
            ["translate", "--modle", "x"],
            "There is no option --modle. The most similar one is --model.",
            id="option",
        ),
        pytest.param(
            ["train", "parsing", "--batchtokens=3"],
            "The most similar one is --batch-tokens.",
            id="option with a value",
        ),
    ],
)
def test_an_unknown_word_is_one_line_that_names_the_nearest(words, message, capsys):
    with pytest.raises(SystemExit) as error:
        main(words)
    output = capsys.readouterr()
    assert error.value.code == 2 and output.out == ""
    assert output.err.startswith("error: ") and output.err.endswith(f"{message}\n")
    assert output.err.count("\n") == 1


def test_help_lists_each_command(capsys):
    for words in ([], ["--help"]):
        with pytest.raises(SystemExit):
            main(words)
        output = capsys.readouterr().out
        assert all(f" {name} " in output for name in COMMANDS)
    with pytest.raises(SystemExit):
        main(["train", "parsing", "--help"])
    assert "usage: keras-transformer train parsing" in capsys.readouterr().out
    main(["--version"])
    assert capsys.readouterr().out == f"keras-transformer {kt.__version__}\n"


def test_bash_completes_commands_and_options(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--tyro-print-completion", "bash"])
    (tmp_path / "completion.sh").write_text(capsys.readouterr().out)

    def completed(*words):
        script = f"""
source {shlex.quote(str(tmp_path / "completion.sh"))}
COMP_WORDS=(keras-transformer {shlex.join(words)})
COMP_CWORD={len(words)}
$(complete -p keras-transformer | sed 's/.*-F //; s/ .*//')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        process = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        return process.stdout.split()

    assert "translate" in completed("tra") and "train" in completed("tra")
    assert completed("translate", "--source-l") == ["--source-lang"]
    assert completed("train", "pars") == ["parsing"]


@pytest.mark.parametrize(
    ("backend", "blocked", "cause"),
    [
        pytest.param("tensorflw", None, "tensorflw", id="unknown"),
        pytest.param("jax", "jax", "jax", id="not installed"),
    ],
)
def test_a_backend_that_cannot_be_imported_is_one_line(backend, blocked, cause):
    script = f"""
import os, sys
os.environ["KERAS_BACKEND"] = {backend!r}
sys.modules[{blocked!r}] = None
import keras_transformer_command
keras_transformer_command.main()
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    (line,) = process.stderr.splitlines()
    assert process.returncode == 2 and line.startswith(
        "error: Cannot import Keras with its backend"
    )
    assert cause in line and "KERAS_BACKEND must be an installed backend" in line


def test_ctrl_c_ends_the_command_in_silence_while_the_package_is_imported(tmp_path):
    # A module in Keras's place gets the signal when it is imported.
    (tmp_path / "keras.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    script = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background process
import keras_transformer_command
sys.path.insert(0, sys.argv[1])
keras_transformer_command.main()
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "")


def test_the_command_lets_tensorflow_log_warnings_but_no_information(tmp_path):
    (tmp_path / "keras.py").write_text(
        "import os, sys\nsys.exit(os.environ['TF_CPP_MIN_LOG_LEVEL'])\n"
    )
    script = "import sys, keras_transformer_command; sys.path.insert(0, sys.argv[1]); "
    command = [sys.executable, "-c", f"{script} keras_transformer_command.main()", str(tmp_path)]
    environment = {**os.environ}
    for level, expected in ((None, "1"), ("0", "0")):
        environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
        if level:
            environment["TF_CPP_MIN_LOG_LEVEL"] = level
        process = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert process.stderr == f"{expected}\n"


def test_python_m_runs_the_same_command():
    process = subprocess.run(
        [sys.executable, "-m", "keras_transformer", "parse", "--help"],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0 and "keras-transformer parse" in process.stdout


def test_sentences_on_the_command_line_are_translated(capsys):
    main(["translate", "--model", "multi30k_en_de", "A dog runs.", "A cat sleeps."])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_export_passes_the_options_of_the_format(monkeypatch, tmp_path, capsys):
    exported = []
    monkeypatch.setattr(
        kt.Translator,
        "export",
        lambda _, *arguments, **options: exported.append((arguments, options)),
    )
    model = ["export", "--model", "multi30k_en_de", "--output", str(tmp_path / "x")]
    main([*model, "--n-best", "3", "--xla"])
    main([*model, "--format", "ctranslate2", "--quantization", "int8"])
    assert exported == [
        ((tmp_path / "x", "saved_model"), {"num_results": 3, "xla": True}),
        ((tmp_path / "x", "ctranslate2"), {"quantization": "int8"}),
    ]
