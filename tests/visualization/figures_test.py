"""`python -m keras_transformer.figures`: the paper's figures and tables, and trainings."""

import json
import sys

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import figures
from keras_transformer.command_line import run
from keras_transformer.training.cost import count_parameters
from keras_transformer.visualization import (
    plot_learning_rates,
    plot_position_encodings,
    plot_runs,
    variations_table,
)
from keras_transformer.visualization.paper_figures import measure_layer_types
from keras_transformer.visualization.runs import read_runs
from tests.helpers import assert_close

pytestmark = pytest.mark.once


def test_positions_follow_the_formula():
    image = plot_position_encodings(5, 8).axes[0].images[0].get_array()
    for position in range(5):
        for i in range(4):
            angle = position / 10000 ** (2 * i / 8)
            assert_close(image[2 * i : 2 * i + 2, position], [np.sin(angle), np.cos(angle)])


def test_learning_rates_follow_the_formula():
    lines = plot_learning_rates((256, 512), (100, 400), 1000).axes[0].lines
    assert len(lines) == 4
    for line, (hidden_dim, warmup) in zip(lines, [(d, w) for d in (256, 512) for w in (100, 400)]):
        steps, rates = line.get_data()
        expected = hidden_dim**-0.5 * np.minimum(steps**-0.5, steps * warmup**-1.5)
        assert_close(rates, expected, atol=1e-8)
        assert line.get_label() == f"d_model {hidden_dim}, warm-up {warmup}"


@pytest.mark.parametrize("name", ["tiny", "learned_positions", "key_dim_16"])
def test_parameters_are_counted(name):
    small = {"hidden_dim": 16, "intermediate_dim": 12, "num_layers": 1}
    model = kt.Transformer.from_variant(name, 30, **small)
    sizes = {**kt.get_variant(name), **small}
    assert count_parameters(sizes, 30) == model.count_params()


def results_of(name, steps=5, interval=2):
    history = {"perplexity": [9.0, 5.0, 4.0], "val_perplexity": [8.0, None, 4.5]}
    return {
        "steps": steps,
        "interval": interval,
        "parameters": 1_234_567,
        "hyperparameters": kt.get_variant(name),
        "validation": {"perplexity": 4.5},
        "scores": {"val": {"bleu": 21.04}},
        "history": {"loss": [3.0, 2.0, 1.0], **history, "val_bleu": [1.0, 10.0, 21.0]},
    }


@pytest.fixture
def runs(tmp_path):
    for name in ("tiny", "small"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(results_of(name)), "utf-8")
    return tmp_path / "runs"


def test_curves_are_the_history(runs):
    perplexity, bleu = plot_runs(read_runs(runs)).axes
    assert [axes.get_title("left") for axes in (perplexity, bleu)] == ["perplexity", "bleu"]
    training, validation, *_ = perplexity.lines
    assert [x.tolist() for x in training.get_data()] == [[2, 4, 5], [9, 5, 4]]
    assert np.isnan(validation.get_ydata()[1]) and len(perplexity.lines) == 4


def test_a_table_of_trainings_and_of_the_paper(runs):
    header, _, *rows = variations_table(read_runs(runs / "tiny")).splitlines()
    assert header.endswith("| eps_ls | steps | PPL (val) | BLEU (val) | params x10^6 |")
    assert rows == ["| tiny | 4 | 128 | 256 | 4 | 32 | 32 | 0.3 | 0.1 | 5 | 4.50 | 21.0 | 1.2 |"]
    rows = variations_table().splitlines()
    assert "| base | 6 | 512 | 2048 | 8 | 64 | 64 | 0.1 | 0.1 | 63 |" in rows
    assert len(rows) == 2 + len(kt.variants)


@pytest.mark.parametrize("lengths", [(128,), (128, 128), (256, 128)])
def test_lengths_that_say_nothing_of_growth(lengths):
    with pytest.raises(ValueError, match="`lengths` must be two or more increasing numbers"):
        measure_layer_types(lengths)


def test_the_command_draws_all_figures_or_names_a_missing_file(runs, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "figures"
    sizes = ["--lengths", "8", "16", "--hidden-dim", "8", "--form", "svg", "--dark"]
    monkeypatch.setattr(sys, "argv", ["figures", str(folder), "--runs", str(runs), *sizes])
    run(figures.main, figures.Options)
    pictures = ["layer_types", "learning_rates", "position_encodings", "trainings"]
    names = sorted([*(f"{name}.svg" for name in pictures), "variations.md"])
    assert sorted(path.name for path in folder.iterdir()) == names
    assert sorted(capsys.readouterr().out.split()) == [str(folder / name) for name in names]
    assert "| small | 4 | 256 |" in (folder / "variations.md").read_text("utf-8")
    monkeypatch.setattr(sys, "argv", ["figures", str(folder), "--runs", str(folder)])
    with pytest.raises(SystemExit) as error:
        run(figures.main, figures.Options)
    assert error.value.code == 2 and "There is no results.json" in capsys.readouterr().err
