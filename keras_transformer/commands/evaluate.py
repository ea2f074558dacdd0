"""The commands that score a model on a test set, and given translations."""

import dataclasses
import json
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import tyro

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, LineNotes, given
from keras_transformer.commands.parse import OneTreeOptions
from keras_transformer.commands.translate import (
    PenaltyOptions,
    PrecisionOptions,
    TranslatorOptions,
    note_findings,
)
from keras_transformer.data.corpora import bleu_tokenize, load_parallel_text
from keras_transformer.data.text_files import aligned_lines, read_lines, uncompressed_name
from keras_transformer.data.text_lines import in_windows
from keras_transformer.evaluation import (
    compare_translations,
    make_metrics,
    score_translations,
    validate_lengths,
)
from keras_transformer.files import atomic_write, check_writable, sibling_path
from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.evalb import Parameters, evaluate_trees
from keras_transformer.parsing.traversal import tagged_words
from keras_transformer.parsing.treebanks import load_treebank
from keras_transformer.translation.checks import count_findings
from keras_transformer.validation import positive_integer


@dataclass(kw_only=True)
class EvaluateTranslationOptions(PenaltyOptions, CommonOptions):
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
    """Live hypotheses per sentence (section 6.1). For greedy search, pass 1 and --alpha 0. Defaults
    to the search that the model was saved with. Without a saved search: 4."""
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


def evaluate_translation(options: EvaluateTranslationOptions) -> None:
    """Score a translator on a test set with sacreBLEU: BLEU, chrF, chrF++ and TER."""
    _validate_corpus(options)
    split = options.split if options.sources is None else uncompressed_name(options.sources)
    path = options.hypotheses or sibling_path(options.model, f"{split}.hypotheses.txt")
    check_writable("hypotheses", path)
    if options.output_json:
        check_writable("output_json", options.output_json)
    translator = kt.Translator.from_preset(
        options.model, **given(options, "beam_size"), **options.penalties()
    )
    search = translator.search.get_config()  # stored with the scores
    translator, (source, target) = in_direction(translator, options)
    sources, references, tokenize = _read_corpus(options, source, target)
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
    findings = count_findings(translator.check_translations(sources, hypotheses, split=None))
    named = ", ".join(f"{kind} {count:,}" for kind, count in findings.items() if count)
    print(f"translations with findings of `check`: {named or 'none'}")
    _write_lines(path, hypotheses)
    print(f"The translations are in {path}.")
    if options.output_json:
        facts = {"placeholders": copied.to_dict(), "findings": findings, **search}
        _write_json(options.output_json, {**scores.to_dict(), **facts})
    if others is not None:
        print(*compare_translations(hypotheses, others, *how), sep="\n")


def _read_corpus(
    options: EvaluateTranslationOptions, source: str, target: str
) -> tuple[Sequence[str], Sequence[Sequence[str]], str | None]:
    """Return the sources, the lists of references, and the corpus's tokenizer of sacreBLEU."""
    more: list[Sequence[str]] = [[*read_lines(path)] for path in options.references]
    if options.sources is not None:
        return [*read_lines(options.sources)], more, None
    name = options.dataset or ""
    text = load_parallel_text(name, options.split, source, target, options.data_dir, hold_out=False)
    sources, *references = zip(*text)
    return sources, [*references, *more], bleu_tokenize(name)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as new:
        new.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _write_json(path: Path, values: Any) -> None:
    with atomic_write(path) as new:
        new.write_text(json.dumps(values, indent=2) + "\n", "utf-8")


def _validate_corpus(options: EvaluateTranslationOptions) -> None:
    """Raise a `UserError` unless the options name one corpus or two files."""
    if (options.dataset is None) == (options.sources is None):
        raise kt.UserError(
            "Pass either `dataset`, or `sources` and `references`. Received: "
            f"dataset={options.dataset}, sources={options.sources}"
        )
    if options.sources is not None and not options.references:
        raise kt.UserError("`references` must name at least one file for `sources`.")


def in_direction(
    translator: "kt.Translator", options: EvaluateTranslationOptions
) -> tuple["kt.Translator", tuple[Any, ...]]:
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


