"""Score a trained parser with EVALB's figures."""

import json
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, ParserSearchOptions, run
from keras_transformer.data.treebanks import load_treebank
from keras_transformer.data.trees import to_bracketed
from keras_transformer.evaluation.evalb import Parameters, evaluate_trees
from keras_transformer.files import beside, whole


@dataclass(kw_only=True)
class Options(ParserSearchOptions, CommonOptions):
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


def main(options):
    parameters = evalb_parameters(options.parameters)
    parser = kt.ConstituencyParser.from_preset(
        options.model,
        max_source_length=None,
        tag_dictionary=options.tag_dictionary,
        constrained=options.constrained,
        **options.search(kt.WordSynchronousBeamSearch),
    )
    gold = list(
        islice(load_treebank(options.dataset, options.split, options.data_dir), options.limit)
    )

    start = time.time()
    parses = list(parser.parse([tree.leaves() for tree in gold]))
    seconds = time.time() - start
    # Only where a model learned too few positions, a tree is missing.
    predicted = [to_bracketed(parse.tree) if parse.tree else "" for parse in parses]
    path = options.trees or beside(options.model, f"{options.split}.trees.txt")
    with whole(path) as new:
        new.write_text("".join(f"{line}\n" for line in predicted), "utf-8")

    scores = evaluate_trees([to_bracketed(tree) for tree in gold], predicted, parameters)
    facts = {**facts_of(parses), "seconds": round(seconds, 1), **settings(options, parser)}
    search = "constrained" if options.constrained else "unconstrained"
    print(f"{search} {parser.search}, {seconds:.0f} s")
    print(f"{facts['repaired_trees']} of {len(parses)} trees repaired: {dict(facts['repairs'])}")
    print(scores)
    if options.output_json:
        with whole(options.output_json) as new:
            new.write_text(json.dumps({**scores.to_dict(), **facts}, indent=2) + "\n", "utf-8")


def facts_of(parses):
    """How many of the trees had to be repaired, and how."""
    repairs = sum((parse.repairs for parse in parses), Counter())
    return {"repaired_trees": sum(bool(parse.repairs) for parse in parses), "repairs": repairs}


def settings(options, parser):
    """What the scores depend on, to be kept beside them."""
    names = ("tag_dictionary", "constrained", "parameters")
    return {**parser.search.get_config(), **{name: getattr(options, name) for name in names}}


def evalb_parameters(name):
    """By name, or from a file."""
    if Path(name).suffix or Path(name).is_file():
        return Parameters.from_file(name)
    return Parameters.named(name)


if __name__ == "__main__":
    run(main, Options)
