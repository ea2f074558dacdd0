"""The driver that builds the committed presets, at a small scale."""

import gzip
import importlib.util
import json
import shlex
import sys
from pathlib import Path

import pytest

import keras_transformer as kt

pytestmark = pytest.mark.once

ROOT = Path(kt.__file__).parents[1]
DRIVER = ROOT / "recipes" / "build_preset.py"
SMALL = "--num-shapes 2 --precision float32 --batch-tokens 1024 --interval 2"
TRIAL = {"steps_scale": 0.0005, "train_options": SMALL, "vocabulary_size": 200}
PRESETS = sorted(path.parent.name for path in (ROOT / "saved_models").glob("*/config.json"))


@pytest.fixture(scope="module")
def driver():
    spec = importlib.util.spec_from_file_location("build_preset", DRIVER)
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_preset"] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("preset", sorted({*PRESETS, "en_pt"}))
def test_the_plan_of_each_preset_is_printed(driver, preset, tmp_path, capsys):
    folders = {"data_dir": Path("data"), "output_dir": tmp_path}
    driver.main(driver.Options(preset=preset, **folders, dry_run=True))
    plan = capsys.readouterr().out
    assert str(tmp_path / preset) in plan and "keras-transformer train" in plan
    assert not any(tmp_path.iterdir())


def test_scaled_steps_are_whole_and_positive(driver, tmp_path, capsys):
    folders = {"data_dir": Path("data"), "output_dir": tmp_path}
    driver.main(driver.Options(preset="tatoeba_en_de", **folders, dry_run=True, **TRIAL))
    plan = capsys.readouterr().out
    assert "--steps 2 --interval 1 --checkpoint-steps 1" in plan
    assert "--vocabulary-size 8000" in plan and plan.index("8000") < plan.index(
        "--vocabulary-size 200"
    )


def write_captions(folder, count=40):
    folder.mkdir()
    pairs = iter(kt.data.load_parallel_text("synthetic", "train"))
    for name, number in (("train", count), ("val", 8), ("test_2016_flickr", 8)):
        rows = [next(pairs) for _ in range(number)]
        for side, language in enumerate(("en", "de")):
            lines = [row[side] + "\n" for row in rows]
            (folder / f"{name}.{language}").write_text("".join(lines), "utf-8")


@pytest.mark.slow
def test_a_translator_is_built_from_end_to_end_and_once(driver, tmp_path, capsys):
    write_captions(tmp_path / "data")
    folders = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "runs"}
    options = driver.Options(preset="multi30k_en_de", **folders, **TRIAL)
    driver.main(options)
    translator = kt.Translator.from_preset(tmp_path / "runs" / "multi30k_en_de")
    assert translator.search == kt.BeamSearch(beam_size=5, alpha=1.0)
    again = tmp_path / "runs" / "multi30k_de_again" / "results.json"
    mixture = json.loads(again.read_text("utf-8"))["mixture"]
    # Empty translations, which a model without training may give, are left out.
    own, best, near = (text["pairs"] for text in mixture)
    assert own == 40 and 0 < best <= 40 and 0 < near <= 40
    before = again.stat().st_mtime_ns
    capsys.readouterr()
    driver.main(options)
    steps = capsys.readouterr().out.splitlines()[:-1]
    assert len(steps) == 17 and all(step.endswith("(exists)") for step in steps)
    assert again.stat().st_mtime_ns == before


@pytest.fixture
def parser_options(driver, tmp_path):
    (tmp_path / "data").mkdir()
    # Articles of 100 different trees, of which the last three are for validation.
    tree = "( ({} (NP (NN Prx{}) (HYPH -) (NN cre)) (VP (VBZ binds)) (. .)) )\n"
    trees = [tree.format("S" if i % 100 else "TITLE", i) for i in range(1100)]
    (tmp_path / "data" / "train.mrg").write_text("".join(trees), "utf-8")
    (tmp_path / "data" / "dev.mrg").write_text("".join(trees[-10:]), "utf-8")
    folders = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "runs"}
    return {"preset": "craft_parser", **folders}


def test_functions_of_the_parser_plan_write_trees(driver, parser_options, tmp_path):
    for only in ("colons.mrg", "last.mrg"):
        driver.main(driver.Options(**parser_options, only=only))
    colons = (tmp_path / "runs" / "colons.mrg").read_text("utf-8").splitlines()
    assert len(colons) == 300 and all("(HYPH :) (HYPH :)" in line for line in colons)
    assert len((tmp_path / "runs" / "last.mrg").read_text("utf-8").splitlines()) == 980


@pytest.mark.parametrize(
    ("stage", "source"),
    [
        ("sentences.jsonl", "MTL-Bioinformatics-2016"),
        ("genia.mrg", "genia-dependency-trees"),
        ("supar.model", "supar"),
    ],
)
def test_a_missing_corpus_is_reported_with_its_source(driver, parser_options, stage, source):
    with pytest.raises(kt.UserError, match=f"'{stage}' needs .*{source}"):
        driver.main(driver.Options(**parser_options, only=stage))


def test_an_unknown_stage_is_refused(driver, parser_options):
    with pytest.raises(kt.UserError, match="craft_final.*Received: only=craft_last"):
        driver.main(driver.Options(**parser_options, only="craft_last"))


