"""Parse sentences, one a line, from standard input to trees on standard output."""

import itertools
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import LineNotes, ParserSearchOptions, StreamOptions, run
from keras_transformer.data.trees import to_bracketed
from keras_transformer.data.windows import line_windows


@dataclass(kw_only=True)
class Options(ParserSearchOptions, StreamOptions):
    model: Path
    """Model folder, such as runs/x/model."""
    format: Literal["brackets", "pretty", "svg"] = "brackets"
    """Brackets, one tree a line; a drawing of letters; or an SVG picture, one a line."""
    tokenized: bool = False
    """The lines hold words with spaces between them, in the Penn Treebank's spelling. Otherwise
    they are split into words as in the Penn Treebank."""
    tag_dictionary: bool = True
    """Search among trees whose tags are in the model's tag dictionary only."""
    constrained: bool = True
    """Search among trees only. Otherwise what comes out is repaired, and repairs are counted."""


def main(options):
    parser = kt.ConstituencyParser.from_preset(
        options.model,
        **options.search(kt.WordSynchronousBeamSearch),
        max_source_length=options.max_source_length,
        constrained=options.constrained,
        tag_dictionary=options.tag_dictionary,
    )
    draw = FORMATS[options.format]()
    windows = line_windows(sys.stdin.buffer, "standard input", options.buffer_size)
    if options.tokenized:
        windows = ([words_of_line(line) for line in window] for window in windows)
    repairs, numbers = Counter(), itertools.count(1)
    with LineNotes() as notes:
        for window in parser.parse_windows(windows):
            for parse, number in zip(window, numbers):
                # An empty line for a sentence without words, and for one that is too long.
                print(draw(parse.tree) if parse.tree else "")
                if parse.is_too_long:
                    notes.add("too long for a tree", number)
                repairs += parse.repairs
            sys.stdout.flush()
    if repairs:
        counts = ", ".join(f"{count} {kind}" for kind, count in repairs.most_common())
        print(f"repairs: {counts}", file=sys.stderr)


def words_of_line(line):
    # Other white space than ASCII's belongs to words, as in trees.
    return [word for word in re.split(r"\s+", line, flags=re.ASCII) if word]


def letters():
    from nltk.tree.prettyprinter import TreePrettyPrinter

    return lambda tree: TreePrettyPrinter(tree).text()


def svg():
    try:
        import svgling
    except ImportError as error:
        raise kt.UserError(
            'SVG pictures need svgling: pip install "keras-transformer[svg]".'
        ) from error
    # Letters to an em. Where there is no Times, the font in its place is wider than svgling's 2,
    # and long labels would be cut off.
    return lambda tree: svgling.draw_tree(tree, average_glyph_width=1.5).get_svg().tostring()


# What turns a tree into text.
FORMATS = {"brackets": lambda: to_bracketed, "pretty": letters, "svg": svg}


if __name__ == "__main__":
    run(main, Options)
