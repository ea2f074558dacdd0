"""Errors in one line, and exit statuses."""

import errno
import io
import json
import logging
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass

import pytest

from keras_transformer.command_line import (
    CommonOptions,
    LineNotes,
    StreamOptions,
    resume_command,
    run,
)
from keras_transformer.decoding.batched_search import pad_to_few_shapes
from keras_transformer.errors import UserError
from keras_transformer.models.variants import get_variant
from tests.helpers import MODULES_ALONE

pytestmark = pytest.mark.once


@dataclass
class Options:
    variant: str
    """Which one."""
    steps: int = 5
    """How many."""


def run_with(monkeypatch, main, *arguments, script=__file__):
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    return run(main, Options)


def exit_of(capsys, function, *args, **kwargs):
    """Exit status, and the lines on standard error."""
    with pytest.raises(SystemExit) as error:
        function(*args, **kwargs)
    return error.value.code, capsys.readouterr().err.splitlines()


def test_options_are_parsed(monkeypatch, capsys):
    seen = []

    def main(options):
        seen.append(options)

    run_with(monkeypatch, main, "--variant", "base", "--steps", "7")
    run_with(monkeypatch, main, "--variant", "big")
    assert seen == [Options("base", 7), Options("big", 5)]
    assert capsys.readouterr().err == ""


def test_help_shows_the_docstrings(monkeypatch, capsys):
    with pytest.raises(SystemExit) as error:
        run_with(monkeypatch, print_options, "--help")
    assert error.value.code == 0
    output = capsys.readouterr().out
    assert "Errors in one line" in output and "Which one" in output and "--steps" in output


def print_options(options):
    print(options)


@pytest.mark.parametrize("arguments", [["--variant", "base", "--steps", "x"], []], ids=str)
def test_a_wrong_or_missing_value_ends_with_status_2_and_no_traceback(
    monkeypatch, capsys, arguments
):
    status, lines = exit_of(capsys, run_with, monkeypatch, print_options, *arguments)
    assert status == 2
    assert not any("Traceback" in line for line in lines)


EMPTY = "--variant must have a value. Received: an empty one"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--variant", ""], EMPTY),
        (["--variant="], EMPTY),
        (["--varant", "x"], "There is no option --varant. The most similar one is --variant."),
        (["--step=3"], "There is no option --step. The most similar one is --steps."),
    ],
)
def test_unknown_options_and_empty_values_take_one_line(monkeypatch, capsys, arguments, message):
    status, lines = exit_of(capsys, run_with, monkeypatch, print_options, *arguments)
    assert (status, lines) == (2, [f"error: {message}"])


def unknown_variant(options):
    get_variant("huge")


def error_of_the_script(options):
    raise UserError("There is no such file.")


def full_disk(options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/x")


@pytest.mark.parametrize(
    ("main", "beginning"),
    [
        (unknown_variant, "error: --variant must be one of "),
        (error_of_the_script, "error: There is no such file."),
        (full_disk, "error: runs/x: No space left on device."),
    ],
)
def test_an_error_of_the_user_is_one_line(monkeypatch, capsys, main, beginning):
    status, (line,) = exit_of(capsys, run_with, monkeypatch, main, "--variant", "x")
    assert status == 2 and line.startswith(beginning)


def test_a_wrong_compilation_cache_is_refused_before_the_work(monkeypatch, tmp_path, capsys):
    path = tmp_path / "cache"
    path.write_text("")
    monkeypatch.setattr(sys, "argv", ["train.py", "--compilation-cache", str(path)])
    status, (line,) = exit_of(capsys, run, lambda options: pytest.fail("began"), CommonOptions)
    assert status == 2 and "must be a folder" in line and str(path) in line


def test_a_warning_of_the_package_is_one_line(monkeypatch, capsys):
    def main(options):
        warnings.warn("`steps` of 5\nmore", UserWarning, stacklevel=1)

    run_with(monkeypatch, main, "--variant", "x")
    assert capsys.readouterr().err == "warning: --steps of 5 more\n"


@pytest.mark.parametrize("options_class", [CommonOptions, StreamOptions])
def test_log_leaves_standard_output_to_answers(monkeypatch, capsys, options_class):
    monkeypatch.setattr(sys, "argv", ["script.py"])
    run(lambda _: logging.getLogger("keras_transformer").info("compiling"), options_class)
    streams = capsys.readouterr()
    assert "compiling\n" == (streams.err if options_class is StreamOptions else streams.out)


@pytest.mark.slow
def test_a_closed_standard_output_ends_the_command_silently(tmp_path):
    script = tmp_path / "answers.py"
    script.write_text(
        f"{MODULES_ALONE}"
        "from dataclasses import dataclass\n"
        "from keras_transformer.command_line import run\n"
        "@dataclass\n"
        "class Options:\n"
        "    count: int = 100_000\n"
        "def main(options):\n"
        "    for number in range(options.count):\n"
        "        print(number)\n"
        "run(main, Options)\n"
    )
    environment = {**os.environ, "KERAS_BACKEND": "numpy"}  # which starts quickly
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, script], env=environment, **pipes) as process:
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_output_is_utf_8_in_every_locale(monkeypatch):
    streams = {name: io.TextIOWrapper(io.BytesIO(), "ascii") for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)

    def main(options):
        print("größer")
        raise UserError("zu groß")

    with pytest.raises(SystemExit):
        run_with(monkeypatch, main, "--variant", "x")
    written = []
    for stream in streams.values():
        stream.flush()
        written.append(stream.buffer.getvalue().decode())
    assert written == ["größer\n", "error: zu groß\n"]


