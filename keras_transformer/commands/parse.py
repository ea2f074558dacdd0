"""The command that parses sentences, and options of a parser."""

import json
import math
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import keras_transformer as kt
from keras_transformer.command_line import LineNotes, StreamOptions, given
from keras_transformer.data.text_lines import line_windows
from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.traversal import CLOSE, LEAF, tagged_words, walk
from keras_transformer.visualization.trees import load_svgling, tree_svg


@dataclass(kw_only=True)
class ParserOptions:
    """Options of every command that loads a parser."""

    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    beam_size: int | None = None
    """Live hypotheses per sentence. Defaults, like `alpha` and `extra_length`, to the value saved
    with the model, or else to that of section 6.3: 21."""
    alpha: float | None = None
    """Strength of the length penalty. Section 6.3: 0.3."""
    extra_length: int | None = None
    """The most tokens by which a tree may be longer than its sentence. Section 6.3: 300."""

    def search(self) -> dict[str, Any]:
        """Return the options that were given a value, as arguments of a `ConstituencyParser`."""
        return given(self, "beam_size", "alpha", "extra_length")


@dataclass(kw_only=True)
class OneTreeOptions(ParserOptions):
    """Options of every command that returns one tree per sentence."""

    decision: Literal["best", "consensus"] | None = None
    """Return the best tree of the beam, or the one that most of them agree on. Defaults to the
    value saved with the model, or else to best."""
    tag_dictionary: bool = True
    """Limit the tags of words to the model's tag dictionary."""
    constrained: bool = True
    """Limit the search to trees. Otherwise outputs are repaired, and repairs are counted."""

    def load(self, **others: Any) -> "kt.ConstituencyParser":
        """Return the parser. `others` are further arguments of `from_preset`."""
        return kt.ConstituencyParser.from_preset(
            self.model,
            constrained=self.constrained,
            tag_dictionary=self.tag_dictionary,
            **self.search(),
            **given(self, "decision"),
            **others,
        )


@dataclass(kw_only=True)
class ParseOptions(OneTreeOptions, StreamOptions):
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
    batch_tokens: int | None = None
    """Largest number of tokens, including padding, that are parsed at once. Defaults to 1024."""
    dtype: Literal["float32", "bfloat16", "mixed_bfloat16", "float16", "mixed_float16"] | None = (
        None
    )
    """Dtype policy of the model. Defaults to the policy it was saved with."""


def parse(options: ParseOptions) -> None:
    """Parse sentences, one per line, from standard input to trees on standard output."""
    _validate(options)
    parser = options.load(
        max_source_length=options.max_source_length, **given(options, "batch_tokens", "dtype")
    )
    lines = line_windows(sys.stdin.buffer, "standard input", options.buffer_size)
    repairs, numbers = Counter(), deque()  # line numbers of the sentences
    windows = _read_sentences(lines, options, numbers)
    num_results = 1 if options.num_results is None else options.num_results
    drawn = []  # trees of the picture, which is written at the end
    with LineNotes() as notes:
        for window in parser.parse_windows(windows, num_results):
            for result in window:
                number = numbers.popleft()
                if options.format == "svg":
                    drawn += [result.tree] if result.tree else []
                else:
                    _print_result(result, number, options)
                if result.is_too_long:
                    notes.add("too long for a tree", number)
                repairs += sum((each.repairs for each in result.others), result.repairs)
            sys.stdout.flush()
    if drawn:
        print(tree_svg(*drawn))
    if repairs:
        counts = ", ".join(f"{count} {kind}" for kind, count in repairs.most_common())
        print(f"repairs: {counts}", file=sys.stderr)


def _validate(options: ParseOptions) -> None:
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


def _read_sentences(
    windows: Iterable[list[str]], options: ParseOptions, numbers: deque[int]
) -> Iterator[list[Any]]:
    """Yield the sentences of windows of lines, and append their line numbers to `numbers`."""
    number, read = 0, str
    if options.tokenized or options.tagged:
        read = _split_tagged_words if options.tagged else _split_words
    for window in windows:
        sentences = []
        for line in window:
            number += 1
            # A blank line is a sentence without words.
            parts = (kt.data.split_sentences(line) if options.split_sentences else [line]) or [""]
            sentences += map(read, parts)
            numbers += [number] * len(parts)
        yield sentences


def _split_words(line: str) -> list[str]:
    # Other white space than ASCII's belongs to words, as in trees.
    return [word for word in re.split(r"\s+", line, flags=re.ASCII) if word]


def _split_tagged_words(line: str) -> list[tuple[str, str]]:
    pairs = []
    for item in _split_words(line):
        word, _, tag = item.rpartition("/")
        if not (word and tag):
            raise kt.UserError(f"`tagged` needs words with tags: dog/NN. Received: {item!r}")
        pairs.append((word, tag))
    return pairs


def _print_result(parse: Any, number: int, options: ParseOptions) -> None:
    """Print a `Parse` of the line with this number."""
    parses = [parse, *parse.others] if parse.tree else []
    draw = kt.visualization.tree_text if options.format == "pretty" else to_bracketed
    if options.format == "json":
        values = {
            "line": number,
            "words": [word for word, _ in tagged_words(parse.tree)] if parse.tree else [],
            "parses": list(map(_to_json, parses)),
            "is_too_long": parse.is_too_long,
        }
        print(json.dumps(values, ensure_ascii=False))
    elif options.num_results is None:
        # Print an empty line for a sentence that has no words or is too long.
        print(draw(parse.tree) if parse.tree else "")
    else:
        for each in parses:
            print(number, f"{each.score:.4f}", draw(each.tree), sep="\t")


def _to_json(parse: Any) -> dict[str, Any]:
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
