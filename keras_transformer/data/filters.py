"""Filters that remove sentence pairs which are unsuitable for training, and report how many."""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from keras_transformer.data.languages import SCRIPTS, is_in_scripts, looks_swapped
from keras_transformer.data.mixtures import Mixture, TaggedText
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_files import Pair
from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code
from keras_transformer.progress import bar
from keras_transformer.validation import check_optional, positive_integer, real_number

logger = logging.getLogger(__name__)

_SMALLEST_SHARE = 0.5  # the smallest share of a sentence's letters in a script of its language
# Bytes that are subtracted from the longer side: for a word or two, the ratio means nothing.
_BYTES_ADDED = 15


@dataclass(kw_only=True)
class FilterOptions:
    """Options that remove pairs from the training text. The numbers and the reasons are logged.

    `TokenStore` applies `max_tokens` when the text is tokenized.
    """

    max_characters: int | None = 1000
    """Longest sentence, in characters, on either side."""
    max_tokens: int | None = 256
    """Longest sentence, in tokens, on either side, in validation too: one very long sentence would
    determine the shape of the largest batch, and the memory of a step."""
    max_ratio: float | None = None
    """Remove pairs if one side is longer than the other by more than this factor (in bytes of
    UTF-8): they are seldom translations. A common value: 3."""
    drop_identical: bool = False
    """Remove pairs with two equal sides: they were not translated."""
    drop_duplicates: bool = False
    """Remove pairs that occurred before."""
    check_scripts: bool = False
    """Remove pairs if less than half of the letters of one side are in a script of its language."""

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if a number is out of its range.
        """
        check_optional(positive_integer, self, "max_characters", "max_tokens")
        check_optional(_ratio_of_lengths, self, "max_ratio")


def filter_pairs(text: ParallelText, options: FilterOptions) -> tuple[ParallelText, dict[str, int]]:
    """Remove unsuitable pairs from a text.

    The reasons are `blank`, `too long`, `ratio`, `identical`, `duplicate` and `script`. A pair
    counts for the first of them that applies.

    Args:
        text: the text. Each part of a `Mixture` is filtered, and a pair of an earlier part with the
            same languages is a duplicate. Tags are not part of a sentence.
        options: `FilterOptions`. Pairs with a blank side are always removed.

    Returns:
        The text of the remaining pairs in their order, and the number of removed pairs per reason.

    Raises:
        UserError: if an option is out of its range, a language has no known script, or no pair
            remains.
    """
    return _filter(text, options, {})


# The digests of the pairs of two languages, 8 bytes each, so that millions of pairs need not be
# held in memory.
_Digests = set[bytes]


def _filter(
    text: ParallelText, options: FilterOptions, seen: dict[tuple[str, str], _Digests]
) -> tuple[ParallelText, dict[str, int]]:
    """Filter a text like `filter_pairs`, after the pairs in `seen`, and add its pairs to them."""
    if isinstance(text, TaggedText):
        filtered, left_out = _filter(text.untagged, options, seen)
        return text.of(filtered), left_out
    if isinstance(text, Mixture):
        results = [_filter(part, options, seen) for part in text.texts]
        total = sum((Counter(left_out) for _, left_out in results), Counter())
        return Mixture([filtered for filtered, _ in results], text.ratios), dict(total)
    _validate_text(text, options)
    if looks_swapped(text, *_languages(text)):
        logger.warning(
            "%r looks swapped: its sources look like %s, and its targets like %s.",
            text,
            text.target_language,
            text.source_language,
        )
    before = seen.get(_languages(text), set())
    now = seen[_languages(text)] = set(before)
    reasons = map(_reasons(text, options, now), bar("filtering", "pairs", len(text), text))
    counts = Counter(reasons)
    num_kept = counts.pop(None, 0)
    left_out = {reason: counts[reason] for reason in _REASONS if counts[reason]}
    if not left_out:
        return text, left_out
    told = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    if not num_kept:
        raise UserError(
            f"The filters remove all pairs of {text!r}: {told}. Expected other options."
        )
    logger.info(
        "%s of %s pairs of %s are removed: %s.",
        f"{len(text) - num_kept:,}",
        f"{len(text):,}",
        f"{text.name} {'-'.join(_languages(text))}",
        told,
    )

    def kept() -> Iterator[Pair]:
        reason_for = _reasons(text, options, set(before))
        return (pair for pair in text if reason_for(pair) is None)

    filtered = ParallelText(text.name, text.split, *_languages(text), kept, text.bleu_tokenize)
    return filtered, left_out


# In the order of the checks.
_REASONS = ("blank", "too long", "ratio", "identical", "duplicate", "script")


def _reasons(
    text: ParallelText, options: FilterOptions, seen: _Digests
) -> Callable[[Pair], str | None]:
    """Return a function that gives the reason to remove a pair, or None.

    It must be called for all pairs of one pass in order: pairs in `seen` are duplicates, and each
    pair is added to `seen`.
    """
    scripts = [SCRIPTS.get(language_code(name), ()) for name in _languages(text)]

    def is_duplicate(pair: Pair) -> bool:
        key = hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest()
        known = key in seen
        seen.add(key)
        return known

    def reason_for(pair: Pair) -> str | None:
        if not all(side.strip() for side in pair):
            return "blank"
        if options.max_characters and max(map(len, pair)) > options.max_characters:
            return "too long"
        if options.max_ratio and _ratio(pair) > options.max_ratio:
            return "ratio"
        if options.drop_identical and pair[0].strip() == pair[1].strip():
            return "identical"
        if options.drop_duplicates and is_duplicate(pair):
            return "duplicate"
        if options.check_scripts and not all(map(_is_in, pair, scripts)):
            return "script"
        return None

    return reason_for


def _ratio(pair: Pair) -> float:
    # In UTF-8 a Chinese character has three bytes, about the number of letters it corresponds to.
    shorter, longer = sorted(len(side.strip().encode()) for side in pair)
    return (longer - _BYTES_ADDED) / max(shorter, 1)


def _is_in(sentence: str, scripts: tuple[str, ...]) -> bool:
    """Return whether a sentence has no letters, or enough letters in one of the scripts."""
    letters = list(filter(str.isalpha, sentence))
    fitting = sum(is_in_scripts(letter, scripts) for letter in letters)
    return fitting >= _SMALLEST_SHARE * len(letters)


def _languages(text: ParallelText) -> tuple[str, str]:
    return text.source_language, text.target_language


def _validate_text(text: ParallelText, options: FilterOptions) -> None:
    options.validate()
    if options.check_scripts:
        unknown = [name for name in _languages(text) if language_code(name) not in SCRIPTS]
        if unknown:
            raise UserError(
                f"`check_scripts` must be False for {', '.join(unknown)}, whose script is not "
                f"known. Expected languages from {', '.join(sorted(SCRIPTS))}."
            )


def _ratio_of_lengths(name: str, value: float) -> float:
    return real_number(name, value, lambda x: 1 <= x < float("inf"), "a number, 1 or larger")