def test_commands_quote_absolute_paths_with_spaces(driver, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = {name: Path(f"my {name}") for name in ("data_dir", "output_dir", "biology_dir")}
    options = driver.Options(preset="craft_parser", **folders)
    stages = {stage.name: stage for stage in driver.craft_plan(options)}
    for name, value in (
        ("craft", tmp_path / "my data_dir"),
        ("craft_again", tmp_path / "my output_dir" / "last.mrg"),
        ("sentences.jsonl", tmp_path / "my biology_dir"),
    ):
        assert str(value) in shlex.split(stages[name].command)


def test_a_failed_stage_is_reported_in_one_line_and_leaves_no_output(driver, tmp_path):
    for prints in (False, True):
        stage = driver.Stage("x", tmp_path / "x", 'python -c "print(1); exit(3)"', prints=prints)
        with pytest.raises(kt.UserError, match="'x' failed with exit status 3"):
            driver.run_stage(stage)
        assert not any(tmp_path.iterdir())


@pytest.fixture
def english_options(tmp_path):
    (tmp_path / "data").mkdir()
    tree = "(TOP (S (NP (NN x{}) (HYPH -) (NN mail)) (VP (VBZ rocks)) (NFP :--RRB-)))\n"
    for name in ("train", "dev", "craft"):
        text = "".join(tree.format(i) for i in range(40))
        (tmp_path / "data" / f"{name}.mrg").write_text(text, "utf-8")
    folders = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "runs"}
    return {"preset": "english_parser", **folders}


def test_corpora_add_stages_to_the_plan_of_the_english_parser(driver, english_options, tmp_path):
    stages = [stage.name for stage in driver.english_plan(driver.Options(**english_options))]
    assert stages == ["english", "preset"]
    more = {"craft_trees": tmp_path / "data" / "craft.mrg", "sentences": tmp_path / "english.tsv"}
    options = driver.Options(**english_options, **more, supar_python=Path("python"))
    more["sentences"].write_text(
        "ewt\tThis one is left out .\ntatoeba\tToo short.\ntatoeba\tI can't sing :-)\n", "utf-8"
    )
    stages = {stage.name: stage for stage in driver.english_plan(options)}
    assert str(more["craft_trees"]) in stages["english"].command
    assert {"supar.model", "supar.mrg", "english_silver"} <= stages.keys()
    stages["sentences.jsonl"].output.parent.mkdir()
    stages["sentences.jsonl"].command()
    lines = stages["sentences.jsonl"].output.read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [["I", "ca", "n't", "sing", ":--RRB-"]]
    stages["tagged.jsonl"].command()
    (line,) = stages["tagged.jsonl"].output.read_text("utf-8").splitlines()
    words, tags = zip(*json.loads(line))
    assert words == ("I", "ca", "n't", "sing", ":--RRB-") and tags[-1] == "NFP"


@pytest.mark.slow
def test_an_english_parser_is_built_from_end_to_end(driver, english_options, tmp_path):
    options = (
        "--precision float32 --batch-tokens 512 --num-shapes 2 --val-sentences 2 --beam-size 1"
    )
    small = {"steps_scale": 0.0001, "train_options": options, "vocabulary_size": 90}
    more = {"craft_trees": tmp_path / "data" / "craft.mrg"}
    driver.main(driver.Options(**english_options, **more, **small))
    parser = kt.ConstituencyParser.from_preset(tmp_path / "runs" / "english_parser")
    assert (parser.decision, parser.word_tokenizer) == ("consensus", "ewt")


@pytest.mark.slow
def test_a_training_of_the_parser_plan_runs(driver, parser_options, tmp_path):
    options = "--scale 0.25 --precision float32 --batch-tokens 512"
    small = {"steps_scale": 0.0002, "train_options": options, "vocabulary_size": 60}
    driver.main(driver.Options(**parser_options, **small, only="craft"))
    assert (tmp_path / "runs" / "craft" / "model" / "config.json").is_file()


def test_pairs_of_a_teacher_with_findings_are_left_out(driver, tmp_path):
    (tmp_path / "data").mkdir()
    pairs = [
        ("The dog runs.", "O cão corre."),
        ("It costs 517 euros.", "Custa 513 euros."),
        ("Open %s first.", "Abra primeiro."),
        ("He was away.", ""),
        ("It is a very long day.", "É um dia muito longo, um dia muito longo."),
        ("We must enqueue them.", "Devemos engueceitá-los."),  # the least probable
    ]
    with gzip.open(tmp_path / "data" / "english.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"tatoeba\t{source}\n" for source, _ in pairs)
    for language in ("en", "pt"):
        (tmp_path / "data" / f"dev.{language}").write_text("One.\n", "utf-8")
    folders = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "runs"}
    options = driver.Options(preset="en_pt", **folders)
    stages = {stage.name: stage for stage in driver.student_plan(options)}
    driver.run_stage(stages["english.txt"])
    rows = [f"{i}\t{-0.1 * i}\t{x}\n" for i, (_, x) in enumerate(pairs, 1) if x]
    (tmp_path / "runs" / "teacher.tsv").write_text("".join(rows), "utf-8")
    for side, language in enumerate(("en", "pt")):
        driver.run_stage(stages[f"pairs/train.{language}"])
        text = (tmp_path / "runs" / "pairs" / f"train.{language}").read_text("utf-8")
        assert text == f"{pairs[0][side]}\n{pairs[5][side]}\n"
    build = driver.Builder(options)
    assert driver.sound_pairs(build, 0, left_out=0.2) == f"{pairs[0][0]}\n"
    with pytest.raises(kt.UserError, match="needs --teacher"):
        driver.run_stage(stages["teacher.tsv"])
