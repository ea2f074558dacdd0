"""Train a Transformer to parse, as in section 6.3 of "Attention Is All You Need"."""

from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, run, this_command


@dataclass(kw_only=True)
class Corpus:
    """The treebank."""

    dataset: str
    """synthetic, ptb, craft or trees."""
    collapse_unary: bool = False
    """Take unary loops, X over X, out of the training trees; all others are scored as they are."""
    extra_trees: Path | None = None
    """File with more trees to train on, such as another parser's output (section 6.3)."""
    data_dir: Path | None = kt.training.mutable_on_resume(None)
    """Folder that holds the corpus. Without it, a corpus that can be fetched is fetched."""


@dataclass(kw_only=True)
class Options(CommonOptions, kt.parsing.ParserTrainingOptions):
    corpus: Corpus


def main(options):
    training = kt.training.begin_training(options)

    # Data (section 6.3) and batching (5.1)
    train, val, test = (load(options.corpus, split) for split in ("train", "val", "test"))
    pairs = kt.parsing.make_tree_pairs(train, options.trees, load_extra(options.corpus))
    val_pairs = kt.parsing.TreePairs(val, linearization=pairs.linearization)
    tokenizer, symbols = kt.parsing.make_tree_tokenizer(pairs, options, training)
    training = kt.training.check_data(training, pairs, tokenizer, val=val_pairs)
    words = kt.parsing.WordTokenizer(tokenizer)
    first = kt.parsing.constituents_first(pairs, options.trees)
    batches = kt.training.make_batches(pairs, val_pairs, words, options, training, symbols, first)

    # Model (section 3), optimizer (5.3), regularisation (5.4)
    sizes = kt.parsing.parser_hyperparameters(tokenizer, symbols, options.trees)
    model = kt.training.make_model(symbols.vocabulary_size, options, training, **sizes)
    metadata = kt.parsing.parser_metadata(pairs, symbols, options.trees)
    parser = kt.ConstituencyParser(model, tokenizer, metadata)
    quick = kt.parsing.quick_parser(parser, options.parsing)

    # Training (section 5.2)
    some = list(val)[: options.parsing.val_sentences]
    f1 = {"val_f1": lambda: round(kt.parsing.score_trees(quick, some).f1, 2)}
    fitted = kt.training.fit(model, *batches, training, options.fitting, options.checkpoints, f1)

    # Averaging the last checkpoints (section 6.1), and evaluation
    weights = kt.training.average_weights(model, training, options.checkpoints)
    validation = kt.training.validate(model, batches.val)
    scores = [kt.parsing.score_trees(quick, trees) for trees in (some, list(test))]
    facts, lines = report(options, fitted, weights, validation, *scores)

    # Saving
    title = f"Constituency parsing, trained on {train.name}"
    kt.training.save_training(parser, facts, title, lines, options, training, batches, fitted)


def load(corpus, split):
    # Gold trees are what they are, whatever is trained on.
    collapse_unary = corpus.collapse_unary and split == "train"
    return kt.parsing.load_treebank(corpus.dataset, split, corpus.data_dir, collapse_unary)


def load_extra(corpus):
    return corpus.extra_trees and kt.parsing.Treebank.from_file(
        corpus.extra_trees, collapse_unary=corpus.collapse_unary
    )


def report(options, fitted, weights, validation, val_scores, test_scores):
    """Print the scores; returns them as facts, and as lines of the model card."""
    before, after = fitted.history["val_f1"][-1], val_scores.f1
    print(
        f"{val_scores.sentences} of val: F1 {before:.2f} with the last weights, {after:.2f} "
        f"with the {weights}"
    )
    search = f"beam {options.parsing.beam_size}, alpha {options.parsing.alpha}"
    print(f"test, {search}, {weights}:\n{test_scores}")
    print(f"\nF1 of all sentences, error and skip sentences as wrong: {test_scores.strict_f1:.2f}")
    facts = {
        "dataset": options.corpus.dataset,
        "command": this_command(),
        "validation": validation,
        "val_f1_before_averaging": before,
        "val_f1": after,
        "scores": {"test": test_scores.to_dict()},
    }
    return facts, [f"test, {search}: {kt.parsing.describe_evalb(test_scores)}"]


if __name__ == "__main__":
    run(main, Options)
