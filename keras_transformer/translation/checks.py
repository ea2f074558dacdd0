"""Findings about given translations: what went missing, was repeated, or was changed.

Each signal has a figure for its precision in `docs/experiments/checks.md`. Signals that were not
precise, such as low probabilities, are not here.
"""

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_transformer.data.language_selection import validate_selected
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.text_lines import in_windows, split_sentences
from keras_transformer.evaluation import placeholders
from keras_transformer.translation.preparation import tags_and_texts
from keras_transformer.translation.scoring import teacher_forced
from keras_transformer.untranslated import UNTRANSLATED
from keras_transformer.validation import check_one_per_source, check_strings

if TYPE_CHECKING:
    from keras_transformer.translation.translator import Translator

# The kinds of findings, and what is said of lines that have one.
KINDS = {
    "empty": "with an empty translation",
    "sentences": "with fewer sentences in the translation",
    "coverage": "with a sentence that seems left out",
    "length": "with a much shorter translation",
    "repetition": "with words repeated in the translation",
    "numbers": "with other numbers in the translation",
    "placeholders": "with other placeholders in the translation",
    "untranslated": "with a translation that equals the source",
    "characters": "with characters that the vocabulary lacks",
}

# The smallest mean attention to the tokens of a sentence, summed over the translation.
_LEAST_COVERAGE = 0.5
# The layer whose attention aligns best is the last but one, if there are two.
LAYER = -2
# The smallest number of tokens per token of the source, and the shortest source this is said of.
_LEAST_LENGTH, _SHORTEST = 0.5, 10
# The number of words that may be repeated more than in the source.
_MOST_REPEATED = 3
# Attention was not precise for texts of more sentences.
_MOST_SENTENCES = 4

_IDEOGRAPHS = "\u3040-\u309f\u3400-\u9fff"  # and hiragana
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]+")
_LETTER = re.compile(r"[^\W_]")
# Separators in numbers, and their meanings. Spaces, for example, only separate thousands.
_SEPARATORS = {
    **{x: x for x in ".,:"},
    **dict.fromkeys("'’ \u00a0\u2009\u202f٬", "'"),
    **{"٫": ",", "．": ".", "：": ":"},
}
_NUMBER = re.compile(
    rf"(?:\d{{1,3}}(?: \d{{3}})+(?!\d)|\d+)(?:[{''.join(_SEPARATORS).replace(' ', '')}]\d+)*"
)
# A whole number, also with separators of thousands; in India 12,34,567.
_WHOLE = re.compile(r"\d+|[1-9]\d{0,2}([.,'])\d{3}(?:\1\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}", re.ASCII)
_SHOWN = 60  # characters of a quotation
_MOST_LACKED = 20  # characters that are named


class Finding(NamedTuple):
    """A finding about a translation.

    Attributes:
        kind: a key of `KINDS`.
        message: a sentence.
    """

    kind: str
    message: str


@dataclass(frozen=True)
class TranslationCheck:
    """The findings about a translation. Its string is their messages.

    Attributes:
        findings: tuple of `Finding`, which is empty for most translations.
    """

    findings: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        return " ".join(finding.message for finding in self.findings)


def count_findings(checks: Iterable[TranslationCheck]) -> dict[str, int]:
    """Return the number of translations with each kind of finding, and with any.

    Args:
        checks: list of `TranslationCheck`.
    """
    kinds = [{finding.kind for finding in check.findings} for check in checks]
    counts = {kind: sum(kind in found for found in kinds) for kind in KINDS}
    return {"any": sum(map(bool, kinds)), **counts}


def check_translations(
    translator: "Translator",
    sources: Iterable[str],
    translations: Iterable[str],
    split: str | None,
) -> list[TranslationCheck]:
    """Return the result of `Translator.check_translations`.

    Args:
        translator: a `Translator`.
        sources: list of strings.
        translations: list of strings.
        split: as for `Translator.check_translations`.
    """
    sources = check_strings("sources", sources)
    translations = check_strings("translations", translations)
    check_one_per_source("translations", sources, translations)
    validate_selected(translator.preprocessor, translator.metadata)
    windows = in_windows(zip(sources, translations))
    return [
        TranslationCheck(tuple(finding for finding in _findings(pair, translator) if finding))
        for window in windows
        for pair in _read_pairs(translator, window, split)
    ]


class _Pair(NamedTuple):
    """A source and its translation, and what the model makes of them."""

    source: str
    translation: str
    source_read: str
    source_ids: list[int]
    target_ids: list[int]
    source_sentences: list[str]
    target_sentences: list[str]
    attention: np.ndarray


