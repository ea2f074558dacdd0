"""EVALB on the command line: what is printed, and exit statuses."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.parsing.evalb import main

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
CORPORA = os.environ.get("KERAS_TRANSFORMER_DATA")

# The C program's output for these trees, with COLLINS.prm, is PRINTED.
GOLD = """\
(TOP (S (NP-SBJ (DT the) (NN dog)) (VP (VBD saw) (NP (NNS cats))) (. .)))
(S (NP (PRP it)) (VP (VBZ is)))
(S (NP (PRP it)) (VP (VBZ is)))
(S (NP (PRP it)) (VP (VBZ is)))
"""
TEST = """\
(TOP (S (NP (DT the) (NNP dog) (VBD saw)) (NP (NNS cats)) (. .)))
(S (NP (PRP it)) (VP (VBZ was)))

(S (NP (PRP it)) (VP (VBZ is) (. .)) (. .))
"""
PRINTED = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================
   1    5    0   50.00  66.67     2      4    3      1      4     3    75.00
   2    2    1    0.00   0.00     0      0    0      0      0     0     0.00
   3    2    2    0.00   0.00     0      0    0      0      0     0     0.00
   4    2    0  100.00 100.00     3      3    3      0      2     2   100.00
============================================================================
                 71.43  83.33      5     7     6      1      6     5    83.33
=== Summary ===

-- All --
Number of sentence        =      4
Number of Error sentence  =      1
Number of Skip  sentence  =      1
Number of Valid sentence  =      2
Bracketing Recall         =  71.43
Bracketing Precision      =  83.33
Bracketing FMeasure       =  76.92
Complete match            =  50.00
Average crossing          =   0.50
No crossing               =  50.00
2 or less crossing        = 100.00
Tagging accuracy          =  83.33

-- len<=40 --
"""


@pytest.fixture
def files(tmp_path):
    """Return a function that writes a gold and a test file, and returns their paths."""

    def write(gold=GOLD, test=TEST):
        (tmp_path / "gold").write_text(gold)
        (tmp_path / "test").write_text(test)
        return [str(tmp_path / "gold"), str(tmp_path / "test")]

    return write


def run(capsys, *arguments):
    status = main(arguments)
    return (status, *capsys.readouterr())


def test_output_equals_the_table_and_summary_of_the_c_program(files, capsys):
    status, output, errors = run(capsys, "-p", "COLLINS", *files())
    assert status == 0
    head, short = output[: len(PRINTED)], output[len(PRINTED) :]
    assert head == PRINTED
    assert short == PRINTED.partition("-- All --\n")[2].removesuffix("\n-- len<=40 --\n")
    assert errors == "2 : Words unmatch (is|was)\n"


def test_totals_without_brackets_are_empty(files, capsys):
    _, output, _ = run(capsys, *files("(S (X a))\n", "(X a)\n"))
    assert "=====\n      1     1   100.00\n=== Summary" in output


def test_parameter_file_is_read_and_the_cutoff_option_overrides_it(files, capsys, tmp_path):
    (tmp_path / "my.prm").write_text("CUTOFF_LEN 3\nDELETE_LABEL TOP\n")
    _, output, _ = run(capsys, "-p", str(tmp_path / "my.prm"), *files())
    assert "-- len<=3 --\nNumber of sentence        =      3\n" in output
    # The option overrides the file. Without a file nothing is deleted, and TOP matches.
    _, output, _ = run(capsys, "-c", "4", "-p", str(tmp_path / "my.prm"), *files())
    assert "-- len<=4 --" in output
    _, output, _ = run(capsys, *files())
    assert (
        "\n   1    5    0   60.00  75.00     3      5    4      1      5     4    80.00\n" in output
    )


@pytest.mark.parametrize(
    "options, sentences, expected",
    [([], 11, 0), ([], 12, 1), (["-e", "1"], 3, 1), (["-e", "1"], 2, 0), (["-p", "nk"], 12, 0)],
    ids=str,
)
def test_more_errors_than_allowed_are_reported(files, capsys, options, sentences, expected):
    # The C program stops at error max_error + 2. Here every sentence is scored.
    trees = ["(S (X b))\n"] * 2, ["(S (X a))\n"] * sentences
    test = "".join(trees[0] + trees[1])
    status, output, errors = run(capsys, *options, *files("(S (X b))\n" * (sentences + 2), test))
    assert status == expected
    assert f"Number of Error sentence  = {sentences:6d}\n" in output
    assert "Bracketing Recall         = 100.00\n" in output
    last = errors.splitlines()[-1]
    stop = {12: 14, 3: 5}.get(sentences)
    assert (f"the C program stops at sentence {stop}, " in last) == bool(expected)


