"""The commands for parsing from end to end, on a folder of a few hundred trees."""

import json
from xml.etree import ElementTree

import keras
import pytest
from nltk import Tree

from keras_transformer.data.synthetic import generate
from tests.commands.conftest import call
from tests.helpers import conversation

SIZES = {"train": 300, "val": 8, "test": 10}
# The search of these tests: a short one.
SEARCH = ("--beam-size", "2", "--extra-length", "30")


def train_arguments(data, run):
    return [
        *("--dataset", "trees", "--data-dir", data, "--output-dir", run, "--seed", "3"),
        *("--vocabulary-size", "300", "--batch-tokens", "1024", "--num-shapes", "1"),
        *("--steps", "3", "--interval", "2", "--average", "2", "--val-sentences", "4"),
        *("--extra-length", "30", "--num-layers", "1"),
        *("--extra-trees", data / "silver.mrg", "--extra-ratio", "0.5"),
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The trees, and a run that has been trained on them."""
    folder = tmp_path_factory.mktemp("parsing")
    data, run = folder / "data", folder / "run"
    data.mkdir()
    for split, size in SIZES.items():
        trees = [example.tree for example in generate(split, size)]
        (data / f"{split}.mrg").write_text("".join(f"( {tree} )\n" for tree in trees))
    silver = "(S (NP (DT The) (NN dog)) (VP (VBZ runs)))\n" * 149 + "(S (INTJ (UH Oh)))\n"
    (data / "silver.mrg").write_text(silver)
    with pytest.MonkeyPatch.context() as monkeypatch:
        call(monkeypatch, "train parsing", *train_arguments(data, run))
    return data, run


@pytest.mark.each_backend_long
def test_train_leaves_model_and_scores(trained):
    _, run = trained
    results = json.loads((run / "results.json").read_text())
    assert results["steps"] == 3 and len(results["history"]["val_f1"]) == 2
    assert results["scores"]["test"]["sentences"] == SIZES["test"]
    assert "F1" in (run / "model" / "README.md").read_text()
    metadata = json.loads((run / "model" / "task.json").read_text())["config"]["metadata"]
    tag_dictionary = json.loads((run / "model" / "tag_dictionary.json").read_text())
    assert metadata["word_tokenizer"] == "treebank"
    assert "(S" in metadata["symbols"] and ["."] in tag_dictionary["tag_sets"]
    # What only the silver corpus has.
    assert {"(INTJ", ")INTJ", "(UH)"} < set(metadata["symbols"])
    assert not any("UH" in tags for tags in tag_dictionary["tag_sets"])


def test_evaluate_prints_the_figures_of_evalb(trained, tmp_path, command):
    data, run = trained
    scores = tmp_path / "scores.json"
    arguments = ("--model", run / "model", "--dataset", "trees", "--data-dir", data, *SEARCH)
    printed = command("evaluate parsing", *arguments, "--limit", "5", "--output-json", scores).out
    assert "constrained beam 2" in printed and "0 of 5 trees repaired" in printed
    assert "Bracketing FMeasure" in printed
    assert "of all sentences, error and skip sentences as wrong" in printed
    (facts,) = json.loads(scores.read_text())
    assert facts["strict_f1"] == facts["f1"]
    # EVALB leaves out words by their tags. The model is hardly trained, but the dictionary has the
    # tags of punctuation.
    assert facts["sentences"] == 5 and facts["errors"] == facts["skipped"] == 0
    assert facts["tag_dictionary"] and facts["beam_size"] == 2
    assert len((run / "model.test.trees.txt").read_text().splitlines()) == 5


def test_evaluate_scores_each_width_of_the_beam(trained, tmp_path, command):
    data, run = trained
    arguments = ("--model", run / "model", "--dataset", "trees", "--data-dir", data)
    options = ("--extra-length", "30", "--alpha", "0.5", "--limit", "3")
    results, trees = {}, tmp_path / "trees.txt"
    for widths in (("3", "1"), ("3",), ("1",)):
        to = ("--trees", trees, "--output-json", tmp_path / "scores.json")
        beams = ("--beam-size", *widths)
        printed = command("evaluate parsing", *arguments, *options, *to, *beams).out
        results[widths] = json.loads((tmp_path / "scores.json").read_text()), trees.read_text()
        assert printed.count("Summary") == printed.count("trees repaired") == len(widths)
    (both, first), ((three,), _), ((one,), _) = results.values()
    assert [facts["beam_size"] for facts in both] == [3, 1]
    assert [facts["alpha"] for facts in both] == [0.5, 0.5]
    for facts, alone in zip(both, (three, one)):
        assert {**facts, "seconds": 0} == {**alone, "seconds": 0}
    assert first == results["3",][1]


@pytest.mark.slow
def test_evaluate_scores_the_consensus_of_the_beam(trained, tmp_path, command):
    data, run = trained
    decision = ("--decision", "consensus")
    arguments = ("--model", run / "model", *SEARCH, *decision)
    to = ("--output-json", tmp_path / "scores.json", "--limit", "3")
    treebank = ("--dataset", "trees", "--data-dir", data)
    printed = command("evaluate parsing", *arguments, *treebank, *to).out
    assert "constrained beam 2, alpha 0.3, consensus, " in printed
    (scores,) = json.loads((tmp_path / "scores.json").read_text())
    assert scores["decision"] == "consensus"
    (line,) = command("parse", *arguments, "--format", "json", stdin="He sees.\n").lines
    (parse,) = json.loads(line)["parses"]
    assert 0 < parse["score"] <= 1
    assert Tree.fromstring(parse["tree"]).leaves() == ["He", "sees", "."]


def test_without_the_tag_dictionary_any_word_may_have_any_tag(trained, tmp_path, command):
    data, run = trained
    arguments = ("--model", run / "model", "--dataset", "trees", "--data-dir", data, *SEARCH)
    trees = tmp_path / "trees.txt"
    for option, is_right in (("--tag-dictionary", True), ("--no-tag-dictionary", False)):
        command("evaluate parsing", *arguments, "--limit", "5", option, "--trees", trees)
        tags = [Tree.fromstring(line).pos()[-1] for line in trees.read_text().splitlines()]
        assert (tags == [(".", ".")] * 5) is is_right


def test_evaluate_counts_repairs(trained, command):
    data, run = trained
    arguments = ("--model", run / "model", "--dataset", "trees", "--data-dir", data, *SEARCH)
    printed = command("evaluate parsing", *arguments, "--limit", "3", "--no-constrained").out
    # Hardly trained: not one of the outputs is a tree.
    assert "unconstrained" in printed
    assert "3 of 3 trees repaired: {" in printed


@pytest.mark.parametrize("form", ["brackets", "pretty", "svg"])
def test_parse_prints_every_format(trained, command, form):
    _, run = trained
    arguments = ("--model", run / "model", *SEARCH, "--format", form)
    printed = command("parse", *arguments, stdin="The dog (a pug) runs.\n\nHe sees.\n").out
    if form == "brackets":
        first, empty, last = printed.splitlines()
        assert " ".join(Tree.fromstring(first).leaves()) == "The dog -LRB- a pug -RRB- runs ."
        assert Tree.fromstring(last).leaves() == ["He", "sees", "."] and not empty
    elif form == "pretty":
        assert "dog" in printed and "___" in printed
    else:
        # One document, which a browser opens, with one tree below the other.
        first, last = ElementTree.fromstring(printed).findall("{http://www.w3.org/2000/svg}svg")
        assert "pug" in [*first.itertext()] and "sees" in [*last.itertext()]
        assert float(last.get("y")) == float(first.get("height").removesuffix("px"))


def test_svg_pictures_show_control_characters(trained, command):
    _, run = trained
    arguments = ("--model", run / "model", *SEARCH, "--format", "svg", "--tokenized")
    (picture,) = command("parse", *arguments, stdin="a\x1b[1mb \x00 <&> 🙂\n").lines
    texts = list(ElementTree.fromstring(picture).itertext())
    assert {"a\ufffd[1mb", "\ufffd", "<&>", "🙂"} <= set(texts)


def test_explain_compares_a_tree_with_the_gold_tree(trained, command, tmp_path):
    _, run = trained
    arguments = ("--model", run / "model", *SEARCH, "--output-dir", tmp_path)
    gold = "(S (NP (PRP He)) (VP (VBZ sees)) (. .))"
    printed = command("explain parsing", gold, *arguments).out
    assert printed.startswith("He sees .\n\n(") and "brackets are correct" in printed
    attention = ["encoder.svg", "decoder.svg", "cross.svg"]
    files = sorted(["beam.svg", "comparison.svg", "tree.svg", "parse.html", *attention])
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert "Comparison with the gold tree" in (tmp_path / "parse.html").read_text("utf-8")
    # A gold tree as a treebank has it.
    gold = "( (S (NP-SBJ (PRP He)) (VP (VBZ sees) (NP (-NONE- *))) (. .)) )"
    assert command("explain parsing", gold, *arguments).out.startswith("He sees .\n\n(")
    for wrong, words in (("(A b) (C d)", "Received: 2 trees"), ("(A (-NONE- b))", "only traces")):
        assert words in command.fails("explain parsing", wrong, *arguments)


def test_parse_reads_words(trained, command):
    _, run = trained
    arguments = ("--model", run / "model", *SEARCH, "--tokenized")
    lines = command("parse", *arguments, stdin="He ca n't run.\tnow\nHe\x0b\x0csees\x0b\n").lines
    trees = [*map(Tree.fromstring, lines)]
    assert trees[0].leaves() == ["He", "ca", "n't", "run.", "now"]
    assert trees[1].leaves() == ["He", "sees"]


def test_parse_reads_words_with_tags(trained, command):
    _, run = trained
    arguments = ("--model", run / "model", *SEARCH, "--tagged")
    tree, empty = command("parse", *arguments, stdin="He/PRP sees/VBZ 1/2/NN\n\n").lines
    assert not empty
    assert Tree.fromstring(tree).pos() == [("He", "PRP"), ("sees", "VBZ"), ("1/2", "NN")]
    assert "Received: 'He'" in command.fails("parse", *arguments, stdin="He\n")


def test_given_tags_come_from_the_gold_trees(trained, tmp_path, command):
    data, run = trained
    arguments = ("--model", run / "model", "--dataset", "trees", "--data-dir", data, *SEARCH)
    to = ("--output-json", tmp_path / "scores.json", "--limit", "4")
    command("evaluate parsing", *arguments, *to, "--given-tags")
    (scores,) = json.loads((tmp_path / "scores.json").read_text())
    assert scores["given_tags"] and scores["tagging_accuracy"] == 100 and scores["errors"] == 0


def test_parse_prints_json(trained, command):
    _, run = trained
    arguments = ("--model", run / "model", *SEARCH, "--format", "json", "--num-results", "2")
    more = ("--batch-tokens", "64", "--dtype", "float32")
    lines = command("parse", *arguments, *more, stdin="The dog (ö) runs.\n\nHe sees.\n").lines
    first, empty, last = map(json.loads, lines)
    assert first["words"] == ["The", "dog", "-LRB-", "ö", "-RRB-", "runs", "."]
    assert empty == {"line": 2, "words": [], "parses": [], "is_too_long": False}
    assert last["line"] == 3 and len(last["parses"]) == 2
    assert last["parses"][0]["score"] >= last["parses"][1]["score"]
    for parse in first["parses"] + last["parses"]:
        tree = Tree.fromstring(parse["tree"])
        assert parse["tags"] == [tag for _, tag in tree.pos()] and parse["repairs"] == {}
        spans = [(span["label"], span["end"] - span["start"]) for span in parse["spans"]]
        constituents = tree.subtrees(lambda node: isinstance(node[0], Tree))
        assert spans == [(node.label(), len(node.leaves())) for node in constituents]
        assert parse["spans"][0] == {"start": 0, "end": len(tree.leaves()), "label": tree.label()}


def test_parse_prints_several_trees_per_sentence(trained, command):
    _, run = trained
    arguments = ("--model", run / "model", *SEARCH, "--num-results", "2")
    lines = command("parse", *arguments, stdin="He sees.\n\nHe runs.\n").lines
    rows = [line.split("\t") for line in lines]
    assert [number for number, _, _ in rows] == ["1", "1", "3", "3"]
    assert float(rows[0][1]) >= float(rows[1][1]) and rows[0][2] != rows[1][2]
    assert Tree.fromstring(rows[1][2]).leaves() == ["He", "sees", "."]


def test_paragraphs_are_parsed_sentence_by_sentence(trained, command):
    _, run = trained
    arguments = ("--model", run / "model", *SEARCH, "--split-sentences", "--format", "json")
    text = "He sees. The dog runs!\n\nShe sleeps.\n"
    rows = [json.loads(line) for line in command("parse", *arguments, stdin=text).lines]
    assert [(row["line"], " ".join(row["words"])) for row in rows] == [
        *((1, "He sees ."), (1, "The dog runs !"), (2, ""), (3, "She sleeps .")),
    ]


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--tokenized", "--split-sentences"), "may be set"),
        (("--format", "svg", "--num-results", "2"), "needs --format brackets or --format json"),
        (("--format", "svg", "--num-results", "0"), "needs --format brackets or --format json"),
    ],
)
def test_contradicting_options_are_refused(command, arguments, expected):
    assert expected in command.fails("parse", "--model", "nowhere", *arguments)


def test_sentences_without_a_tree_are_empty_lines(trained, command):
    _, run = trained
    arguments = ("--model", run / "model", *SEARCH, "--max-source-length", "20")
    lines = ["He sees.", "", "He sees. " * 20, "\r", "He sees."]
    result = command("parse", *arguments, "--buffer-size", "2", stdin="\n".join(lines))
    first, *blank, last = result.lines
    assert first == last and Tree.fromstring(first).leaves() == ["He", "sees", "."]
    assert blank == ["", "", ""] and result.err == "too long for a tree: 1 line (3)\n"


@pytest.mark.slow
def test_parse_answers_each_line_of_a_pipe_at_once(trained):
    _, run = trained
    with conversation(
        "-m", "keras_transformer", "parse", "--model", run / "model", *SEARCH
    ) as process:
        for line in (b"He sees.\n", b"\n", b"The dog runs.\n"):
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline().decode()
            leaves = Tree.fromstring(answer).leaves() if answer.strip() else []
            assert answer.endswith("\n")
            assert leaves == line.decode().replace(".", " .").split()
        process.stdin.close()
        assert not process.stdout.read()
    assert process.returncode == 0


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="made by TensorFlow")
def test_an_exported_parser_parses_a_text_of_words(trained, tmp_path, command):
    import tensorflow as tf

    _, run = trained
    path = tmp_path / "saved_model"
    greedy = ("--beam-size", "1", "--alpha", "0")
    command("export parsing", "--model", run / "model", "--output", path, *greedy)
    serve = tf.saved_model.load(str(path)).signatures["serving_default"]
    (tree,) = serve(text=tf.constant(["The dog runs ."]))["tree"].numpy()
    assert Tree.fromstring(tree.decode()).leaves() == ["The", "dog", "runs", "."]


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--dataset", "alien"), "--dataset must be one of"),
        (("--dataset", "craft", "--data-dir", "/nowhere"), "/nowhere"),
    ],
)
def test_bad_input_is_one_line(tmp_path, command, arguments, expected):
    error = command.fails("train parsing", *arguments, "--output-dir", tmp_path / "run")
    (line,) = error.splitlines()
    assert line.startswith("error: ") and expected in line
    assert not (tmp_path / "run" / "model").exists()
