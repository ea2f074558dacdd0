"""Score a trained parser with EVALB's figures."""

import json
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, run
from keras_transformer.data.treebanks import load_treebank
from keras_transformer.data.trees import to_bracketed
from keras_transformer.evaluation.evalb import Parameters, evaluate_trees
from keras_transformer.files import beside, whole


@dataclass(kw_only=True)
class Options(CommonOptions):
    model: Path
    """Model folder, such as runs/x/model."""
    dataset: str
    """synthetic, ptb, craft or trees."""
    data_dir: Path | None = None
    """Folder that holds the treebank."""
    split: str = "test"
    """val or test."""
    parameters: str = "COLLINS"
    """EVALB's parameters: COLLINS, new, nk, or a parameter file."""
    beam_size: int = 21
    """Live hypotheses of a sentence (section 6.3)."""
    alpha: float = 0.3
    """Strength of the length penalty (section 6.3)."""
    extra_length: int = 300
    """How many tokens longer than its sentence a tree may be (section 6.3)."""
    tag_dictionary: bool = True
    """Search among trees whose tags are in the model's tag dictionary only."""
    constrained: bool = True
    """Search among trees only. Otherwise what comes out is repaired, and repairs are counted."""
    limit: int | None = None
    """Score only the first so many sentences."""
    output_json: Path | None = None
    """File for the scores."""
    trees: Path | None = None
    """File for the predicted trees, one a line. Defaults to MODEL.SPLIT.trees.txt, beside it."""


# The options of the search that are kept beside the scores.
SEARCH = ("beam_size", "alpha", "extra_length", "tag_dictionary", "constrained")


def main(options):
    parameters = evalb_parameters(options.parameters)
    parser = kt.ConstituencyParser.from_preset(
        options.model, **{name: getattr(options, name) for name in SEARCH}
    )
    gold = list(
        islice(load_treebank(options.dataset, options.split, options.data_dir), options.limit)
    )

    start = time.time()
    parses = list(parser.parse([tree.leaves() for tree in gold]))
    seconds = time.time() - start
    predicted = [to_bracketed(parse.tree) for parse in parses]
    path = options.trees or beside(options.model, f"{options.split}.trees.txt")
    with whole(path) as new:
        new.write_text("".join(f"{line}\n" for line in predicted), "utf-8")

    scores = evaluate_trees([to_bracketed(tree) for tree in gold], predicted, parameters)
    repairs = sum((parse.repairs for parse in parses), Counter())
    repaired = sum(bool(parse.repairs) for parse in parses)
    search = "constrained" if options.constrained else "unconstrained"
    print(f"{search} beam {options.beam_size}, alpha {options.alpha}, {seconds:.0f} s")
    print(f"{repaired} of {len(parses)} trees repaired: {dict(repairs)}")
    print(scores)
    if options.output_json:
        facts = {
            **scores.to_dict(),
            **{name: getattr(options, name) for name in SEARCH},
            "parameters": options.parameters,
            "repaired_trees": repaired,
            "repairs": dict(repairs),
            "seconds": round(seconds, 1),
        }
        with whole(options.output_json) as new:
            new.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


def evalb_parameters(name):
    """By name, or from a file."""
    if Path(name).suffix or Path(name).is_file():
        return Parameters.from_file(name)
    return Parameters.named(name)


if __name__ == "__main__":
    run(main, Options)
