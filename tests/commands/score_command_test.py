"""The command `keras-transformer score`, and the option `check` of `translate`."""

import math

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.commands import main

SOURCES = ["A dog runs through the snow.", "Two men sit on a bench. A girl eats an apple.", ""]
TRANSLATIONS = ["Ein Hund rennt durch den Schnee.", "Zwei Männer sitzen auf einer Bank.", ""]


@pytest.fixture
def files(tmp_path):
    for name, lines in (("en", SOURCES), ("de", TRANSLATIONS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return tmp_path / "en", tmp_path / "de"


def test_score_prints_the_scores_and_names_the_lines_with_findings(files, capsys):
    main(["score", *map(str, files), "--model", "multi30k_en_de", "--alpha", "0", "--check"])
    output = capsys.readouterr()
    translator = kt.Translator.from_preset("multi30k_en_de", alpha=0)
    expected = translator.score(SOURCES, TRANSLATIONS)
    rows = [[float(x) for x in line.split("\t")] for line in output.out.splitlines()]
    np.testing.assert_allclose(rows, [[x.score, x.perplexity] for x in expected], atol=1e-4)
    assert rows[0][0] == pytest.approx(math.fsum(expected[0].token_log_probs), abs=1e-3)
    total = [x for score in expected for x in score.token_log_probs]
    perplexity = math.exp(-math.fsum(total) / len(total))
    assert f"perplexity {perplexity:.4f} of {len(total)} tokens" in output.err
    assert "with fewer sentences in the translation: 1 line (2)\n" in output.err


def test_files_of_different_lengths_are_an_error(files, capsys):
    files[1].write_text("Ein Hund.\n")
    with pytest.raises(SystemExit) as stopped:
        main(["score", *map(str, files), "--model", "multi30k_en_de"])
    assert stopped.value.code == 2 and "same number of lines" in capsys.readouterr().err


def test_translate_names_the_lines_whose_translations_have_findings(capsys):
    texts = ["A dog runs.", "A man pays %s for {name}."]
    # With this, a model without reserved symbols reads the placeholders.
    options = ["--split", "none", "--check", "--beam-size", "1"]
    main(["translate", "--model", "multi30k_en_fr", *options, *texts])
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 2
    assert "with other placeholders in the translation: 1 line (2)\n" in output.err
