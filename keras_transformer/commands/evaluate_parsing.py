"""Score a trained parser with EVALB's figures."""

import dataclasses
import json
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, OneTreeOptions
from keras_transformer.files import atomic_write, check_writable, sibling_path
from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.evalb import Parameters, evaluate_trees
from keras_transformer.parsing.traversal import tagged_words
from keras_transformer.parsing.treebanks import load_treebank
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
    """Beam size, or several to score one after the other. Like `alpha` and `extra_length`, it
    defaults to the model's own option, and to section 6.3's 21 if the model has none."""
    tag_dictionary: bool = True
    """Limit the tags of words to the model's tag dictionary."""
    given_tags: bool = False
    """Give the tags of the gold trees to the parser."""
    constrained: bool = True
    """Limit the search to trees. Otherwise outputs are repaired, and repairs are counted."""
    limit: int | None = None
    """Number of sentences to score, from the first on. Defaults to all."""
    output_json: Path | None = None
    """JSON file for the scores: a list with one item per beam size."""
    trees: Path | None = None
    """File for the trees of the first beam size, one per line. Defaults to MODEL.SPLIT.trees.txt,
    next to the model."""


def main(options: Options) -> None:
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
        print_scores(options, parser, scores, facts)
        if not results:
            with atomic_write(path) as new:
                new.write_text("".join(f"{line}\n" for line in predicted), "utf-8")
        results.append({**scores.to_dict(), **facts})
    if options.output_json:
        with atomic_write(options.output_json) as new:
            new.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


def load(options):
    """Return the parser with the search of the options, for one beam size."""
    return kt.ConstituencyParser.from_preset(
        options.model,
        max_source_length=None,
        tag_dictionary=options.tag_dictionary,
        constrained=options.constrained,
        **options.search(),
    )


def parse_and_score(parser, gold, parameters, given_tags=False):
    """Return the scores of the parser's trees, further facts, and the trees in brackets."""
    start = time.time()
    sentences = [*map(tagged_words, gold)]
    if not given_tags:
        sentences = [[word for word, _ in words] for words in sentences]
    parses = list(parser.parse(sentences))
    seconds = time.time() - start
    # A tree is missing only if the model learned too few positions.
    predicted = [to_bracketed(parse.tree) if parse.tree else "" for parse in parses]
    scores = evaluate_trees([to_bracketed(tree) for tree in gold], predicted, parameters)
    return scores, {**facts_of(parses), "seconds": round(seconds, 1)}, predicted


def print_scores(options, parser, scores, facts):
    """Print the scores with the search, the time and the repairs."""
    search = "constrained" if options.constrained else "unconstrained"
    print(f"{search} {parser.search}, {parser.decision}, {facts['seconds']:.0f} s")
    repairs = dict(facts["repairs"])
    print(f"{facts['repaired_trees']} of {scores.sentences} trees repaired: {repairs}")
    print(scores)
    print(f"\nF1 of all sentences, error and skip sentences as wrong: {scores.strict_f1:.2f}\n")


def facts_of(parses):
    """Return the number of repaired trees, and of repairs by kind."""
    repairs = sum((parse.repairs for parse in parses), Counter())
    return {"repaired_trees": sum(bool(parse.repairs) for parse in parses), "repairs": repairs}


def settings(options, parser):
    """Return the settings on which the scores depend."""
    names = ("tag_dictionary", "given_tags", "constrained", "parameters")
    told = {name: getattr(options, name) for name in names}
    return {**parser.search.get_config(), "decision": parser.decision, **told}


def evalb_parameters(name):
    """Return EVALB's parameters, by name or from a file."""
    if Path(name).suffix or Path(name).is_file():
        return Parameters.from_file(name)
    return Parameters.named(name)
