"""Score a translator on five forms of a text: as it is, capitals, titles, typos, no full stop.

The reference has the form of the source (a typo changes the source only), and the scores are
case-sensitive: a translation of capitals should be in capitals. Each form has its own share of
changed sentences, because not every pair has a final full stop or a word for a typo.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.augmentation import FORMS, in_form
from keras_transformer.evaluation import score_translations


@dataclass(kw_only=True)
class Options:
    model: str
    """A preset that translates."""
    sources: Path
    """File of sentences, one per line."""
    references: Path
    """File of their translations, line by line."""
    sentences: int | None = None
    """Score the first sentences only."""
    beam_size: int = 1
    """Hypotheses per sentence; 1 is greedy search."""
    seed: int = 0
    """Seed of the typos."""


def main(options):
    search = kt.BeamSearch(beam_size=options.beam_size)
    translator = kt.Translator.from_preset(options.model, search=search)
    languages = [str(translator.metadata.get(x) or "") for x in ("source", "target")]
    text = kt.data.ParallelText.from_files(options.sources, options.references, *languages)
    pairs = list(text)[: options.sentences]
    print("| form | changed | BLEU | chrF | loss in chrF |\n|---|---|---|---|---|")
    first = None
    for form in (None, *FORMS):
        forms = [changed(form, x, languages, f"{options.seed} {i}") for i, x in enumerate(pairs)]
        sources, references = zip(*forms)
        hypotheses = translator(list(sources))
        scores = score_translations(hypotheses, references, language=languages[1])
        first = first or scores
        share = 100 * sum(x != y for x, y in zip(forms, pairs)) / len(pairs)
        values = f"{scores.bleu:.2f} | {scores.chrf:.2f} | {first.chrf - scores.chrf:.2f}"
        print(f"| {form or 'as it is'} | {share:.0f} % | {values} |", flush=True)
    print(f"\n{len(pairs):,} sentences, BLEU {first.bleu_signature}, chrF {first.chrf_signature}")


def changed(form, pair, languages, seed):
    """Return a pair in a form, or as it is."""
    return in_form(form, pair, languages, random.Random(seed)) if form else pair


if __name__ == "__main__":
    run(main, Options)
