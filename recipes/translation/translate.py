"""Translate lines from standard input to standard output."""

import itertools
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import LineNotes, StreamOptions, given, run
from keras_transformer.data.corpora import DATASETS, bleu_tokenize
from keras_transformer.data.text_files import read_lines
from keras_transformer.data.text_lines import line_windows
from keras_transformer.evaluation.bleu import nearest_translation


@dataclass(kw_only=True)
class Options(StreamOptions):
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    tag: tuple[str, ...] | None = None
    """Tags before each source, such as <2fr>, of a model that was trained with them; without any
    after it, each line has its own. Defaults to those that the model was saved with."""
    beam_size: int | None = None
    """Live hypotheses of a sentence (section 6.1). Defaults, as all that follow, to what the model
    was saved with, and to 4 if it was with nothing."""
    alpha: float | None = None
    """Strength of the length penalty. Without the model's own: 0.6."""
    length_penalty: Literal["gnmt", "power"] | None = None
    """((5 + |y|) / 6)^alpha, or |y|^alpha. Without the model's own: gnmt."""
    coverage_penalty: float | None = None
    """Strength of the coverage penalty. Without the model's own: 0."""
    min_length: int | None = None
    """Fewest tokens of a translation, the end token included."""
    extra_length: int | None = None
    """How many tokens longer than its source a translation may be. Without the model's own: 50."""
    n_best: int | None = None
    """Print so many translations of each line: its number, score and translation, tabs between."""
    nearest_to: Path | None = None
    """File with a reference for each line. Print, in place of all `n_best` translations, the one
    that is nearest to it, by sentence BLEU (Kim and Rush, 2016: sequence-level interpolation)."""
    sample: bool = False
    """Draw translations at random, in place of the beam search."""
    temperature: float | None = None
    """With --sample: the higher, the more random."""
    top_k: int | None = None
    """With --sample: draw from this many of the likeliest tokens."""
    top_p: float | None = None
    """With --sample: draw from the likeliest tokens whose probabilities sum up to this."""
    seed: int | None = None
    """With --sample: another seed gives other translations. Defaults to 0."""


# The options of the search: of the beam search, of sampling, and of both.
BEAM = ("beam_size", "alpha", "length_penalty", "coverage_penalty")
SAMPLING = ("temperature", "top_k", "top_p", "seed")
ALWAYS = ("min_length", "extra_length")


def main(options):
    translator = kt.Translator.from_preset(
        options.model,
        max_source_length=options.max_source_length,
        **search_options(options),
    )
    if options.tag is not None:
        translator = translator.tagged(*options.tag)
    num_results = 1 if options.n_best is None else options.n_best
    references = None if options.nearest_to is None else References(options, translator)
    lines = line_windows(sys.stdin.buffer, "standard input", options.buffer_size)
    numbers = itertools.count(1)
    with LineNotes() as notes:
        windows = noted(lines, translator, notes)
        for window in translator.translate_windows(windows, num_results):
            for results, number in zip(window, numbers):
                if references:
                    print(references.nearest(number, results))
                    continue
                if options.n_best is None:
                    # A line for each line, even where the search finds nothing.
                    print(results[0][0] if results else "")
                    continue
                for translation, score in results:
                    print(number, f"{score:.4f}", translation, sep="\t")
            sys.stdout.flush()
    if references:
        references.expect_end()


def noted(windows, translator, notes):
    """The windows as they are, after a note of the lines that are not translated as a whole."""
    number, language, is_warned = 0, translator.language_check(), False
    for window in windows:
        if not is_warned and (message := language.add_all(window)):
            warnings.warn(message, UserWarning, stacklevel=1)
            is_warned = True
        for check in translator.check_sources(window):
            number += 1
            if check.is_cut:
                notes.add(f"cut to {translator.source_limit():,} tokens", number)
            if check.is_unknown:
                notes.add("with nothing that the vocabulary knows", number)
            elif check.has_unknown:
                notes.add("with characters that the vocabulary lacks", number)
        yield window


class References:
    """The lines of the file `nearest_to`, one for each line that is translated."""

    def __init__(self, options, translator):
        if options.n_best is None:
            raise kt.UserError("`nearest_to` chooses among the `n_best` translations: pass both.")
        self.path = options.nearest_to
        lines = read_lines(self.path)
        self._lines = itertools.chain([next(lines)], lines)  # what cannot be read is told now
        dataset = translator.metadata.get("dataset")
        self._tokenize = bleu_tokenize(dataset) if dataset in DATASETS else None
        self._language = translator.metadata.get("target")

    def nearest(self, number, results):
        """Of the results of the line of a number, the translation nearest to its reference."""
        reference = next(self._lines, None)
        if reference is None:
            raise kt.UserError(
                f"{self.path} has {number - 1:,} lines, and standard input has more. "
                "Expected a reference for each line"
            )
        texts = [translation for translation, _ in results]
        if not texts:
            return ""
        return nearest_translation(texts, reference, self._tokenize, self._language)

    def expect_end(self):
        """Tells of references that no line was left for: the lines were others, or cut off."""
        left = sum(1 for _ in self._lines)
        if left:
            raise kt.UserError(
                f"{self.path} has more lines than standard input: left over {left:,}. Expected a "
                "reference for each line; what was printed may be nearest to those of other lines"
            )


def search_options(options):
    """Those that were given; the others are the model's own."""
    others = given(options, *(BEAM if options.sample else SAMPLING))
    if others:
        expected = "without `sample`" if options.sample else "with `sample`"
        names = ", ".join(f"`{name}`" for name in others)
        raise kt.UserError(f"{names}: expected {expected} only.")
    if options.sample:
        return {"search": "random", **given(options, *SAMPLING, *ALWAYS)}
    return given(options, *BEAM, *ALWAYS)


if __name__ == "__main__":
    run(main, Options)
