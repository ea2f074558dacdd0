"""Score given translations: the search's score and the perplexity of each line, tab-separated."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, LineNotes, given
from keras_transformer.data.text_files import aligned_lines
from keras_transformer.data.text_lines import in_windows


@dataclass(kw_only=True)
class Options(CommonOptions):
    sources: tyro.conf.Positional[Path]
    """File with one source per line."""
    translations: tyro.conf.Positional[Path]
    """File whose line N is the translation of line N."""
    model: str
    """Model folder, such as runs/x/model, a name that `keras-transformer list` prints, or
    hf://user/repository."""
    source_lang: str | None = None
    """Language of the sources, by the model's code, for a model with several."""
    target_lang: str | None = None
    """Language of the translations, by the model's code, for a model with several."""
    dtype: str | None = None
    """Dtype policy of the model, such as bfloat16. Defaults to the policy it was saved with."""
    quantization: Literal["int8"] | None = None
    """Quantize the weights."""
    tag: tuple[str, ...] | None = None
    """Tags before each source. Defaults to the tags that the model was saved with."""
    alpha: float | None = None
    """Strength of the length penalty. Without a saved search: 0.6."""
    length_penalty: Literal["gnmt", "power"] | None = None
    """((5 + |y|) / 6)^alpha, or |y|^alpha. Without a saved search: gnmt."""
    coverage_penalty: float | None = None
    """Strength of the coverage penalty. Without a saved search: 0."""
    check: bool = False
    """Also name the lines, on standard error, where something seems missing, repeated or changed.
    """


def main(options: Options) -> None:
    translator = kt.Translator.from_preset(
        options.model,
        **given(options, "source_lang", "target_lang", "dtype", "quantization"),
        **given(options, "alpha", "length_penalty", "coverage_penalty"),
    )
    if options.tag is not None:
        translator = translator.tagged(*options.tag)
    log_probs, number = [], 1
    with LineNotes() as notes:
        for window in in_windows(aligned_lines(options.sources, options.translations)):
            sources, translations = map(list, zip(*window))
            for score in translator.score(sources, translations):
                print(f"{score.score:.4f}\t{score.perplexity:.4f}", flush=True)
                log_probs += score.token_log_probs
            if options.check:
                note_findings(notes, translator, sources, translations, number)
            number += len(window)
    if log_probs:
        perplexity = math.exp(-math.fsum(log_probs) / len(log_probs))
        print(f"perplexity {perplexity:.4f} of {len(log_probs):,} tokens", file=sys.stderr)


def note_findings(notes, translator, sources, translations, first_number, **how):
    """Note the lines whose translations have findings, by the kinds of the findings."""
    from keras_transformer.translation.checks import KINDS

    for number, check in enumerate(translator.check(sources, translations, **how), first_number):
        for kind in dict.fromkeys(finding.kind for finding in check.findings):
            notes.add(KINDS[kind], number)
