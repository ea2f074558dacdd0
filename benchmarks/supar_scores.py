"""Train SuPar's chart parser on a treebank, and score its trees by our EVALB.

    python benchmarks/supar_scores.py --dataset ewt --data-dir data --output-dir runs/supar \\
        --supar-python supar/bin/python --epochs 50

SuPar's parser reads words and characters, and no tags. Tags decide only which words EVALB deletes.
They are gold, or with `--tagger` the tags of one of our parsers. An existing model is not trained
again.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import run

_PEER = Path(__file__).with_name("supar_peer.py")


@dataclass(kw_only=True)
class Options:
    dataset: str
    """ewt, craft, ptb or trees."""
    data_dir: Path
    """Folder that holds the treebank."""
    output_dir: Path
    """Folder for SuPar's files: train.pid, val.pid, supar.model, and predicted.mrg."""
    supar_python: Path
    """A Python with `pip install supar==1.1.4 torch==2.13.0`."""
    epochs: int = 50
    """Epochs of the training. SuPar keeps the model of the best epoch on `val`."""
    supar_options: str = "{}"
    """SuPar's other options, as JSON."""
    split: str = "test"
    """The split to score, val or test."""
    threads: int = 2
    """Number of threads that parse."""
    tagger: Path | None = None
    """A parser of ours that tags the words. Defaults to gold tags."""
    limit: int | None = None
    """Number of trees to train on and to score, for a trial. Defaults to all."""


def main(options):
    folder = options.output_dir
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{split}.pid" for split in ("train", "val")]
    model = folder / "supar.model"
    # An absolute path that is not resolved: the `python` of a virtual environment is a link.
    peer = [str(options.supar_python.absolute()), str(_PEER)]
    if not model.exists():
        for path in files:
            lines = [f"({kt.parsing.to_bracketed(tree)})\n" for tree in trees(options, path.stem)]
            path.write_text("".join(lines), "utf-8")
        arguments = [*map(str, (*files, model, options.epochs)), options.supar_options]
        subprocess.run([*peer, "train", *arguments], check=True)
    gold = trees(options, options.split)
    sentences = [tree.pos() for tree in gold]
    if options.tagger is not None:
        words = [tree.leaves() for tree in gold]
        tags = kt.ConstituencyParser.from_preset(options.tagger).tag(words)
        sentences = [[*zip(*pair)] for pair in zip(words, tags)]
    predicted = subprocess.run(
        [*peer, "trees", str(model), str(options.threads), "all"],
        input="".join(json.dumps(sentence) + "\n" for sentence in sentences),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    ).stdout
    (folder / "predicted.mrg").write_text(predicted, "utf-8")
    collins = kt.parsing.Parameters.named("COLLINS")
    # Without the bracket around each tree, which the gold trees do not have either.
    lines = [line.removeprefix("( ").removesuffix(")") for line in predicted.splitlines()]
    scores = kt.parsing.evaluate_trees(map(kt.parsing.to_bracketed, gold), lines, collins)
    print(scores)
    print(f"\nF1 of all sentences, error and skip sentences as wrong: {scores.strict_f1:.2f}")


def trees(options, split):
    treebank = kt.parsing.load_treebank(options.dataset, split, options.data_dir)
    return [*treebank][: options.limit]


if __name__ == "__main__":
    run(main, Options)
