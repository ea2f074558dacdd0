"""The command that translates sentences, lines and files, and options of a translator."""

import itertools
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import keras_transformer as kt
from keras_transformer.command_line import LineNotes, StreamOptions, given
from keras_transformer.data.text_lines import line_windows
from keras_transformer.documents.document import Document
from keras_transformer.documents.file_translation import (
    FORMATS,
    read_document,
    translate_file,
    validate_target,
)
from keras_transformer.translation.checks import KINDS
from keras_transformer.translation.prepared_text import PreparedText


@dataclass(kw_only=True)
class TranslatorOptions:
    """Options of every command that loads a translator."""

    model: str
    """Model folder, such as runs/x/model; a name that `keras-transformer list` prints; or
    hf://user/repository. Models of Marian, M2M-100, FSMT and CTranslate2 are converted, and kept in
    the user's cache. `keras-transformer convert --help` names the forms that were tried."""
    source_lang: str | None = None
    """Language to translate from, by the model's code, for a model with several."""
    target_lang: str | None = None
    """Language to translate into, by the model's code, for a model with several."""
    tag: tuple[str, ...] | None = None
    """Tags before each source, such as <2fr>, for a model that was trained with them. Without tags
    after it, each line contains its own. Defaults to the tags that the model was saved with."""

    shortlist: bool = True
    """Score only the candidates of the model's shortlist, if it has one. This is faster."""

    def load(self, **others: Any) -> "kt.Translator":
        """Return the translator. `others` are further arguments of `Translator.from_preset`."""
        languages = given(self, "source_lang", "target_lang")
        translator = kt.Translator.from_preset(self.model, **languages, **others)
        if not self.shortlist:
            translator.shortlist = None
        return translator if self.tag is None else translator.tagged(*self.tag)


@dataclass(kw_only=True)
class PrecisionOptions:
    """Options of the numbers that a model computes with."""

    dtype: str | None = None
    """Dtype policy of the model, such as bfloat16. Defaults to the policy it was saved with."""
    quantization: Literal["int8"] | None = None
    """Quantize the weights."""

    def precision(self) -> dict[str, Any]:
        """Return the options that were given a value."""
        return given(self, "dtype", "quantization")


@dataclass(kw_only=True)
class PenaltyOptions:
    """Penalties of the score of a translation."""

    alpha: float | None = None
    """Strength of the length penalty. Defaults, like the next two options, to the search that the
    model was saved with. Without a saved search: 0.6."""
    length_penalty: Literal["gnmt", "power"] | None = None
    """((5 + |y|) / 6)^alpha, or |y|^alpha. Without a saved search: gnmt."""
    coverage_penalty: float | None = None
    """Strength of the coverage penalty. Without a saved search: 0."""

    def penalties(self) -> dict[str, Any]:
        """Return the options that were given a value."""
        return given(self, "alpha", "length_penalty", "coverage_penalty")


