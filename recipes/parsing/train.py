"""Train a Transformer to parse, as in section 6.3 of "Attention Is All You Need"."""

from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.tag_dictionary import TagDictionary
from keras_transformer.data.tree_pairs import TreePairs
from keras_transformer.data.tree_symbols import TreeSymbols
from keras_transformer.data.treebanks import Treebank, load_treebank
from keras_transformer.data.trees import most_openings, symbol_inventory, to_bracketed
from keras_transformer.evaluation.evalb import Parameters, evaluate_trees
from keras_transformer.tasks.training_run import TrainingOptions, TrainingRun


@dataclass(kw_only=True)
class Options(TrainingOptions):
    dataset: str
    """synthetic, ptb, craft or trees."""
    keep_tags: bool = True
    """Predict the words' tags. Otherwise one symbol stands for all (Vinyals et al., 2015)."""
    collapse_unary: bool = False
    """Take out unary loops, X over X."""
    extra_trees: Path | None = None
    """File with more trees to train on, such as another parser's output (section 6.3)."""
    extra_ratio: float = 1.0
    """How many of the extra trees there are to be for one of the treebank."""
    constituents: bool = False
    """Train on each constituent as a sentence of its own, too: for small treebanks."""
    vocabulary_size: int = 4000
    """Size of the vocabulary: symbols of trees, and BPE of the words. The paper's: 16000, and 32000
    with extra trees."""
    tag_dictionary: int = 5
    """Words that occur so often may only have their tags of training. 0: any word, any tag."""
    extra_length: int = 300
    """How many tokens longer than its sentence a tree may be (section 6.3)."""
    beam_size: int = 4
    """Live hypotheses of a sentence where trees are scored. `evaluate.py` takes the paper's 21."""
    alpha: float = 0.3
    """Strength of the length penalty (section 6.3)."""
    val_sentences: int = 500
    """How many validation sentences to parse at each interval."""


def main(options):
    training = TrainingRun(options)

    # Data (section 6.3) and batching (5.1)
    train, val, test = (
        load_treebank(options.dataset, split, options.data_dir, options.collapse_unary)
        for split in ("train", "val", "test")
    )
    extra = options.extra_trees and Treebank.from_file(
        options.extra_trees, collapse_unary=options.collapse_unary
    )
    train_pairs = TreePairs(
        train, options.keep_tags, extra, options.extra_ratio, options.constituents
    )
    symbols = symbol_inventory(train, options.keep_tags)
    tokenizer = training.tokenizer(
        (words for words, _ in train_pairs), user_defined_symbols=symbols
    )
    tree_symbols = TreeSymbols(symbols, tokenizer)
    training.plan_batches(train_pairs, TreePairs(val, options.keep_tags), tokenizer, tree_symbols)

    # Model (section 3), optimizer (5.3), regularisation (5.4)
    model = training.build_model(tokenizer.vocabulary_size)
    origin = {
        "dataset": options.dataset,
        "symbols": symbols,
        "max_openings": most_openings(train),
    }
    if options.tag_dictionary and options.keep_tags:
        origin["tag_dictionary"] = TagDictionary.from_trees(train, options.tag_dictionary).to_dict()
    parser = kt.ConstituencyParser(
        model,
        tokenizer,
        origin,
        extra_length=options.extra_length,
        beam_size=options.beam_size,
        alpha=options.alpha,
    )

    def score(trees):
        predicted = parser([tree.leaves() for tree in trees])
        gold = map(to_bracketed, trees)
        return evaluate_trees(gold, map(to_bracketed, predicted), Parameters.named("COLLINS"))

    # Training (section 5.2)
    some = list(val)[: options.val_sentences]
    training.fit(model, "val_f1", lambda: round(score(some).f1, 2))

    # Averaging the last checkpoints (section 6.1), and evaluation
    before = training.history["val_f1"][-1]
    weights = training.average()
    after = score(some).f1
    print(
        f"{len(some)} of val: F1 {before:.2f} with the last weights, {after:.2f} with the {weights}"
    )
    result = score(list(test))
    search = f"beam {options.beam_size}, alpha {options.alpha}"
    print(f"test, {search}, {weights}:\n{result}")

    # Saving
    training.save(
        parser,
        {
            "dataset": options.dataset,
            "val_f1_before_averaging": before,
            "val_f1": after,
            "scores": {"test": result.to_dict()},
        },
        [
            f"Constituency parsing, trained on {options.dataset}",
            f"test, {search}: F1 {result.f1:.2f}, recall {result.recall:.2f}, precision "
            f"{result.precision:.2f}, complete match {result.complete_match:.2f} (EVALB, "
            f"COLLINS.prm; {result.errors} error and {result.skipped} skip sentences)",
        ],
    )


if __name__ == "__main__":
    run(main, Options)
