import ast
import os
import sys
import tempfile
from pathlib import Path

import pytest

from keras_transformer.data import corpora
from keras_transformer.data.corpora import load_parallel_text
from keras_transformer.data.synthetic.corpus import generate
from keras_transformer.data.synthetic.english import english_text
from keras_transformer.parsing import treebanks
from keras_transformer.parsing.brackets import parse_trees, to_bracketed
from keras_transformer.parsing.treebanks import TREEBANKS, Treebank, load_treebank

pytestmark = pytest.mark.once

SPLITS = ("train", "val", "test")


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for stem, text in texts.items():
        (folder / f"{stem}.mrg").write_text(text)
    return folder


def brackets(treebank: Treebank) -> list[str]:
    return [to_bracketed(tree) for tree in treebank]


def error_of(*args, **kwargs) -> str:
    with pytest.raises(ValueError) as error:
        load_treebank(*args, **kwargs)
    message = str(error.value)
    assert "\n" not in message
    return message


# A treebank


def test_each_pass_yields_the_cleaned_trees(tmp_path):
    write(tmp_path, train="( (NP-SBJ (NP-1 (NN a)) (NP (-NONE- *))) )\n(S (NN b))\n")
    treebank = load_treebank("trees", "train", tmp_path)
    assert brackets(treebank) == brackets(treebank) == ["(NP (NP (NN a)))", "(S (NN b))"]
    assert len(treebank) == 2 and treebank.num_left_out == 0
    assert repr(treebank) == "<Treebank trees train: 2 trees>"


def test_fingerprint_is_of_all_trees_in_order(tmp_path):
    prints = set()
    for text in (
        "(S (NN a)) (S (NN b))",
        "( (S (NN a)))(S (NN b))",
        "(S (NN b)) (S (NN a))",
        "(S (NN a))",
    ):
        write(tmp_path, train=text)
        prints.add(load_treebank("trees", "train", tmp_path).fingerprint())
    assert len(prints) == 3


def test_files_are_read_once(tmp_path):
    write(tmp_path, train="( (S (NN a\u2028\x85)) )\n(S (NN b))\n")
    treebank = load_treebank("trees", "train", tmp_path)
    (tmp_path / "train.mrg").unlink()
    first, second = iter(treebank), iter(treebank)
    assert next(first) == next(second)
    assert brackets(treebank) == ["(S (NN a\u2028\x85))", "(S (NN b))"]
    assert len(treebank) == len(list(treebank)) == 2


@pytest.mark.skipif(os.name != "posix", reason="elsewhere the file has a name while it is open")
def test_a_killed_process_could_leave_no_temporary_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    treebank = Treebank("x", "train", lambda: parse_trees(["(S (NN a))"]))
    assert len(treebank) == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("folder", "message"),
    [("/dev/full", "No space left on device"), ("/nowhere", "No such file or directory")],
)
def test_a_full_or_missing_temporary_folder_names_tmpdir(folder, message, monkeypatch):
    if folder == "/dev/full":
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open(folder, "w+b"))
    monkeypatch.setattr(tempfile, "tempdir", folder)
    with pytest.raises(ValueError, match=f"{message}. Set TMPDIR"):
        Treebank("x", "train", lambda: parse_trees(["(S (NN a))"]))


def test_from_file_reads_one_file(tmp_path):
    write(tmp_path, a="(TOP (S (NN a)))")
    treebank = Treebank.from_file(tmp_path / "a.mrg", "silver")
    assert (treebank.name, treebank.split) == ("silver", "train")
    assert brackets(treebank) == ["(S (NN a))"]


def test_trees_with_only_traces_are_left_out_and_counted(tmp_path):
    write(tmp_path, train="(S (NN a))\n( (S (-NONE- *)) )\n(S (NN b))", test="(S (-NONE- *))")
    treebank = load_treebank("trees", "train", tmp_path)
    assert brackets(treebank) == ["(S (NN a))", "(S (NN b))"]
    assert (len(treebank), treebank.num_left_out) == (2, 1)
    assert repr(treebank) == "<Treebank trees train: 2 trees, 1 without words left out>"
    assert "'test' of trees has no tree with words" in error_of("trees", "test", tmp_path)


def test_fingerprint_depends_on_cleaned_trees_only(tmp_path):
    texts = ["(S (NN a))(S (NN b))", "(S (NN b))(S (NN a))", "(S (NN a))(S (NNS b))"]
    prints = [
        Treebank.from_file(write(tmp_path, a=text) / "a.mrg").fingerprint()
        for text in [*texts, "( (S-X\n (NN a)))\n\n(TOP (S (NN b)))"]
    ]
    assert len(set(prints)) == 3 and prints[0] == prints[3] and len(prints[0]) == 64


# Treebanks by name


@pytest.mark.parametrize("below", ["", "trees"])
def test_trees_are_read_from_a_folder_with_dev_as_val(tmp_path, below):
    folder = write(tmp_path / below, **{split: f"(S (NN {split}))" for split in SPLITS})
    for split in SPLITS:
        assert brackets(load_treebank("trees", split, tmp_path)) == [f"(S (NN {split}))"]
    (folder / "val.mrg").rename(folder / "dev.mrg")
    assert brackets(load_treebank("trees", "val", tmp_path)) == ["(S (NN val))"]


@pytest.mark.parametrize("below", ["", "ewt"])
def test_ewt_chooses_and_scores_on_dev(tmp_path, below):
    write(tmp_path / below, train="(TOP (NN train))", dev="(TOP (NN dev))", test="(")
    words = [load_treebank("ewt", split, tmp_path)._read_lines() for split in SPLITS]
    assert [list(lines) for lines in words] == [["(NN train)"], ["(NN dev)"], ["(NN dev)"]]