@dataclass(kw_only=True)
class TranslateOptions(TranslatorOptions, PrecisionOptions, PenaltyOptions, StreamOptions):
    sentences: tyro.conf.Positional[tuple[str, ...]] = ()
    """Sentences to translate. Defaults to the lines of standard input. With -o: the file."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File to write, for the translation of a file with the same ending, such as .txt, .md, .html,
    .srt, .vtt, .po, .xliff or .docx. (A .pot becomes a .po.) Structure, markup and times are kept.
    Of .po and .xliff, only messages without a translation are translated, and marked for review. An
    interrupted run continues with the same options."""
    encoding: str | None = None
    """With -o: the encoding of a text file that declares none. Defaults to UTF-8."""
    split: Literal["preset", "sentences", "lines", "none"] = "preset"
    """Translate a text sentence by sentence, line by line, or as it is. The model's preset says
    what it was trained on: sentences, unless it says otherwise."""
    markup: Literal["html", "markdown"] | None = None
    """Markup of the texts, which is kept. Defaults to plain text, in which placeholders, addresses
    and inline tags are kept."""
    protect: tuple[str, ...] = ()
    """Regular expressions of further parts that are not translated, all after one --protect. The
    names i18next and laravel stand for the placeholders of these libraries."""
    beam_size: int | None = None
    """Live hypotheses per sentence (section 6.1). Defaults to the search that the model was saved
    with. Without a saved search: 4."""
    min_length: int | None = None
    """Smallest number of tokens of a translation, including the end token."""
    extra_length: int | None = None
    """Number of tokens by which a translation may exceed its source. Without a saved search: 50."""
    n_best: int | None = None
    """Print this number of translations per line: the line's number, the score and the translation,
    separated by tabs."""
    check: bool = False
    """Also name the lines, on standard error, where something seems missing from the translation,
    repeated or changed."""
    sample: bool = False
    """Sample translations instead of searching with a beam."""
    temperature: float | None = None
    """With --sample: a higher temperature gives more random translations."""
    top_k: int | None = None
    """With --sample: draw only from this number of most probable tokens."""
    top_p: float | None = None
    """With --sample: draw only from the most probable tokens whose probabilities add up to this."""
    seed: int | None = None
    """With --sample: another seed gives other translations. Defaults to 0."""


# The options of a beam search, of sampling, and of both.
_BEAM = ("beam_size", "alpha", "length_penalty", "coverage_penalty")
_SAMPLING = ("temperature", "top_k", "top_p", "seed")
_BOTH = ("min_length", "extra_length")
# Options that do not change the translations.
_WITHOUT_EFFECT = ("sentences", "output", "quiet", "compilation_cache")
# Options of lines, and their defaults. They have no effect on a file.
_LINE_OPTIONS = {
    "split": "preset",
    "markup": None,
    "n_best": None,
    "check": False,
    "buffer_size": None,
}


def translate(options: TranslateOptions) -> None:
    """Translate the given sentences, or the lines of standard input, to standard output.

    With `-o`, translate a file: text, Markdown, HTML, subtitles, catalogs, XLIFF or Word.
    """
    document = _read_document(options)
    lines = _read_windows(options) if document is None else iter(())
    translator = options.load(
        max_source_length=options.max_source_length,
        **options.precision(),
        **search_options(options),
    )
    translator = translator.protecting(options.markup, options.protect)
    if document is None or options.output is None:
        _translate_lines(lines, translator, options)
        return
    report = translate_file(
        document,
        options.output,
        translator,
        options.target_lang,
        options.source_lang,
        settings=_settings(options),
    )
    print(f"{options.output}: {report}", file=sys.stderr)


def _translate_lines(
    lines: Iterator[list[str]], translator: "kt.Translator", options: TranslateOptions
) -> None:
    """Print the translations of windows of lines, each window as soon as it is translated."""
    num_results = 1 if options.n_best is None else options.n_best
    split = None if options.split == "none" else options.split
    first = 1  # the number of the window's first line
    with LineNotes() as notes:
        windows, sources = itertools.tee(_prepare(lines, translator, notes, split))
        found = translator.translate_windows(windows, num_results, split=split)
        for window, texts in zip(found, sources):
            # One line per input line, even if the search finds nothing.
            best = [results[0][0] if results else "" for results in window]
            if options.check:
                read = [text.source for text in texts]
                note_findings(notes, translator, read, best, first, split=split)
            if options.n_best is None:
                print(*best, sep="\n")
            else:
                for number, results in enumerate(window, first):
                    for translation, score in results:
                        print(f"{number}\t{score:.4f}\t{translation}")
            first += len(texts)
            sys.stdout.flush()


