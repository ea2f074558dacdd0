"""Train a Transformer to parse, as in section 6.3 of "Attention Is All You Need"."""

from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, this_command


@dataclass(kw_only=True)
class Corpus:
    """The treebank."""

    dataset: str
    """synthetic, ptb, craft or trees."""
    collapse_unary: bool = False
    """Remove unary loops, X over X, from the training trees. Other splits are scored unchanged."""
    extra_trees: Path | None = None
    """File with more trees to train on, such as another parser's output (section 6.3)."""
    data_dir: Path | None = kt.training.mutable_on_resume(None)
    """Folder that holds the corpus. Without it, the corpus is downloaded if possible."""


@dataclass(kw_only=True)
class Options(CommonOptions, kt.parsing.ParserTrainingOptions):
    corpus: Corpus


def main(options: Options) -> None:
    from keras_transformer.parsing.train_parser import train_parser

    train, val, test = (load(options.corpus, split) for split in ("train", "val", "test"))
    _, report = train_parser(
        *(kt.ConstituencyParser, train, val, load_extra(options.corpus), test),
        options=options,
        dataset=options.corpus.dataset,
        command=this_command(),
    )
    print(report)


def load(corpus, split):
    # Validation and test trees are never changed.
    collapse_unary = corpus.collapse_unary and split == "train"
    return kt.parsing.load_treebank(corpus.dataset, split, corpus.data_dir, collapse_unary)


def load_extra(corpus):
    return corpus.extra_trees and kt.parsing.Treebank.from_file(
        corpus.extra_trees, collapse_unary=corpus.collapse_unary
    )
