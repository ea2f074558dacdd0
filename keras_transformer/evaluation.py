"""Scores of translations: `kt.evaluation`.

- `score_translations`: computes BLEU, chrF, chrF++ and TER with sacreBLEU and its signatures, as
  `TranslationScores`. `bleu_tokenizer`: returns the tokenizer that fits a language.
- `compare_translations`: compares two systems by paired bootstrap resampling, as `Comparison`.
- `score_placeholders`: counts copied placeholders, as `PlaceholderScores`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code
from keras_transformer.progress import spinner
from keras_transformer.untranslated import UNTRANSLATED
from keras_transformer.validation import check_one_per_source, check_strings

__all__ = [
    "Comparison",
    "PlaceholderScores",
    "TranslationScores",
    "bleu_tokenizer",
    "compare_translations",
    "score_placeholders",
    "score_translations",
]


def __dir__() -> list[str]:
    return __all__


_DEFAULT = "13a"
_PIECES = "flores200"

# The tokenizers of the languages for which sacreBLEU itself chooses another one. Their text has no
# spaces between words or, in Korean, too few.
EAST_ASIAN = MappingProxyType({"zh": "zh", "ja-mecab": "ja", "ko-mecab": "ko"})
_BY_LANGUAGE = {language: tokenizer for tokenizer, language in EAST_ASIAN.items()}

# Other languages whose text has no spaces between words: spBLEU, with the pieces of FLORES-200's
# vocabulary (NLLB Team 2022). Thai, Lao, Khmer, Burmese, Shan, Tibetan, Dzongkha.
_WITHOUT_SPACES = ("th", "lo", "km", "my", "shn", "bo", "dz")

# Tokenizers of words between spaces: in text without spaces, a sentence would be one word.
_WORD_TOKENIZERS = (_DEFAULT, "intl")


def bleu_tokenizer(language: str | None) -> str:
    """Return the name of the tokenizer for untokenized text of a language.

    It is sacreBLEU's own choice for Chinese, Japanese and Korean, `"flores200"` for other languages
    without spaces between words, and `"13a"` for all others.

    Args:
        language: language code, such as `"zh"`, `"zh_CN"` or `"zho_Hans"`. None stands for one of
            the others.
    """
    code = language_code(language or "")
    if code in _WITHOUT_SPACES:
        return _PIECES
    return _BY_LANGUAGE.get(code, _DEFAULT)


def validate_tokenizer(tokenize: str, language: str | None) -> None:
    """Raise a `UserError` if sacreBLEU lacks a tokenizer, or if it does not fit the language.

    Any tokenizer fits the language None.
    """
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise UserError(
            f"`tokenize` must be one of {', '.join(BLEU.TOKENIZERS)}. "
            f"Received: tokenize={tokenize!r}"
        )
    if language is None:
        return
    fitting = bleu_tokenizer(language)
    of_another = tokenize in EAST_ASIAN and tokenize != fitting
    if of_another or (tokenize in _WORD_TOKENIZERS and fitting != _DEFAULT):
        raise UserError(
            f"`tokenize` must fit the language {language!r}, or scores are meaningless. Omit it "
            f"for {fitting!r}. Received: tokenize={tokenize!r}"
        )


@dataclass(frozen=True)
class TranslationScores:
    """Corpus-level scores of a set of translations.

    Scores are only comparable if their signatures are equal, so keep them together. `str()` returns
    one line per score in sacreBLEU's own format.

    Attributes:
        bleu: BLEU, 0 to 100.
        bleu_signature: sacreBLEU's signature, such as `"nrefs:1|case:mixed|eff:no|tok:13a|…"`.
        precisions: n-gram precisions for n = 1 to 4, 0 to 100.
        brevity_penalty: BLEU's penalty for short translations.
        hypothesis_length: number of tokens of the translations.
        reference_length: number of tokens of the references.
        chrf: chrF2, 0 to 100: n-grams of characters.
        chrf_signature: its signature.
        chrf_plus_plus: chrF2++, 0 to 100: also words and pairs of words.
        chrf_plus_plus_signature: its signature.
        ter: translation edit rate, 0 or larger: edits per hundred words. Smaller is better.
        ter_signature: its signature.
        num_sentences: number of translations.
    """

    bleu: float
    bleu_signature: str
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int
    chrf: float
    chrf_signature: str
    chrf_plus_plus: float
    chrf_plus_plus_signature: str
    ter: float
    ter_signature: str
    num_sentences: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary of JSON values."""
        return {**asdict(self), "precisions": list(self.precisions)}

    def __str__(self) -> str:
        precisions = "/".join(f"{precision:.1f}" for precision in self.precisions)
        ratio = self.hypothesis_length / self.reference_length if self.reference_length else 0.0
        return (
            f"BLEU|{self.bleu_signature} = {self.bleu:.2f} {precisions} "
            f"(BP = {self.brevity_penalty:.3f} ratio = {ratio:.3f} "
            f"hyp_len = {self.hypothesis_length} ref_len = {self.reference_length})\n"
            f"chrF2|{self.chrf_signature} = {self.chrf:.2f}\n"
            f"chrF2++|{self.chrf_plus_plus_signature} = {self.chrf_plus_plus:.2f}\n"
            f"TER|{self.ter_signature} = {self.ter:.2f}"
        )


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenize: str | None = None,
    language: str | None = None,
) -> TranslationScores:
    """Score translations against their references with BLEU, chrF, chrF++ and TER.

    Args:
        hypotheses: the translations.
        references: one reference per translation; or several such sequences, as in sacreBLEU, where
            `references[k][i]` is reference `k` of translation `i`.
        tokenize: sacreBLEU's tokenizer for BLEU, such as `"13a"`; `"none"` for tokenized text.
            Defaults to the tokenizer that fits the language: see `bleu_tokenizer`.
        language: code of the translations' language, such as `"zh"`. TER counts words, and in
            Chinese, Japanese and Korean characters; chrF always counts characters.

    Returns:
        A `TranslationScores`.

    Raises:
        UserError: if there is nothing to score, a sentence is not a string, lengths differ, or the
            tokenizer is unknown, does not fit the language, or is not installed.
    """
    hypotheses = check_strings("hypotheses", hypotheses)
    streams = reference_streams(references)
    metrics = make_metrics(tokenize, language)
    validate_lengths(hypotheses, streams)
    with spinner("scoring"):
        scores = {name: x.corpus_score(hypotheses, streams) for name, x in metrics.items()}
    signatures = {name: str(x.get_signature()) for name, x in metrics.items()}
    bleu = scores["bleu"]
    return TranslationScores(
        precisions=tuple(bleu.precisions),
        brevity_penalty=bleu.bp,
        hypothesis_length=bleu.sys_len,
        reference_length=bleu.ref_len,
        num_sentences=len(hypotheses),
        bleu=bleu.score,
        bleu_signature=signatures["bleu"],
        chrf=scores["chrf"].score,
        chrf_signature=signatures["chrf"],
        chrf_plus_plus=scores["chrf_plus_plus"].score,
        chrf_plus_plus_signature=signatures["chrf_plus_plus"],
        ter=scores["ter"].score,
        ter_signature=signatures["ter"],
    )


