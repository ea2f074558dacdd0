"""`ConstituencyParser.train` with a tagger."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.synthetic import generate
from keras_transformer.parsing.train_parser import make_tree_pairs
from keras_transformer.parsing.trees import LABELLED_BRACKETS
from tests.parsing.small_trees import trees

SMALL = {
    **{"vocabulary_size": 300, "num_layers": 1, "scale": 0.25, "batch_tokens": 512},
    **{"num_shapes": 1, "interval": 2, "average": 2, "seed": 3},
    **{"beam_size": 1, "extra_length": 30, "val_sentences": 2},
}
WORDS = ["The", "dog", "runs", "."]


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    for split, some in (("train", trees()[:120]), ("val", trees()[120:126])):
        (folder / f"{split}.mrg").write_text("".join(f"{tree}\n" for tree in some))
    return [kt.parsing.Treebank.from_file(folder / f"{split}.mrg") for split in ("train", "val")]


def train(treebanks, folder, **options):
    return kt.ConstituencyParser.train(*treebanks, **{**SMALL, "output_dir": folder, **options})


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"tags": "tagger", "tag_loss_weight": 0.5, "precision": "mixed_bfloat16", "accumulate": 2},
        {"tag_loss_weight": 0.5, "decoder": "ssru", "precision": "mixed_bfloat16"},
    ],
    ids=str,
)
def test_stopped_and_resumed_is_the_same_training(treebanks, tmp_path, options):
    whole = train(treebanks, tmp_path / "whole", steps=4, **options)
    train(treebanks, tmp_path / "parts", steps=2, **options)
    parts = train(treebanks, tmp_path / "parts", steps=4, resume=True, **options)
    assert all(map(np.array_equal, whole.model.get_weights(), parts.model.get_weights()))
    assert whole.has_tagger is (options.get("tags") == "tagger")
    loaded = kt.ConstituencyParser.from_preset(tmp_path / "parts" / "model")
    assert loaded.model.config.tag_loss_weight == options.get("tag_loss_weight")
    (tree,) = loaded([WORDS])
    assert tree.leaves() == WORDS and tree.pos()[-1] == (".", ".")  # as in the dictionary
    with pytest.raises(kt.UserError, match="Expected: .*tags=.*Received: .*tags=none"):
        train(treebanks, tmp_path / "parts", steps=4, resume=True, tags="none")


def test_the_vocabulary_has_one_symbol_more(treebanks, tmp_path):
    parser = train(treebanks, tmp_path, steps=1, interval=1, tags="tagger")
    of_trees = {symbol for tree in treebanks[0] for symbol in LABELLED_BRACKETS.linearize(tree)[1]}
    assert set(parser.symbols.symbols) == of_trees | {"(XX)"}


@pytest.mark.slow
def test_learns_trees_and_their_tags(tmp_path):
    texts = {"train": generate("train", 2000), "val": generate("val", 30)}
    for split, examples in texts.items():
        (tmp_path / f"{split}.mrg").write_text("".join(f"{x.tree}\n" for x in examples))
    train_trees, val = (
        kt.parsing.Treebank.from_file(tmp_path / f"{split}.mrg") for split in ("train", "val")
    )
    options = {"num_layers": 2, "scale": 0.5, "batch_tokens": 1024, "dropout": 0.0, "steps": 200}
    options |= {"warmup_steps": 60, "peak_learning_rate": 0.004, "interval": 200, "average": 1}
    # Any word may have any tag.
    parser = train((train_trees, val), tmp_path / "run", tags="tagger", tag_dictionary=0, **options)
    gold = list(val)
    scores = kt.parsing.score_trees(parser, gold)
    assert scores.f1 > 75 and scores.tagging_accuracy > 90


@pytest.mark.once
def test_the_earlier_name_of_no_tags(treebanks):
    for options in ({"tags": "none"}, {"keep_tags": False}, {"tags": "none", "keep_tags": False}):
        tree_options = kt.parsing.TreeOptions(**options)
        pairs = make_tree_pairs(treebanks[1], tree_options)
        assert {x for x in pairs.survey.symbols if x[-1] == ")" and x[0] == "("} == {"(XX)"}


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tags": "tagger", "keep_tags": False}, '`keep_tags=False` means `tags="none"`'),
        (
            {"tags": "tagger", "deterministic_attention": False},
            "requires `deterministic_attention`",
        ),
        ({"tags": "none", "tag_loss_weight": 1.0}, "requires tags and `deterministic_attention`"),
        (
            {"tag_loss_weight": 1.0, "deterministic_attention": False},
            "requires tags and `determini",
        ),
        ({"tag_loss_weight": 0.0}, "must be a positive number. Received: tag_loss_weight=0.0"),
        ({"tag_loss_weight": float("inf")}, "must be a positive number. Received: .*=inf"),
        ({"tags": "taggers"}, "`tags` must be .*'taggers'"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(treebanks, tmp_path, options, message):
    with pytest.raises(kt.UserError, match=message):
        train(treebanks, tmp_path, **options)