@dataclass(kw_only=True)
class EvaluateParsingOptions(OneTreeOptions, CommonOptions):
    dataset: str
    """synthetic, ptb, craft, ewt or trees."""
    data_dir: Path | None = None
    """Folder that holds the treebank."""
    split: str = "test"
    """val or test."""
    parameters: str = "COLLINS"
    """EVALB's parameters: COLLINS, new, nk, or a parameter file."""
    beam_size: tuple[int, ...] | None = None
    """Beam size, or several to score one after the other. Like `alpha` and `extra_length`, it
    defaults to the model's own option, and to section 6.3's 21 if the model has none."""
    given_tags: bool = False
    """Give the tags of the gold trees to the parser."""
    limit: int | None = None
    """Number of sentences to score, from the first on. Defaults to all."""
    output_json: Path | None = None
    """JSON file for the scores: a list with one item per beam size."""
    trees: Path | None = None
    """File for the trees of the first beam size, one per line. Defaults to MODEL.SPLIT.trees.txt,
    next to the model."""


def evaluate_parsing(options: EvaluateParsingOptions) -> None:
    """Score a parser on a treebank with EVALB's figures."""
    path = options.trees or sibling_path(options.model, f"{options.split}.trees.txt")
    check_writable("trees", path)
    if options.output_json:
        check_writable("output_json", options.output_json)
    parameters = _evalb_parameters(options.parameters)
    if options.limit is not None:
        positive_integer("limit", options.limit)
    treebank = load_treebank(options.dataset, options.split, options.data_dir)
    gold = list(islice(treebank, options.limit))
    sentences = [_read_words(tree, options.given_tags) for tree in gold]
    results = []
    for beam_size in options.beam_size or (None,):
        parser = dataclasses.replace(options, beam_size=beam_size).load(max_source_length=None)
        start = time.time()
        parses = list(parser.parse(sentences))
        seconds = time.time() - start
        # A tree is missing only if the model learned too few positions.
        predicted = [to_bracketed(parse.tree) if parse.tree else "" for parse in parses]
        scores = evaluate_trees([to_bracketed(tree) for tree in gold], predicted, parameters)
        num_repaired = sum(bool(parse.repairs) for parse in parses)
        repairs = sum((parse.repairs for parse in parses), Counter())
        search = "constrained" if options.constrained else "unconstrained"
        print(f"{search} {parser.search}, {parser.decision}, {seconds:.0f} s")
        print(f"{num_repaired} of {scores.sentences} trees repaired: {dict(repairs)}")
        print(scores)
        print(f"\nF1 of all sentences, error and skip sentences as wrong: {scores.strict_f1:.2f}\n")
        if not results:
            _write_lines(path, predicted)
        facts = {"repaired_trees": num_repaired, "repairs": repairs, "seconds": round(seconds, 1)}
        results.append({**scores.to_dict(), **facts, **_parser_settings(options, parser)})
    if options.output_json:
        _write_json(options.output_json, results)


def _read_words(tree: Any, with_tags: bool) -> list:
    words = tagged_words(tree)
    return words if with_tags else [word for word, _ in words]


def _parser_settings(
    options: EvaluateParsingOptions, parser: "kt.ConstituencyParser"
) -> dict[str, Any]:
    """Return the settings on which the scores depend."""
    names = ("tag_dictionary", "given_tags", "constrained", "parameters")
    settings = {name: getattr(options, name) for name in names}
    return {**parser.search.get_config(), "decision": parser.decision, **settings}


def _evalb_parameters(name: str) -> Parameters:
    """Return EVALB's parameters, by name or from a file."""
    if Path(name).suffix or Path(name).is_file():
        return Parameters.from_file(name)
    return Parameters.named(name)


@dataclass(kw_only=True)
class ScoreOptions(TranslatorOptions, PrecisionOptions, PenaltyOptions, CommonOptions):
    sources: tyro.conf.Positional[Path]
    """File with one source per line."""
    translations: tyro.conf.Positional[Path]
    """File whose line N is the translation of line N."""
    check: bool = False
    """Also name the lines, on standard error, where something seems missing, repeated or changed.
    """


def score_lines(options: ScoreOptions) -> None:
    """Score given translations: the search's score and the perplexity of each line."""
    translator = options.load(**options.precision(), **options.penalties())
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