def _read_pairs(
    translator: "Translator",
    pairs: Sequence[tuple[str, str]],
    split: str | None,
) -> list[_Pair]:
    """Encode pairs, split them into sentences, and compute the attention of short texts."""
    given, made = zip(*pairs)
    sources, translations = translator.texts_read(given, made, split)
    text, model = translator.preprocessor, translator.model
    source_ids = text.encode_sources(sources, translator.source_limit())
    target_ids = text.encode_targets(translations)
    source_sentences, target_sentences = (
        [split_sentences(x, str(translator.metadata.get(side) or "en")) for x in texts]
        for side, texts in (("source", sources), ("target", translations))
    )
    most = model.config.max_length or math.inf
    read = [
        ids if len(ids) <= most and len(sentences) <= _MOST_SENTENCES else []
        for ids, sentences in zip(target_ids, source_sentences)
    ]
    layer = max(LAYER, -len(model.decoder.layers))
    outputs = teacher_forced(model, source_ids, read, translator.batch_tokens, layer)
    attention = [output.attention for output in outputs]
    values = sources, source_ids, target_ids, source_sentences, target_sentences, attention
    return [_Pair(*pair, *rest) for pair, *rest in zip(pairs, *values)]


def _findings(pair: _Pair, translator: "Translator") -> Iterator[Finding | None]:
    text = translator.preprocessor
    if not pair.source_ids and pair.source_read == pair.source:
        return  # A source of nothing but placeholders has no ids either, but it has a text.
    if not pair.translation.strip():
        yield Finding("empty", "The translation is empty.")
        return
    num_tokens = len(pair.target_ids) - 1 - len(text.target_prefix)
    yield _sentences(pair.source_sentences, pair.target_sentences)
    yield _coverage(pair.source_sentences, pair.attention, text)
    yield _length(len(pair.source_ids) - text.num_added, num_tokens)
    yield _repetition(pair.source, pair.translation)
    yield number_finding(pair.source, pair.translation)
    yield placeholder_finding(
        tags_and_texts(translator, pair.source), tags_and_texts(translator, pair.translation)
    )
    yield copy_finding(pair.source, pair.translation)
    yield _characters(pair.source_read, text)


def _sentences(parts: Sequence[str], found: Sequence[str]) -> Finding | None:
    num_parts, num_found = _num_sentences(parts), _num_sentences(found)
    if num_found < num_parts:
        return Finding(
            "sentences",
            f"The source has {num_parts} sentences, and the translation has {num_found}.",
        )


def _num_sentences(parts: Sequence[str]) -> int:
    """Count the sentences; one that continues in lower case was split at an abbreviation."""
    starts = [_LETTER.search(part) for part in parts[1:]]
    return len(parts) - sum(1 for start in starts if start is None or start[0].islower())


def _coverage(
    parts: Sequence[str], attention: np.ndarray, text: TranslationPreprocessor
) -> Finding | None:
    """Find the sentences of the source that the translation hardly attends to."""
    values = sentence_coverage(parts, attention, text)
    left_out = [
        repr(part[:_SHOWN]) for part, value in zip(parts, values) if value < _LEAST_COVERAGE
    ]
    if left_out:
        return Finding("coverage", f"Seems left out of the translation: {', '.join(left_out)}.")


def sentence_coverage(
    parts: Sequence[str], attention: np.ndarray, text: TranslationPreprocessor
) -> list[float]:
    """Return how much a translation attends to each sentence: the mean over its tokens.

    Args:
        parts: the sentences of the source.
        attention: float array `(target, source)`; empty if nothing is known.
        text: the `TranslationPreprocessor`.

    Returns:
        A list of numbers, infinite for a sentence that the model has not read whole.
    """
    coverage = attention.sum(axis=0)
    values, start = [], len(text.source_prefix)
    for ids in text.source_tokenizer.encode(parts):
        stop = start + len(ids)
        is_read = ids and stop <= len(coverage) - text.source_end
        values.append(float(coverage[start:stop].mean()) if is_read else math.inf)
        start = stop
    return values


def _length(source: int, target: int) -> Finding | None:
    if source >= _SHORTEST and target < _LEAST_LENGTH * source:
        return Finding("length", f"The source has {source} tokens, and the translation {target}.")


def _characters(source: str, text: TranslationPreprocessor) -> Finding | None:
    if unknown := text.unknown_characters(source):
        return Finding("characters", f"The vocabulary lacks: {', '.join(unknown[:_MOST_LACKED])}.")


def _repetition(source: str, translation: str) -> Finding | None:
    length, words = num_repeated(translation)
    if length > _MOST_REPEATED and length > _MOST_REPEATED + num_repeated(source)[0]:
        return Finding("repetition", f"The translation repeats {words[:_SHOWN]!r}.")