def make_metrics(tokenize: str | None, language: str | None) -> dict[str, Any]:
    """Return sacreBLEU's metrics by their names in `TranslationScores`."""
    # Import sacreBLEU here: training does not need it.
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    bleu = _bleu(tokenize, language)
    # Other languages have their punctuation separated by an earlier tokenization, or by 13a's
    # rules.
    is_asian = bleu_tokenizer(language) in EAST_ASIAN
    ter = TER(normalized=is_asian, asian_support=is_asian)
    return {"bleu": bleu, "chrf": CHRF(), "chrf_plus_plus": CHRF(word_order=2), "ter": ter}


def _bleu(tokenize: str | None, language: str | None) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    if tokenize is not None:
        validate_tokenizer(tokenize, language)
    tokenize = tokenize or bleu_tokenizer(language)
    try:
        # force: omit the warning about tokenized text if it is tokenized on purpose.
        return BLEU(tokenize=tokenize, force=tokenize == "none")
    except (RuntimeError, OSError) as error:
        raise UserError(_missing_tokenizer(tokenize, error)) from error


def reference_streams(
    references: Sequence[str] | Sequence[Sequence[str]],
) -> list[list[str]]:
    """Return the references as lists: one list per reference of a translation."""
    given: Any = references if isinstance(references, str) else list(references)
    if isinstance(given, str) or not any(map(_is_stream, given)):
        return [check_strings("references", given)]
    return [check_strings(f"references[{i}]", stream) for i, stream in enumerate(given)]


def _is_stream(references: Any) -> bool:
    return isinstance(references, Iterable) and not isinstance(references, str)


def validate_lengths(hypotheses: Sequence[str], streams: Sequence[Sequence[str]]) -> None:
    """Raise a `UserError` if there is nothing to score, or a reference is missing."""
    if not hypotheses:
        raise UserError("`hypotheses` must hold at least one sentence. Received: hypotheses=[]")
    for stream in streams:
        if len(stream) != len(hypotheses):
            raise UserError(
                "`references` must hold one sentence per hypothesis. "
                f"Received: {len(hypotheses):,} hypotheses and {len(stream):,} references"
            )


def _missing_tokenizer(tokenize: str, error: Exception) -> str:
    if tokenize in EAST_ASIAN:  # their dictionaries are separate packages
        package = tokenize.partition("-")[0]
        return (
            f"The sacreBLEU tokenizer {tokenize} is not installed. Install it: "
            f'pip install "sacrebleu[{package}]"'
        )
    return (
        f"Cannot download the vocabulary of sacreBLEU's tokenizer {tokenize} "
        f"({str(error).strip()}). Check the network, or score characters: "
        '`tokenize="char"`.'
    )


