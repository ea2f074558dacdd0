"""Translate lines from standard input to standard output."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, run
from keras_transformer.data.text_files import decode_lines


@dataclass(kw_only=True)
class Options(CommonOptions):
    model: Path
    """Model folder, such as runs/x/model."""
    beam_size: int = 4
    """Live hypotheses of a sentence (section 6.1)."""
    alpha: float = 0.6
    """Strength of the length penalty."""
    length_penalty: Literal["gnmt", "power"] = "gnmt"
    """((5 + |y|) / 6)^alpha, or |y|^alpha."""
    coverage_penalty: float = 0.0
    """Strength of the coverage penalty."""
    min_length: int = 0
    """Fewest tokens of a translation, the end token included."""
    extra_length: int = 50
    """How many tokens longer than its source a translation may be."""
    n_best: int | None = None
    """Print so many translations of each line: its number, score and translation, tabs between."""
    sample: bool = False
    """Draw translations at random, in place of the beam search."""
    temperature: float = 1.0
    """With --sample: the higher, the more random."""
    top_k: int | None = None
    """With --sample: draw from this many of the likeliest tokens."""
    top_p: float | None = None
    """With --sample: draw from the likeliest tokens whose probabilities sum up to this."""
    seed: int = 0
    """With --sample: another seed gives other translations."""


def main(options):
    translator = kt.Translator.from_preset(
        options.model, extra_length=options.extra_length, **search_options(options)
    )
    lines = decode_lines(sys.stdin.buffer, "standard input")
    if options.n_best is None:
        for translation, _ in translator.translate(lines):
            print(translation)
        return
    for number, results in enumerate(translator.n_best(lines, options.n_best), start=1):
        for translation, score in results:
            print(number, f"{score:.4f}", translation, sep="\t")


def search_options(options):
    if options.sample:
        return {
            "search": kt.sample,
            "temperature": options.temperature,
            "top_k": options.top_k,
            "top_p": options.top_p,
            "seed": options.seed,
            "min_length": options.min_length,
        }
    return {
        "beam_size": options.beam_size,
        "alpha": options.alpha,
        "length_penalty": options.length_penalty,
        "coverage_penalty": options.coverage_penalty,
        "min_length": options.min_length,
    }


if __name__ == "__main__":
    run(main, Options)