@pytest.mark.parametrize("below", ["", "craft"])
def test_craft_holds_out_its_last_articles(tmp_path, below):
    article = "( (TITLE (NN a{0})) )\n( (S (NN b{0})) )\n( (S (TITLE (NN c{0}))) )\n"
    train = "".join(article.format(number) for number in range(5))
    write(tmp_path / below, train=train, dev=article.format("d"))
    words = {
        split: [tree.leaves()[0] for tree in load_treebank("craft", split, tmp_path)]
        for split in SPLITS
    }
    assert words["train"] == ["a0", "b0", "c0", "a1", "b1", "c1"]
    assert words["val"] == ["a2", "b2", "c2", "a3", "b3", "c3", "a4", "b4", "c4"]
    assert words["test"] == ["ad", "bd", "cd"]


def test_craft_without_enough_articles_has_no_training_trees(tmp_path):
    write(tmp_path, train="( (S (NN a)) )\n(TITLE (NN b))\n(UH c)\n")
    assert brackets(load_treebank("craft", "val", tmp_path)) == [
        "(S (NN a))",
        "(TITLE (NN b))",
        "(UH c)",
    ]
    assert "'train' of craft has no tree with words" in error_of("craft", "train", tmp_path)


def test_penn_treebank_splits_are_in_the_order_of_files(tmp_path):
    for number in range(1, 200):
        write(tmp_path / "mrg", **{f"wsj_{number:04}": f"( (S-1 (CD {number})) )"})
    words = [[tree.leaves()[0] for tree in load_treebank("ptb", s, tmp_path)] for s in SPLITS]
    assert [len(split) for split in words] == [159, 20, 20]
    assert [*words[0], *words[1], *words[2]] == [str(number) for number in range(1, 200)]


def test_synthetic_trees_are_over_the_sentences_of_the_translation_corpus(monkeypatch):
    examples = {"val": tuple(generate("val", 40))}
    for module in (corpora, treebanks):
        monkeypatch.setattr(module, "built_in_corpus", lambda: examples)
    treebank = load_treebank("synthetic", "val", data_dir="/no/such/folder")
    assert len(treebank) == 40
    # The corpus for translation has the same sentences in the same order.
    pairs = load_parallel_text("synthetic", "val")
    for tree, (english, _) in zip(treebank, pairs):
        assert english_text(to_bracketed(tree)) == english
    assert {tree.label() for tree in treebank} == {"S"}
    assert treebank.fingerprint() == load_treebank("synthetic", "val").fingerprint()


# Bad input


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (("ctb", "train"), ["`dataset` must be one of synthetic, ptb, craft, ewt, trees", "'ctb'"]),
        (("synthetic", "dev"), ["`split` must be one of train, val, test", "split='dev'"]),
        (("craft", "val"), ["craft needs `data_dir`", "train.mrg", "github.com"]),
        (("craft", "test"), ["craft needs `data_dir`", "dev.mrg"]),
        (("ewt", "test"), ["ewt needs `data_dir`", "dev.mrg", "github.com"]),
        (("trees", "val"), ["trees needs `data_dir`", "val.mrg (or dev.mrg)"]),
        (("ptb", "val"), ["ptb needs `data_dir`", "wsj_0001.mrg"]),
    ],
)
def test_unknown_datasets_splits_and_folders_are_errors(arguments, parts):
    message = error_of(*arguments)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("dataset", sorted(TREEBANKS.keys() - {"synthetic"}))
def test_missing_folders_and_files_are_errors(tmp_path, dataset):
    message = error_of(dataset, "train", tmp_path / "nowhere")
    assert "`data_dir`" in message and str(tmp_path / "nowhere") in message
    message = error_of(dataset, "train", tmp_path)
    assert "not found in" in message and str(tmp_path) in message


def test_damaged_file_is_reported_at_once(tmp_path):
    write(tmp_path, train="(S (NN a))\n(S (NN b)\n")
    message = error_of("trees", "train", tmp_path)
    assert f"{tmp_path / 'train.mrg'}, line 2:" in message
    write(tmp_path, test="")
    assert "test.mrg is empty" in error_of("trees", "test", tmp_path)


# The real treebanks

CORPORA = os.environ.get("KERAS_TRANSFORMER_DATA")
needs_corpora = pytest.mark.skipif(
    not CORPORA, reason="set KERAS_TRANSFORMER_DATA to the folder that holds craft/ and ptb_sample/"
)


@needs_corpora
@pytest.mark.parametrize(
    "dataset, split, size",
    [
        ("ptb", "train", 3_396),
        ("ptb", "val", 273),
        ("ptb", "test", 245),
        ("craft", "test", 2_780),
        ("ewt", "test", 1_967),
    ],
)
def test_real_treebanks_have_their_known_sizes(dataset, split, size):
    treebank = load_treebank(dataset, split, CORPORA)
    assert (len(treebank), treebank.num_left_out) == (size, 0)


@needs_corpora
def test_craft_holds_out_980_trees():
    path = Path(CORPORA, "craft", "train.mrg")
    # The file has one tree per line, and articles begin with a TITLE.
    lines = path.read_text().rstrip("\n").split("\n")
    starts = [n for n, line in enumerate(lines) if line.startswith("( (TITLE")]
    assert len(lines) - starts[-3] == 980  # as words_test.py reads them


# Imports

MODULES = ("treebanks", "brackets", "traversal", "linearization", "tree_consensus")


@pytest.mark.parametrize("module", MODULES)
def test_importing_needs_only_keras_and_the_standard_library(module):
    roots = set()
    for node in ast.parse(Path(treebanks.__file__).with_stem(module).read_text()).body:
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add(node.module.partition(".")[0])
    assert roots <= sys.stdlib_module_names | {"keras", "keras_transformer"}
