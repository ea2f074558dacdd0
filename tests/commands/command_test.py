"""The command `keras-transformer`: which module runs, help, completion."""

import io
import os
import shlex
import subprocess
import sys

import keras
import pytest

import keras_transformer as kt
from keras_transformer.commands import COMMANDS, main, select

pytestmark = pytest.mark.once
# With a task or without, each command has one module per row.
ROWS = [
    [name, *task]
    for name, command in COMMANDS.items()
    if name != "completion"
    for task in ([("translation",), ("parsing",)] if command.has_tasks else [()])
]
IN_A_PROCESS = """
import sys
sys.argv = ["keras-transformer"]
from keras_transformer import commands
for words in {rows}:
    module, used = commands.select(words)
    assert used == len(words) and module.main and module.__doc__
    module.Options
heavy = {{"keras", "tensorflow", "jax", "torch", "matplotlib", "sacrebleu", "nltk"}}
print(sorted(heavy & {{*sys.modules}}))
"""


def run_python(script):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ}
    )


def test_options_of_all_commands_are_there_without_importing_keras():
    process = run_python(IN_A_PROCESS.format(rows=ROWS))
    assert (process.stdout, process.stderr) == ("[]\n", "")


def test_all_names_are_imported_and_registered_in_other_programs():
    assert keras.saving.get_registered_object("keras_transformer>Transformer") is kt.Transformer
    assert {*kt.__all__} <= {*vars(kt)}


@pytest.mark.parametrize(("model", "task"), [("multi30k_en_de", "translation"),
                                             ("craft_parser", "parsing")])  # fmt: skip
def test_the_task_is_that_of_the_model_if_it_is_not_given(model, task):
    for words in (["evaluate", "--model", model], ["export", f"--model={model}"]):
        module, used = select(words)
        assert module.__name__ == f"keras_transformer.commands.{words[0]}_{task}" and used == 1


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


def test_a_training_needs_its_task():
    with pytest.raises(kt.UserError, match="`keras-transformer train translation`"):
        select(["train", "--dataset", "x"])


def test_an_unknown_command_is_one_line_that_names_the_nearest(capsys):
    with pytest.raises(SystemExit) as error:
        main(["tranlate"])
    output = capsys.readouterr()
    assert error.value.code == 2 and output.out == ""
    assert output.err.count("\n") == 1 and output.err.endswith("Did you mean translate?\n")


def test_help_lists_each_command_and_its_own_help_names_it(capsys):
    for words in ([], ["--help"]):
        main(words)
        output = capsys.readouterr().out
        assert all(f"\n  {name} " in output for name in COMMANDS)
    with pytest.raises(SystemExit):
        main(["train", "parsing", "--help"])
    assert "usage: keras-transformer train parsing" in capsys.readouterr().out
    main(["--version"])
    assert capsys.readouterr().out == f"keras-transformer {kt.__version__}\n"


def test_bash_completes_commands_and_options(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["completion", "bash"])
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


def test_zsh_has_a_completion_too_and_another_shell_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "zsh"])
    assert capsys.readouterr().out.startswith("#compdef keras-transformer")
    with pytest.raises(SystemExit) as error:
        main(["completion", "fish"])
    assert error.value.code == 2


def test_python_m_is_the_same_command_and_is_named_like_it():
    process = subprocess.run(
        [sys.executable, "-m", "keras_transformer", "parse", "--help"],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0 and "keras-transformer parse" in process.stdout


def test_sentences_on_the_command_line_are_translated(capsys):
    main(["translate", "--model", "multi30k_en_de", "A dog runs.", "A cat sleeps."])
    assert len(capsys.readouterr().out.splitlines()) == 2
