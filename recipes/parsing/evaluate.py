"""Score a trained parser with EVALB's figures."""

import dataclasses
import json
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, OneTreeOptions, run
from keras_transformer.files import atomic_write, check_writable, sibling_path
from keras_transformer.parsing.evalb import Parameters, evaluate_trees
from keras_transformer.parsing.treebanks import load_treebank
from keras_transformer.parsing.trees import tagged_words, to_bracketed
from keras_transformer.validation import positive_integer


@dataclass(kw_only=True)
class Options(OneTreeOptions, CommonOptions):
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    dataset: str
    """synthetic, ptb, craft or trees."""
    data_dir: Path | None = None
    """Folder that holds the treebank."""
    split: str = "test"
    """val or test."""
    parameters: str = "COLLINS"
    """EVALB's parameters: COLLINS, new, nk, or a parameter file."""
    beam_size: tuple[int, ...] | None = None
    """Live hypotheses of a sentence: one width or several, each of which is scored. Defaults, as
    `alpha` and `extra_length`, to what the model was saved with, and to section 6.3's if it was
    with nothing: 21."""
    tag_dictionary: bool = True
    """Search among trees whose tags are in the model's tag dictionary only."""
    given_tags: bool = False
    """Tell the parser the tags of the gold trees."""
    constrained: bool = True
    """Search among trees only. Otherwise what comes out is repaired, and repairs are counted."""
    limit: int | None = None
    """Score only the first so many sentences."""
    output_json: Path | None = None
    """File for the scores: a list, an item for each width of the beam."""
    trees: Path | None = None
    """File for the trees that the first width predicts, one a line. Defaults to
    MODEL.SPLIT.trees.txt, beside the model."""


def main(options):
    path = options.trees or sibling_path(options.model, f"{options.split}.trees.txt")
    check_writable("trees", path)
    if options.output_json:
        check_writable("output_json", options.output_json)
    parameters = evalb_parameters(options.parameters)
    if options.limit is not None:
        positive_integer("limit", options.limit)
    gold = list(
        islice(load_treebank(options.dataset, options.split, options.data_dir), options.limit)
    )
    results = []
    for beam_size in options.beam_size or (None,):
        parser = load(dataclasses.replace(options, beam_size=beam_size))
        scores, facts, predicted = parse_and_score(parser, gold, parameters, options.given_tags)
        facts |= settings(options, parser)
        tell(options, parser, scores, facts)
        if not results:
            with atomic_write(path) as new:
                new.write_text("".join(f"{line}\n" for line in predicted), "utf-8")
        results.append({**scores.to_dict(), **facts})
    if options.output_json:
        with atomic_write(options.output_json) as new:
            new.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


def load(options):
    """The parser with the search that the options describe, of one width."""
    return kt.ConstituencyParser.from_preset(
        options.model,
        max_source_length=None,
        tag_dictionary=options.tag_dictionary,
        constrained=options.constrained,
        **options.search(kt.parsing.WordSynchronousBeamSearch),
    )


def parse_and_score(parser, gold, parameters, given_tags=False):
    """The scores of the parser's trees, other facts of them, and the trees in brackets."""
    start = time.time()
    sentences = [*map(tagged_words, gold)]
    if not given_tags:
        sentences = [[word for word, _ in words] for words in sentences]
    parses = list(parser.parse(sentences))
    seconds = time.time() - start
    # Only where a model learned too few positions, a tree is missing.
    predicted = [to_bracketed(parse.tree) if parse.tree else "" for parse in parses]
    scores = evaluate_trees([to_bracketed(tree) for tree in gold], predicted, parameters)
    return scores, {**facts_of(parses), "seconds": round(seconds, 1)}, predicted


def tell(options, parser, scores, facts):
    """Print the scores and what belongs to them."""
    search = "constrained" if options.constrained else "unconstrained"
    print(f"{search} {parser.search}, {parser.decision}, {facts['seconds']:.0f} s")
    repairs = dict(facts["repairs"])
    print(f"{facts['repaired_trees']} of {scores.sentences} trees repaired: {repairs}")
    print(scores)
    print(f"\nF1 of all sentences, error and skip sentences as wrong: {scores.strict_f1:.2f}\n")


def facts_of(parses):
    """How many of the trees had to be repaired, and how."""
    repairs = sum((parse.repairs for parse in parses), Counter())
    return {"repaired_trees": sum(bool(parse.repairs) for parse in parses), "repairs": repairs}


def settings(options, parser):
    """What the scores depend on, to be kept beside them."""
    names = ("tag_dictionary", "given_tags", "constrained", "parameters")
    told = {name: getattr(options, name) for name in names}
    return {**parser.search.get_config(), "decision": parser.decision, **told}


def evalb_parameters(name):
    """By name, or from a file."""
    if Path(name).suffix or Path(name).is_file():
        return Parameters.from_file(name)
    return Parameters.named(name)


if __name__ == "__main__":
    run(main, Options)
