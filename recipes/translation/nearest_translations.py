"""Choose among several translations of each line the one that is nearest to its reference.

Standard input has the rows that `keras-transformer translate --n-best N` prints. A model that
trains on the chosen translations learns from both another model and people: the sequence-level
interpolation of Kim and Rush (2016). Translations are compared by BLEU of one sentence: n-grams
longer than it do not count, and counts of 0 are smoothed.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.text_files import decode_lines, read_lines
from keras_transformer.evaluation import bleu_tokenizer, validate_tokenizer


@dataclass(kw_only=True)
class Options:
    references: Path
    """File with one reference per translated line."""
    language: str | None = None
    """Language of the translations."""
    tokenize: str | None = None
    """sacreBLEU's tokenizer, such as none for tokenized text. Defaults to the language's own."""


def main(options: Options) -> None:
    tokenize = options.tokenize or bleu_tokenizer(options.language)
    validate_tokenizer(tokenize, options.language)
    bleu = BLEU(tokenize=tokenize, force=tokenize == "none", effective_order=True)
    references = list(read_lines(options.references))
    translations = read_translations(len(references))
    for number, reference in enumerate(references, start=1):
        # The first of equally near ones is the likeliest. A blank line has no translation.
        scores = {x: bleu.sentence_score(x, [reference]).score for x in translations[number]}
        print(max(scores, key=scores.__getitem__, default=""))


def read_translations(num_references: int) -> dict[int, list[str]]:
    """Return the translations of standard input, best first, by the number of their line."""
    translations = defaultdict(list)
    for line in decode_lines(sys.stdin.buffer, "standard input"):
        cells = line.split("\t", 2)
        if len(cells) != 3 or not cells[0].isdecimal():
            raise kt.UserError(
                "Expected rows of a number, a score and a translation, as translate --n-best "
                f"prints them. Received: {line!r}"
            )
        translations[int(cells[0])].append(cells[2])
    if max(translations, default=0) > num_references:
        raise kt.UserError(
            "`references` must have one line per translated line. Received: "
            f"{num_references:,} references and translations of line {max(translations):,}"
        )
    return translations


if __name__ == "__main__":
    run(main, Options)