# The resampled scores, by their names in `TranslationScores` and in print. (TER would take
# minutes.)
_COMPARED = {"bleu": "BLEU", "chrf_plus_plus": "chrF2++"}


@dataclass(frozen=True)
class Comparison:
    """One score of two systems on the same sentences.

    Attributes:
        name: `"BLEU"` or `"chrF2++"`.
        signature: sacreBLEU's signature, with the number of resamples and their seed.
        score: score of the translations.
        other: score of the other system's translations.
        p_value: probability of a difference this large if the systems are equally good (Koehn
            2004).
    """

    name: str
    signature: str
    score: float
    other: float
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.name}|{self.signature} = {self.score:.2f}, and {self.other:.2f} of the other: "
            f"p = {self.p_value:.4f}"
        )


def compare_translations(
    hypotheses: Sequence[str],
    others: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenize: str | None = None,
    language: str | None = None,
    num_samples: int = 1000,
) -> list[Comparison]:
    """Compare two systems' translations by paired bootstrap resampling (Koehn 2004).

    sacreBLEU samples with the seed in its environment variable `SACREBLEU_SEED`, or 12345.

    Args:
        hypotheses: the translations.
        others: the other system's translations.
        references: as for `score_translations`.
        tokenize: as for `score_translations`.
        language: as for `score_translations`.
        num_samples: the number of samples of the sentences.

    Returns:
        The `Comparison` by BLEU, and the one by chrF++.

    Raises:
        UserError: as for `score_translations`.
    """
    from sacrebleu.significance import PairedTest

    streams = reference_streams(references)
    systems: list[tuple[str, Sequence[str]]] = [  # the first is the base
        ("other", check_strings("others", others)),
        ("hypotheses", check_strings("hypotheses", hypotheses)),
    ]
    for _, sentences in systems:
        validate_lengths(sentences, streams)
    metrics = make_metrics(tokenize, language)
    metrics = {name: metrics[key] for key, name in _COMPARED.items()}
    test = PairedTest(systems, metrics, streams, test_type="bs", n_samples=num_samples)
    with spinner("drawing samples"):
        signatures, results = test()
    return [_comparison(name, str(signatures[name]), *results[name]) for name in metrics]


def _comparison(name: str, signature: str, other: Any, scored: Any) -> Comparison:
    """Return one score of two systems, given sacreBLEU's results for the base and the other."""
    # sacreBLEU reports p = 0 for equal scores.
    p_value = 1.0 if other.score == scored.score else scored.p_value
    return Comparison(name, signature, scored.score, other.score, p_value)


_NUMBERED = re.compile(r"^%\d+\$")


def placeholders(text: str) -> Counter[str]:
    """Return the number of occurrences of each placeholder, tag and address in a text.

    Positions of arguments are ignored: `%2$s` counts as `%s`, because a translation may have
    another order.
    """
    return Counter(_NUMBERED.sub("%", found[0]) for found in UNTRANSLATED.finditer(text))


@dataclass(frozen=True)
class PlaceholderScores:
    """The number of placeholders in the sources that the translations contain.

    Attributes:
        num_placeholders: placeholders in the sources.
        num_copied: placeholders of the sources that their translations contain.
        num_added: placeholders of the translations that their sources lack.
        num_sentences: sources with placeholders.
        num_right: sources with placeholders whose translation has exactly the same ones.
    """

    num_placeholders: int
    num_copied: int
    num_added: int
    num_sentences: int
    num_right: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary of JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        share = 100 * self.num_copied / max(self.num_placeholders, 1)
        return (
            f"placeholders: {self.num_copied:,} of {self.num_placeholders:,} copied "
            f"({share:.1f} %), {self.num_added:,} added; {self.num_right:,} of "
            f"{self.num_sentences:,} sentences with placeholders have exactly theirs"
        )


def score_placeholders(sources: Iterable[str], hypotheses: Iterable[str]) -> PlaceholderScores:
    """Count the placeholders of sources that their translations contain.

    Args:
        sources: the sentences.
        hypotheses: their translations, in the same order.

    Returns:
        `PlaceholderScores`.

    Raises:
        UserError: if an item is not a string, or the numbers of sources and translations differ.
    """
    sources = check_strings("sources", sources)
    hypotheses = check_strings("hypotheses", hypotheses)
    check_one_per_source("hypotheses", sources, hypotheses, "sentence")
    pairs = [tuple(map(placeholders, pair)) for pair in zip(sources, hypotheses)]
    return PlaceholderScores(
        num_placeholders=sum(source.total() for source, _ in pairs),
        num_copied=sum((source & found).total() for source, found in pairs),
        num_added=sum((found - source).total() for source, found in pairs),
        num_sentences=sum(bool(source) for source, _ in pairs),
        num_right=sum(bool(source) and source == found for source, found in pairs),
    )
