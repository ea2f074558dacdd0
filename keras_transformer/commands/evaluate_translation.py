"""Score a trained model on a test set with sacreBLEU: BLEU, chrF, chrF++ and TER."""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, given
from keras_transformer.data.corpora import bleu_tokenize, load_parallel_text
from keras_transformer.data.text_files import read_lines, uncompressed_name
from keras_transformer.evaluation import (
    compare_translations,
    make_metrics,
    score_translations,
    validate_lengths,
)
from keras_transformer.files import atomic_write, check_writable, sibling_path


@dataclass(kw_only=True)
class Options(CommonOptions):
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    dataset: str | None = None
    """multi30k, multi30k.lc.norm.tok, tatoeba, wmt14, text, catalogs or synthetic."""
    sources: Path | None = None
    """Instead of --dataset: file of the sources, one per line. --references names their references.
    """
    data_dir: Path | None = None
    """Folder that holds the corpus. Without it, the corpus is downloaded if it can be."""
    split: str = "test"
    """val or test. For text, the part of any two files' names before the language. No split is held
    out of a training text: its files must exist."""
    source: str | None = None
    """Language to translate from. Defaults to the model's."""
    target: str | None = None
    """Language to translate into. Defaults to the model's."""
    tag: tuple[str, ...] | None = None
    """Tags before each source. Defaults to the tags that the model was saved with, and to <2TARGET>
    with --target and a model that was trained with --tag-target."""
    beam_size: int | None = None
    """Live hypotheses per sentence (section 6.1). For greedy search, pass 1 and --alpha 0. This
    option and the next three default to the search that the model was saved with. Without a saved
    search: 4."""
    alpha: float | None = None
    """Strength of the length penalty. Without a saved search: 0.6."""
    length_penalty: Literal["gnmt", "power"] | None = None
    """((5 + |y|) / 6)^alpha, or |y|^alpha. Without a saved search: gnmt."""
    coverage_penalty: float | None = None
    """Strength of the coverage penalty. Without a saved search: 0."""
    tokenize: str | None = None
    """sacreBLEU's tokenizer. Defaults to none for a tokenized corpus, otherwise by the language:
    zh, ja-mecab, ko-mecab, flores200 for other languages without spaces, else 13a."""
    references: tuple[Path, ...] = ()
    """Files with references, in addition to the corpus's: line N is for sentence N."""
    against: Path | None = None
    """File with another system's translations, compared by paired bootstrap resampling."""
    output_json: Path | None = None
    """JSON file for the scores."""
    hypotheses: Path | None = None
    """File for the translations, one per line. Defaults to MODEL.SPLIT.hypotheses.txt, with the
    name of the sources' file for SPLIT."""


# The options of the search.
SEARCH = ("beam_size", "alpha", "length_penalty", "coverage_penalty")


def main(options: Options) -> None:
    check_corpus(options)
    dataset, split = options.dataset or "", options.split
    if options.sources is not None:
        split = uncompressed_name(options.sources)
    path = options.hypotheses or sibling_path(options.model, f"{split}.hypotheses.txt")
    check_writable("hypotheses", path)
    if options.output_json:
        check_writable("output_json", options.output_json)
    translator = kt.Translator.from_preset(options.model, **given(options, *SEARCH))
    search = translator.search.get_config()  # stored with the scores
    translator, languages = direction(translator, options)
    source, target = languages
    if options.sources is not None:
        sources, references, tokenize = [*read_lines(options.sources)], [], None
    else:
        where = dataset, split, source, target, options.data_dir
        sources, *references = zip(*load_parallel_text(*where, hold_out=False))
        tokenize = bleu_tokenize(dataset)
    references += [list(read_lines(path)) for path in options.references]
    how = references, options.tokenize or tokenize, target
    # Errors in these are raised before the search.
    make_metrics(*how[1:])
    others = None if options.against is None else [*read_lines(options.against)]
    validate_lengths(sources if others is None else others, references)

    hypotheses = translator(sources, split=None)
    scores = score_translations(hypotheses, *how)
    print(", ".join(f"{name} {value}" for name, value in search.items()))
    print(scores)
    copied = kt.evaluation.score_placeholders(sources, hypotheses)
    if copied.num_placeholders:
        print(copied)
    from keras_transformer.translation.checks import count_findings  # which imports Keras

    findings = count_findings(translator.check(sources, hypotheses, split=None))
    named = ", ".join(f"{kind} {count:,}" for kind, count in findings.items() if count)
    print(f"translations with findings of `check`: {named or 'none'}")
    with atomic_write(path) as new:
        new.write_text("".join(f"{line}\n" for line in hypotheses), "utf-8")
    print(f"The translations are in {path}.")
    if options.output_json:
        with atomic_write(options.output_json) as new:
            facts = {
                **scores.to_dict(),
                "placeholders": copied.to_dict(),
                "findings": findings,
                **search,
            }
            new.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    if others is not None:
        print(*compare_translations(hypotheses, others, *how), sep="\n")


def check_corpus(options):
    """Raise a `UserError` unless the options name one corpus or two files."""
    if (options.dataset is None) == (options.sources is None):
        raise kt.UserError(
            "Pass either `dataset`, or `sources` and `references`. Received: "
            f"dataset={options.dataset}, sources={options.sources}"
        )
    if options.sources is not None and not options.references:
        raise kt.UserError("`references` must name at least one file for `sources`.")


def direction(translator, options):
    """Return the translator with the tags of the options, and the languages to score."""
    metadata = translator.metadata
    languages = tuple(getattr(options, side) or metadata.get(side) for side in ("source", "target"))
    if not all(languages):
        raise kt.UserError(
            "The model does not say which languages it translates: pass `source` and `target`."
        )
    if options.tag is not None:
        return translator.tagged(*options.tag), languages
    sides = {f"{side}_lang": getattr(options, side) for side in ("source", "target")}
    selected = {name: code for name, code in sides.items() if code in translator.languages(name)}
    known = tuple(metadata.get(side) for side in ("target", "source"))
    if languages == known and not selected:
        warnings.warn(
            f"The model translates {known[1]} to {known[0]}, and is scored the other way round: "
            f"`source={languages[0]}`, `target={languages[1]}`.",
            UserWarning,
            stacklevel=1,
        )
    return translator.in_languages(**selected), languages