def test_a_folder_named_like_parameters_is_not_read(files, capsys, tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path)
    status, output, _ = run(capsys, "-p", "new", *files())
    assert status == 0 and "Bracketing FMeasure" in output


def test_debug_has_no_effect(files, capsys, tmp_path):
    (tmp_path / "my.prm").write_text("DEBUG 1\n")
    expected = run(capsys, *files(GOLD, GOLD))
    assert run(capsys, "-p", str(tmp_path / "my.prm"), *files(GOLD, GOLD)) == expected


BAD_FILES = {
    "lines": (GOLD, GOLD + GOLD, "gold has 4 lines and .*test has 8"),
    "empty": (GOLD, "", "The file .*test is empty"),
    "open": (
        GOLD,
        TEST.replace("\n\n", "\n(S (X a)\n"),
        "test, line 3: 1 brackets are not closed",
    ),
    "closed": (GOLD.replace("is)))", "is))))"), TEST, "gold, line 2: a closing bracket has no"),
    "text": (
        GOLD,
        TEST.replace("\n\n", "\nit is\n"),
        "test, line 3: expected a bracket, not 'it'.*: 'it is'",
    ),
}


@pytest.mark.parametrize("gold, test, message", BAD_FILES.values(), ids=BAD_FILES)
def test_damaged_files_end_with_one_line(files, capsys, gold, test, message):
    assert_error(run(capsys, *files(gold, test)), message)


def assert_error(result, message):
    status, output, errors = result
    assert (status, output) == (2, "")
    assert re.match(f"error: .*{message}.*\n$", errors)


def test_missing_files_end_with_one_line(files, capsys, tmp_path):
    gold, test = files()
    none = str(tmp_path / "none")
    for arguments in ([none, test], [gold, none], ["-p", none, gold, test]):
        assert_error(run(capsys, *arguments), f"Cannot read the file {none}: it does not exist")
    assert_error(
        run(capsys, gold, str(tmp_path)), f"Cannot read the file {tmp_path}: Is a directory"
    )
    (tmp_path / "my.prm").write_text("CUT 3\n")
    assert_error(run(capsys, "-p", str(tmp_path / "my.prm"), gold, test), "my.prm, line 1: ")


@pytest.mark.slow
def test_the_command_runs_as_a_process(files, tmp_path):
    gold, test = files()
    process = start("-p", "COLLINS", gold, test)
    assert process.returncode == 0
    assert process.stdout.startswith(PRINTED)
    assert process.stderr.splitlines()[-1] == "2 : Words unmatch (is|was)"

    process = start("-p", "COLLINS", gold, str(tmp_path / "none"))
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.splitlines()[-1].startswith("error: Cannot read the file ")
    assert "Traceback" not in process.stderr


@pytest.mark.slow
def test_a_closed_pipe_ends_the_command(tmp_path):
    (tmp_path / "trees").write_text("(S (NP (PRP it)) (VP (VBZ is)))\n" * 3000)
    command = [sys.executable, "-m", "keras_transformer.parsing.evalb", *["trees"] * 2]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as process:
        assert process.stdout.readline().startswith(b"  Sent.")
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 141


def start(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "keras_transformer.parsing.evalb", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


# The sample that comes with EVALB


@pytest.mark.skipif(
    not CORPORA, reason="set KERAS_TRANSFORMER_DATA to the folder that holds evalb/"
)
def test_the_sample_of_the_c_program_gets_its_figures(capsys):
    folder = Path(CORPORA) / "evalb"
    sample = [str(folder / f"sample.{suffix}") for suffix in ("prm", "gld", "tst")]
    status, output, errors = run(capsys, "-p", *sample)
    assert status == 0
    assert errors.splitlines() == [
        "12 : Words unmatch (is|was)",
        "13 : Length unmatch (4|5)",
        "16 : Length unmatch (4|5)",
        "17 : Length unmatch (4|6)",
        "20 : Words unmatch (this|That)",
    ]
    assert figures(output) == figures((folder / "sample.rsl").read_text())
    assert re.findall(r"FMeasure       =  (.*)", output) == ["89.12", "83.20"]


def figures(output):
    """Return the lines that today's C program prints as in the published result of the sample.

    That is of an older version, which counts the words of error and skip sentences, gives another
    total of crossing brackets, and has no F-measure.
    """
    lines = [line for line in output.splitlines() if "FMeasure" not in line]
    (summary,) = (number for number, line in enumerate(lines) if line == "=== Summary ===")
    for number in range(3, summary - 2):
        status = lines[number].split()[2]
        lines[number] = lines[number] if status == "0" else lines[number][:-22]
    total = lines[summary - 1].split()
    lines[summary - 1] = total[:5] + total[6:]
    return lines
