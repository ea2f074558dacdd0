"""Scores of translations, computed by sacreBLEU and reported with its signatures."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code
from keras_transformer.progress import spinner
from keras_transformer.validation import check_strings

_USUAL = "13a"
_PIECES = "flores200"

# The tokenizers of the languages for which sacreBLEU itself chooses another one. Their text has no
# spaces between words or, in Korean, too few.
EAST_ASIAN = MappingProxyType({"zh": "zh", "ja-mecab": "ja", "ko-mecab": "ko"})
_OF_LANGUAGE = {language: tokenizer for tokenizer, language in EAST_ASIAN.items()}

# Other languages whose text has no spaces between words: spBLEU, with the pieces of FLORES-200's
# vocabulary (NLLB Team 2022). Thai, Lao, Khmer, Burmese, Shan, Tibetan, Dzongkha.
_WITHOUT_SPACES = ("th", "lo", "km", "my", "shn", "bo", "dz")

# Tokenizers of words between spaces: in text without spaces, a sentence would be one word.
_OF_WORDS = (_USUAL, "intl")


def tokenizer_of(language: str | None) -> str:
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
    return _OF_LANGUAGE.get(code, _USUAL)


def check_tokenizer(tokenize: str, language: str | None) -> None:
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
    fitting = tokenizer_of(language)
    of_another = tokenize in EAST_ASIAN and tokenize != fitting
    if of_another or (tokenize in _OF_WORDS and fitting != _USUAL):
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
            Defaults to the tokenizer that fits the language: see `tokenizer_of`.
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
    check_lengths(hypotheses, streams)
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
    is_asian = tokenizer_of(language) in EAST_ASIAN
    ter = TER(normalized=is_asian, asian_support=is_asian)
    return {"bleu": bleu, "chrf": CHRF(), "chrf_plus_plus": CHRF(word_order=2), "ter": ter}


def _bleu(tokenize: str | None, language: str | None) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    if tokenize is not None:
        check_tokenizer(tokenize, language)
    tokenize = tokenize or tokenizer_of(language)
    try:
        # force: omit the warning about tokenized text if it is tokenized on purpose.
        return BLEU(tokenize=tokenize, force=tokenize == "none")
    except (RuntimeError, OSError) as error:
        raise UserError(_what_is_missing(tokenize, error)) from error


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


def check_lengths(hypotheses: Sequence[str], streams: Sequence[Sequence[str]]) -> None:
    """Raise a `UserError` if there is nothing to score, or a reference is missing."""
    if not hypotheses:
        raise UserError("`hypotheses` must hold at least one sentence. Received: hypotheses=[]")
    for stream in streams:
        if len(stream) != len(hypotheses):
            raise UserError(
                "`references` must hold one sentence per hypothesis. "
                f"Received: {len(hypotheses):,} hypotheses and {len(stream):,} references"
            )


def _what_is_missing(tokenize: str, error: Exception) -> str:
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