def test_ctrl_c_ends_the_command_silently(monkeypatch, capsys):
    def main(options):
        os.kill(os.getpid(), signal.SIGINT)

    # Python ignores the signal where the shell does, as for a command in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert exit_of(capsys, run_with, monkeypatch, main, "--variant", "x") == (130, [])
    finally:
        signal.signal(signal.SIGINT, before)


def another_library(options):
    json.loads("{")  # a ValueError


def other_kind(options):
    raise TypeError("a defect")


def of_python_itself(options):
    int("three")  # a ValueError raised in the script


def reached_through_the_package(options):
    # The package calls another library, which raises.
    from keras_transformer.models.transformer import Transformer

    Transformer(vocabulary_size=5, dtype="no such dtype")


def missing_file(options):
    open("none", encoding="utf-8")


def wrong_call_in_the_package(options):
    # A built-in function, which has no line of Python of its own, raises the ValueError.
    pad_to_few_shapes([])


@pytest.mark.parametrize(
    "main",
    [
        another_library,
        other_kind,
        of_python_itself,
        reached_through_the_package,
        missing_file,
        wrong_call_in_the_package,
    ],
)
def test_a_defect_keeps_its_traceback(monkeypatch, capsys, main):
    with pytest.raises((ValueError, TypeError, FileNotFoundError)):
        run_with(monkeypatch, main, "--variant", "x")
    assert capsys.readouterr().err == ""


def test_options_are_read_from_a_file(monkeypatch, tmp_path, capsys):
    file = tmp_path / "options.txt"
    file.write_text("# a comment\n--variant big  # another\n--steps 7\n")
    seen = []

    def main(options):
        seen.append(options)

    run_with(monkeypatch, main, f"@{file}")
    run_with(monkeypatch, main, f"@{file}", "--steps", "9")
    assert seen == [Options("big", 7), Options("big", 9)]
    code, errors = exit_of(capsys, run_with, monkeypatch, main, f"@{tmp_path / 'none'}")
    assert code == 2 and len(errors) == 1 and "Cannot find the options file" in errors[0]
    for content in (b"--variant it's", b"--variant \xff"):
        file.write_bytes(content)
        code, errors = exit_of(capsys, run_with, monkeypatch, main, f"@{file}")
        assert (
            code == 2
            and len(errors) == 1
            and "options.txt is not a valid options file" in errors[0]
        )


@pytest.mark.parametrize("option", ["--resume", "--overwrite", None])
def test_resume_command_repeats_the_call_with_resume(monkeypatch, option):
    options = ["--output-dir", "my runs", *([option] if option else [])]
    monkeypatch.setattr(sys, "argv", ["train.py", *options])
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    command = f"{sys.executable} train.py --output-dir 'my runs' --resume"
    assert resume_command() == command
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert resume_command() == f"KERAS_BACKEND=jax {command}"


def test_notes_name_only_the_first_lines(capsys):
    with LineNotes() as notes:
        for number in range(1, 3001):
            notes.add("too long", number)
        notes.add("odd", 7)
        notes.add("odd", 7)  # another sentence of the line
        assert capsys.readouterr() == ("", "")
    errors = capsys.readouterr().err
    assert errors == "too long: 3,000 lines (1, 2, 3, 4, 5, ...)\nodd: 1 line (7)\n"


def test_notes_are_printed_after_an_error(capsys):
    with pytest.raises(OSError), LineNotes() as notes:
        notes.add("odd", 7)
        raise OSError
    assert capsys.readouterr().err == "odd: 1 line (7)\n"
    with LineNotes():
        pass
    assert capsys.readouterr().err == ""