def _read_document(options: TranslateOptions) -> Document | None:
    """Return the file to translate, or None if lines are translated."""
    if options.output is None:
        if options.encoding is not None:
            raise kt.UserError("`encoding` is for files: pass the file to write as `-o`.")
        first = next(iter(options.sentences), "")
        if Path(first).suffix.lower() in FORMATS and os.path.isfile(first):
            raise kt.UserError(
                f"Pass the file to write as `-o`, or the lines of {first} as standard input."
            )
        return None
    if len(options.sentences) != 1:
        raise kt.UserError(
            f"`-o` must be given with one file. Received: {len(options.sentences)} files"
        )
    if given := [name for name, value in _LINE_OPTIONS.items() if getattr(options, name) != value]:
        names = ", ".join(f"`{name}`" for name in given)
        raise kt.UserError(f"{names}: expected without `-o`, because files do not use it.")
    document = read_document(options.sentences[0], options.encoding)
    validate_target(document, options.output, options.target_lang, _settings(options), "-o")
    return document


def _settings(options: TranslateOptions) -> dict[str, str]:
    """Return the options that the translations of a file depend on."""
    return {
        name: str(value)
        for name, value in vars(options).items()
        if name not in (*_WITHOUT_EFFECT, *_LINE_OPTIONS) and value not in (None, False, ())
    }


def _read_windows(options: TranslateOptions) -> Iterator[list[str]]:
    """Return windows of the sentences of the command line, or of the lines of standard input."""
    if options.sentences:
        return iter([[*itertools.starmap(_decode, enumerate(options.sentences, start=1))]])
    return line_windows(sys.stdin.buffer, "standard input", options.buffer_size)


def _decode(number: int, sentence: str) -> str:
    """Return a sentence whose bytes may be outside of the locale's encoding."""
    if not re.search("[\ud800-\udfff]", sentence):
        return sentence
    try:
        return os.fsencode(sentence).decode("utf-8")
    except UnicodeError:
        message = f"Sentence {number} is not valid UTF-8. Received: {sentence!a}"
        raise kt.UserError(message) from None


def _prepare(
    windows: Iterator[list[str]], translator: "kt.Translator", notes: LineNotes, split: str | None
) -> Iterator[list[PreparedText]]:
    """Yield prepared windows, and note lines that are not translated completely or as they are."""
    number, language, is_warned = 0, translator.language_votes(), False
    for window in windows:
        if not is_warned and (message := language.add_all(window)):
            warnings.warn(message, UserWarning, stacklevel=1)
            is_warned = True
        texts = translator.prepare(window, split)
        for text in texts:
            number += 1
            remarks = {
                "with a sentence longer than those of the training, divided": text.is_divided,
                f"cut to {translator.source_limit():,} tokens": text.is_cut,
                "with nothing that the vocabulary knows": text.is_unknown,
                "with characters that the vocabulary lacks": (
                    text.has_unknown and not text.is_unknown
                ),
            }
            for remark in [remark for remark, applies in remarks.items() if applies]:
                notes.add(remark, number)
        yield texts


def search_options(options: TranslateOptions) -> dict[str, Any]:
    """Return the given options of the search. The model's own search has the others."""
    others = given(options, *(_BEAM if options.sample else _SAMPLING))
    if others:
        expected = "without `sample`" if options.sample else "with `sample`"
        names = ", ".join(f"`{name}`" for name in others)
        raise kt.UserError(f"{names}: expected {expected} only.")
    if options.sample:
        return {"search": "random", **given(options, *_SAMPLING, *_BOTH)}
    return given(options, *_BEAM, *_BOTH)


def note_findings(
    notes: LineNotes,
    translator: "kt.Translator",
    sources: Sequence[Any],
    translations: Sequence[str],
    first_number: int,
    **how: Any,
) -> None:
    """Note the lines whose translations have findings, by the kinds of the findings."""
    for number, check in enumerate(
        translator.check_translations(sources, translations, **how), first_number
    ):
        for kind in dict.fromkeys(finding.kind for finding in check.findings):
            notes.add(KINDS[kind], number)
