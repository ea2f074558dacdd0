"""Write silver trees: per sentence, the consensus of a parser's beam and another parser's tree."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import keras_transformer as kt
from keras_transformer.command_line import run


@dataclass(kw_only=True)
class Options:
    model: str
    """The preset of a parser: a folder or a name."""
    trees: Path
    """The other parser's trees of the sentences to parse."""
    weight: float = 0.4
    """Weight of the other parser's tree. The trees of the beam share the rest by probability."""
    beam_size: int = 8


def main(options):
    # Without a length penalty a tree's score is its log-probability.
    parser = kt.ConstituencyParser.from_preset(
        options.model, beam_size=options.beam_size, alpha=0, decision="best"
    )
    others = [*kt.parsing.Treebank.from_file(options.trees)]
    parses = parser.parse([tree.leaves() for tree in others], num_results=options.beam_size)
    for other, parse in zip(others, parses, strict=True):
        if parse.tree:
            found = [parse, *parse.others]
            probabilities = np.exp([x.score - parse.score for x in found])
            shares = (1 - options.weight) * probabilities / probabilities.sum()
            trees, weights = [*(x.tree for x in found), other], [*shares, options.weight]
            tree, _ = kt.parsing.consensus(trees, weights)
            print(f"( {kt.parsing.to_bracketed(tree)} )")


if __name__ == "__main__":
    run(main, Options)
