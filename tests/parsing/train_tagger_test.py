"""`ConstituencyParser.train` with a tagger."""

import numpy as np
import pytest

import keras_transformer as kt
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
        {"tag_loss_weight": 0.5, "precision": "mixed_bfloat16", "accumulate": 2},
        {"tag_loss_weight": 0.5, "num_decoder_layers": 1, "precision": "mixed_bfloat16"},
    ],
    ids=str,
)
def test_a_resumed_training_with_a_tagger_equals_a_whole_one(treebanks, tmp_path, options):
    whole = train(treebanks, tmp_path / "whole", steps=4, **options)
    train(treebanks, tmp_path / "parts", steps=2, **options)
    parts = train(treebanks, tmp_path / "parts", steps=4, resume=True, **options)
    assert all(map(np.array_equal, whole.model.get_weights(), parts.model.get_weights()))
    loaded = kt.ConstituencyParser.from_preset(tmp_path / "parts" / "model")
    assert loaded.model.config.tag_loss_weight == options.get("tag_loss_weight")
    (tree,) = loaded([WORDS])
    assert tree.leaves() == WORDS and tree.pos()[-1] == (".", ".")  # as in the dictionary
    with pytest.raises(kt.UserError, match="Expected: .*tags=.*Received: .*tags=none"):
        train(treebanks, tmp_path / "parts", steps=4, resume=True, tags="none")


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tags": "none", "tag_loss_weight": 1.0}, "requires tags and `deterministic_attention`"),
        (
            {"tag_loss_weight": 1.0, "deterministic_attention": False},
            "requires tags and `determini",
        ),
        ({"tag_loss_weight": 0.0}, "must be a positive number. Received: tag_loss_weight=0.0"),
        ({"tag_loss_weight": float("inf")}, "must be a positive number. Received: .*=inf"),
        ({"tags": "tagger"}, "`tags` must be .*'tagger'"),
    ],
    ids=str,
)
def test_contradicting_options_are_errors(treebanks, tmp_path, options, message):
    with pytest.raises(kt.UserError, match=message):
        train(treebanks, tmp_path, **options)
