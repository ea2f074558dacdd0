"""Parse sentences, one per line, from standard input to trees on standard output."""

import json
import math
import re
import sys
from collections import Counter, deque
from dataclasses import dataclass
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import LineNotes, OneTreeOptions, StreamOptions, given
from keras_transformer.data.text_lines import line_windows
from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.traversal import CLOSE, LEAF, tagged_words, walk
from keras_transformer.visualization.trees import load_svgling, trees_svg


@dataclass(kw_only=True)
class Options(OneTreeOptions, StreamOptions):
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    format: Literal["brackets", "pretty", "svg", "json"] = "brackets"
    """Brackets, one tree per line; a drawing in text; one SVG picture of all trees, below one
    another; or JSON, one line per sentence, with its trees, spans, tags, scores and repairs."""
    tokenized: bool = False
    """Read words separated by spaces, in the spelling of the model's treebank. Otherwise lines are
    split into words by the rules of that treebank."""
    tagged: bool = False
    """Read words with their tags: `The/DT dog/NN runs/VBZ ./.`. The trees have these tags."""
    split_sentences: bool = False
    """Split lines, which are paragraphs in English, into sentences, each with its own tree."""
    num_results: int | None = None
    """Number of trees per sentence. In brackets, each line then has the number of the sentence's
    line, the score and the tree, separated by tabs. More than one are results of the beam, without
    a consensus."""
    tag_dictionary: bool = True
    """Limit the tags of words to the model's tag dictionary."""
    constrained: bool = True
    """Limit the search to trees. Otherwise outputs are repaired, and repairs are counted."""
    batch_tokens: int | None = None
    """Largest number of tokens, including padding, that are parsed at once. Defaults to 1024."""
    dtype: Literal["float32", "bfloat16", "mixed_bfloat16", "float16", "mixed_float16"] | None = (
        None
    )
    """Dtype policy of the model. Defaults to the policy it was saved with."""


def main(options: Options) -> None:
    check(options)
    parser = kt.ConstituencyParser.from_preset(
        options.model,
        **options.search(),
        **given(options, "batch_tokens", "dtype"),
        max_source_length=options.max_source_length,
        constrained=options.constrained,
        tag_dictionary=options.tag_dictionary,
    )
    drawn = []  # trees of the picture, which is written at the end
    write = writer(options, drawn)
    lines = line_windows(sys.stdin.buffer, "standard input", options.buffer_size)
    repairs, numbers = Counter(), deque()  # line numbers of the sentences
    windows = sentences_of(lines, options, numbers)
    num_results = 1 if options.num_results is None else options.num_results
    with LineNotes() as notes:
        for window in parser.parse_windows(windows, num_results):
            for parse in window:
                number = numbers.popleft()
                write(parse, number)
                if parse.is_too_long:
                    notes.add("too long for a tree", number)
                repairs += sum((each.repairs for each in parse.others), parse.repairs)
            sys.stdout.flush()
    if drawn:
        print(trees_svg(drawn))
    if repairs:
        counts = ", ".join(f"{count} {kind}" for kind, count in repairs.most_common())
        print(f"repairs: {counts}", file=sys.stderr)


def check(options):
    forms = ("tokenized", "tagged", "split_sentences")
    if sum(getattr(options, name) for name in forms) > 1:
        raise kt.UserError(
            "Only one of `tokenized`, `tagged` and `split_sentences` may be set. "
            f"Received: {', '.join(n for n in forms if getattr(options, n))}"
        )
    if options.num_results is not None and options.format in ("pretty", "svg"):
        raise kt.UserError(
            "`num_results` needs `format=brackets` or `format=json`. "
            f"Received: `format={options.format}`"
        )
    if options.format == "svg":
        load_svgling()  # raises an error for a missing package before anything is parsed


def sentences_of(windows, options, numbers):
    """Yield the sentences of windows of lines, and append their line numbers to `numbers`."""
    number, read = 0, str
    if options.tokenized or options.tagged:
        read = tagged_words_of_line if options.tagged else words_of_line
    for window in windows:
        sentences = []
        for line in window:
            number += 1
            # A blank line is a sentence without words.
            parts = (kt.data.split_sentences(line) if options.split_sentences else [line]) or [""]
            sentences += map(read, parts)
            numbers += [number] * len(parts)
        yield sentences


def words_of_line(line):
    # Other white space than ASCII's belongs to words, as in trees.
    return [word for word in re.split(r"\s+", line, flags=re.ASCII) if word]


def tagged_words_of_line(line):
    pairs = []
    for item in words_of_line(line):
        word, _, tag = item.rpartition("/")
        if not (word and tag):
            raise kt.UserError(f"`tagged` needs words with tags: dog/NN. Received: {item!r}")
        pairs.append((word, tag))
    return pairs


def facts(parse):
    """Return a `Parse` as JSON values. A span has the words from `start` to `end - 1`."""
    spans, around, num_words = [], [], 0
    for step, node in walk(parse.tree):
        if step == LEAF:
            num_words += 1
        elif step == CLOSE:
            around.pop()["end"] = num_words
        else:
            spans.append({"start": num_words, "end": None, "label": node.label()})
            around.append(spans[-1])
    return {
        "score": parse.score if math.isfinite(parse.score) else None,
        "tree": to_bracketed(parse.tree),
        "tags": [tag for _, tag in tagged_words(parse.tree)],
        "spans": spans,
        "repairs": parse.repairs,
    }


def writer(options, drawn):
    """Return a function that prints a `Parse` with its line number, or adds its tree to `drawn`."""
    draw = FORMATS.get(options.format, str)

    def write_json(parse, number):
        parses = [parse, *parse.others] if parse.tree else []
        words = [word for word, _ in tagged_words(parse.tree)] if parse.tree else []
        values = {"line": number, "words": words, "parses": list(map(facts, parses))}
        print(json.dumps({**values, "is_too_long": parse.is_too_long}, ensure_ascii=False))

    def write_n_best(parse, number):
        for each in [parse, *parse.others] if parse.tree else []:
            print(number, f"{each.score:.4f}", draw(each.tree), sep="\t")

    def write_tree(parse, number):
        # Print an empty line for a sentence that has no words or is too long.
        print(draw(parse.tree) if parse.tree else "")

    def add_tree(parse, number):
        if parse.tree:
            drawn.append(parse.tree)

    if options.format == "json":
        return write_json
    if options.format == "svg":
        return add_tree
    return write_tree if options.num_results is None else write_n_best


# Functions from a tree to text.
FORMATS = {"brackets": to_bracketed, "pretty": lambda tree: kt.visualization.tree_text(tree)}
