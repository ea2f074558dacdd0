"""Parse sentences, one a line, from standard input to trees on standard output."""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, run
from keras_transformer.data.text_files import decode_lines
from keras_transformer.data.trees import to_bracketed


@dataclass(kw_only=True)
class Options(CommonOptions):
    model: Path
    """Model folder, such as runs/x/model."""
    format: Literal["brackets", "pretty", "svg"] = "brackets"
    """Brackets, one tree a line; a drawing of letters; or an SVG picture, one a line."""
    tokenized: bool = False
    """The lines hold words with spaces between them, in the Penn Treebank's spelling. Otherwise
    they are split into words as in the Penn Treebank."""
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


def main(options):
    parser = kt.ConstituencyParser.from_preset(
        options.model,
        beam_size=options.beam_size,
        alpha=options.alpha,
        extra_length=options.extra_length,
        constrained=options.constrained,
        tag_dictionary=options.tag_dictionary,
    )
    draw = FORMATS[options.format]()
    lines = decode_lines(sys.stdin.buffer, "standard input")
    repairs = Counter()
    for parse in parser.parse(map(words_of_line, lines) if options.tokenized else lines):
        # An empty line for a sentence without words.
        print(draw(parse.tree) if parse.tree else "", flush=True)
        repairs += parse.repairs
    if repairs:
        counts = ", ".join(f"{count} {kind}" for kind, count in repairs.most_common())
        print(f"repairs: {counts}", file=sys.stderr)


def words_of_line(line):
    # Other white space than ASCII's belongs to words, as in trees.
    return [word for word in re.split(r"[ \t]+", line) if word]


def letters():
    from nltk.tree.prettyprinter import TreePrettyPrinter

    return lambda tree: TreePrettyPrinter(tree).text()


def svg():
    try:
        import svgling
    except ImportError as error:
        raise ValueError(
            'SVG pictures need svgling: pip install "keras-transformer[svg]".'
        ) from error
    # Letters to an em. Where there is no Times, the font in its place is wider than svgling's 2,
    # and long labels would be cut off.
    return lambda tree: svgling.draw_tree(tree, average_glyph_width=1.5).get_svg().tostring()


# What turns a tree into text.
FORMATS = {"brackets": lambda: to_bracketed, "pretty": letters, "svg": svg}


if __name__ == "__main__":
    run(main, Options)
