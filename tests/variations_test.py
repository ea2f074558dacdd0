"""`variations.py`: rows of Table 3 at a small scale; and the options of the paper's runs."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

from keras_transformer.commands import main
from keras_transformer.data.synthetic import generate
from keras_transformer.models.variants import (
    get_variant,
    scaled,
    variants,
)

pytestmark = pytest.mark.once

RECIPE = Path(__file__).parent.parent / "recipes" / "translation"


@pytest.mark.slow
def test_variations_trains_a_row_and_prints_its_cells(tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    for split, size in {"train": 200, "val": 4, "test": 4}.items():
        examples = list(generate(split, size))
        (data / f"{split}.en").write_text("".join(f"{e.english}\n" for e in examples))
        (data / f"{split}.de").write_text("".join(f"{e.german}\n" for e in examples))
    train = [
        *("--dataset", "text", "--data-dir", data),
        *("--vocabulary-size", "300", "--scale", "0.0625"),
        *("--batch-tokens", "2048", "--num-shapes", "1", "--steps", "2", "--warmup-steps", "2"),
    ]

    def run_here(command, check):
        script, *words = map(str, command[1:])
        monkeypatch.setattr(sys, "argv", [script, *words])
        if script == "-m":
            main(words[1:])
        else:
            runpy.run_path(script, run_name="__main__")

    # The training is real, but not in a process of its own, which would import all again.
    monkeypatch.setattr(subprocess, "run", run_here)
    rows = ["--rows", "layers_2", "--sustained-flops", "1e9", "--"]
    run_here(["python", RECIPE / "variations.py", "--output-dir", tmp_path, *rows, *train], True)
    header, _, row = (tmp_path / "table.md").read_text().splitlines()
    cells = dict(zip(header.split("|"), row.split("|")))
    cells = {name.strip(): cell.strip() for name, cell in cells.items()}
    expected = {"N": "2", "d_model": "32", "d_ff": "128", "h": "8", "d_k": "4", "steps": "2"}
    assert expected.items() <= cells.items()
    assert float(cells["PPL (val)"]) > 1 and float(cells["FLOPs (counted)"]) > 1e8
    results = json.loads((tmp_path / "layers_2" / "results.json").read_text())
    assert float(cells["FLOPs (time)"]) == results["seconds_of_fit"] * 1e9


@pytest.mark.parametrize("name", [name for name in variants if name != "heads_32"])
def test_every_row_can_be_scaled(name):
    sizes = scaled(get_variant(name), 0.125)
    assert sizes["hidden_dim"] * 8 == get_variant(name)["hidden_dim"]
    assert sizes["num_layers"] == get_variant(name)["num_layers"]


def test_a_scale_that_does_not_divide_the_heads_is_refused():
    with pytest.raises(ValueError, match="multiple of num_heads=32"):
        scaled(get_variant("heads_32"), 0.09375)


@pytest.mark.parametrize(
    ("name", "steps", "average", "vocabulary_size", "dropout"),
    [
        ("wmt14_en_de_base", 100_000, 5, 37_000, 0.1),
        ("wmt14_en_fr_base", 100_000, 5, 32_000, 0.1),
        ("wmt14_en_de_big", 300_000, 20, 37_000, 0.3),
        ("wmt14_en_fr_big", 300_000, 20, 32_000, 0.1),
    ],
)
def test_options_files_have_the_paper_values(
    monkeypatch, name, steps, average, vocabulary_size, dropout
):
    """Sections 5.1, 5.2, 5.4 and 6.1; a later option counts."""
    read = []
    monkeypatch.setattr(tyro, "cli", keep(read, tyro.cli))
    file = RECIPE / "options" / f"{name}.txt"
    with pytest.raises(SystemExit):  # there is no data
        main(["train", "translation", f"@{file}", "--output-dir", "/nowhere/x", "--seed", "7"])
    (options,) = read
    assert (options.fitting.steps, options.checkpoints.average) == (steps, average)
    assert options.vocabulary.vocabulary_size == vocabulary_size
    hyperparameters = options.model.hyperparameters()
    assert hyperparameters["dropout"] == options.model.dropout == dropout
    assert options.batching.batch_tokens == 25_000 and options.optimizer.warmup_steps == 4000
    assert options.optimizer.peak_learning_rate is None
    assert options.checkpoints.checkpoint_minutes == 10
    assert hyperparameters["label_smoothing"] == 0.1 and options.run.seed == 7
    assert (options.corpus.source, options.corpus.target) == ("en", name.split("_")[2])


def keep(results, function):
    def call(*args, **kwargs):
        results.append(function(*args, **kwargs))
        return results[-1]

    return call