def num_repeated(text: str) -> tuple[float, str]:
    """Return the number of words in the longest run that occurs twice, and the run itself.

    An ideograph is half a word. The two places may overlap, as in a loop of one word.
    """
    shown = _WORD.findall(text)
    words = [word.lower() for word in shown]
    least, most, start = 0, len(words), 0
    while most - least > 1:  # a run of `least` words is repeated, none of `most`
        length, seen = (least + most) // 2, set()
        for first in range(len(words) - length + 1):
            run = tuple(words[first : first + length])
            if run in seen:
                least, start = length, first
                break
            seen.add(run)
        else:
            most = length
    run = " ".join(shown[start : start + least])
    return least - 0.5 * len(_IDEOGRAPH.findall(run)), run


def number_finding(source: str, translation: str) -> Finding | None:
    """Compare the numbers in digits.

    One side may spell a number in words. So a missing number counts only if the translation has
    another one, or if it is too long for words and not round.
    """
    missing, added = _unmatched(_NUMBER.findall(source), _NUMBER.findall(translation))
    if not added:
        digits = [_integer(_ascii(x)) for x in missing]
        missing = [x for x, y in zip(missing, digits) if len(y) > 2 and not y.endswith("0")]
    if missing:
        message = f"Numbers of the source are missing: {', '.join(dict.fromkeys(missing))}"
        if added:
            message += f"; the translation has {', '.join(dict.fromkeys(added))}"
        return Finding("numbers", f"{message}.")


def copy_finding(source: str, translation: str) -> Finding | None:
    """Compare the texts, ignoring case and spaces.

    A copy may be right if it has fewer than two words, apart from numbers, placeholders, and words
    in capitals such as `NASA`. A single word can be a name, or one that both languages share.
    """
    words = _WORD.findall(UNTRANSLATED.sub(" ", source))
    num_words = sum(not (word.isupper() or word[0].isdigit()) for word in words)
    if num_words > 1 and source.casefold().split() == translation.casefold().split():
        return Finding("untranslated", "The translation equals the source.")


def _unmatched(numbers: Sequence[str], others: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the numbers of each list that have no equal one in the other list."""
    waiting = defaultdict(list)  # a reading -> the places of the others that have it
    for place, other in enumerate(others):
        for reading in _readings(other):
            waiting[reading].append(place)
    missing, matched = [], set()
    for number in numbers:
        for reading in _readings(number):
            places = waiting[reading]
            while places and places[-1] in matched:
                places.pop()
            if places:
                matched.add(places.pop())
                break
        else:
            missing.append(number)
    return missing, [x for place, x in enumerate(others) if place not in matched]


def _readings(number: str) -> list[str]:
    """Return all that a number can be, such as "1.5" and "1500" for "1.500".

    Languages write the decimal separator and the separator of thousands in different ways. One or
    two digits after a separator are not thousands. A time or a date is equal with other separators.
    """
    text = _ascii(number)
    parts = re.split(r"\D", text)
    readings = []
    if len(parts) == 2:
        hour = _integer(parts[0])
        readings += [f"{hour}:{parts[1]}", *([hour] if parts[1] == "00" else [])]
    elif len(parts) > 2:
        readings.append(":".join(map(_integer, parts)))
    if _WHOLE.fullmatch(text):
        readings.append(_integer(text))
    whole, mark, fraction = text.rpartition("," if text.rfind(",") > text.rfind(".") else ".")
    # "1,000" is hardly ever 1.
    is_decimal = mark and mark not in whole and fraction != "000" and fraction.isdecimal()
    if is_decimal and _WHOLE.fullmatch(whole):
        readings.append(f"{_integer(whole)}.{fraction}".rstrip("0").rstrip("."))
    return readings


def _ascii(number: str) -> str:
    """Return a number with ASCII digits, and with ' for all separators that are only thousands'."""
    return "".join(str(unicodedata.decimal(x)) if x.isdecimal() else _SEPARATORS[x] for x in number)


def _integer(digits: str) -> str:
    return re.sub(r"\D", "", digits).lstrip("0") or "0"


def placeholder_finding(source: str, translation: str) -> Finding | None:
    """Compare the placeholders, tags and addresses."""
    sides = placeholders(source), placeholders(translation)
    parts = [
        f"{words}: {', '.join(names)}"
        for words, names in zip(("missing", "added"), (sides[0] - sides[1], sides[1] - sides[0]))
        if names
    ]
    if parts:
        return Finding("placeholders", f"Placeholders are {'; '.join(parts)}.")
