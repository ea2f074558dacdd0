"""Pairs that a translator should not learn from, left out by name and number."""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from keras_transformer.data.language_check import SCRIPTS, is_of, language_code, looks_swapped
from keras_transformer.data.mixtures import Mixture, TaggedText
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_files import Pair
from keras_transformer.errors import UserError
from keras_transformer.progress import bar
from keras_transformer.validation import check_optional, positive_integer, real_number

logger = logging.getLogger(__name__)

_SMALLEST_SHARE = 0.5  # of a sentence's letters in the script of its language
# A word or two may be of any length beside their translation.
_BYTES_ADDED = 15


@dataclass(kw_only=True)
class FilterOptions:
    """Which pairs of the training text are left out. How many are, and why, is reported.

    `max_tokens` is seen to where text is tokenised: `TokenStore`.
    """

    max_characters: int | None = 1000
    """Longest sentence, on either side."""
    max_tokens: int | None = 256
    """Longest sentence in tokens, on either side, in validation too: one of thousands would decide
    the shape of the largest batch, and the memory of a step."""
    max_ratio: float | None = None
    """Leave out pairs of which one side is so many times as long as the other (in bytes of UTF-8):
    they are seldom translations. Often used: 3."""
    drop_identical: bool = False
    """Leave out pairs whose sides are equal: texts that nobody has translated."""
    drop_duplicates: bool = False
    """Leave out pairs that were there before."""
    check_scripts: bool = False
    """Leave out pairs with a side of which less than half of the letters are in a script of its
    language."""

    def check(self) -> None:
        """Check the options.

        Raises:
            UserError: if a number is out of its range.
        """
        check_optional(positive_integer, self, "max_characters", "max_tokens")
        check_optional(_ratio_of_lengths, self, "max_ratio")


def filter_pairs(text: ParallelText, options: FilterOptions) -> tuple[ParallelText, dict[str, int]]:
    """Leaves out pairs of a text, each for the first of these reasons that it gives: `blank`, `too
    long`, `ratio`, `identical`, `duplicate`, `script`.

    Args:
        text: the text. Of a `Mixture` each part is filtered, and a pair of an earlier part with the
            same languages is a duplicate. Tags are no part of a sentence.
        options: `FilterOptions`. Blank sides are always a reason.

    Returns:
        The text of the other pairs in their order, and how many were left out for each reason.

    Raises:
        UserError: if an option is out of its range, a language has no known script, or no pair is
            left.
    """
    return _filter(text, options, {})


# Digests of the pairs of two languages: 8 bytes each, as millions of pairs need not be held.
_Digests = set[bytes]


def _filter(
    text: ParallelText, options: FilterOptions, seen: dict[tuple[str, str], _Digests]
) -> tuple[ParallelText, dict[str, int]]:
    """As `filter_pairs`, after other texts; what was seen is added to `seen`."""
    if isinstance(text, TaggedText):
        filtered, left_out = _filter(text.untagged, options, seen)
        return text.of(filtered), left_out
    if isinstance(text, Mixture):
        results = [_filter(part, options, seen) for part in text.texts]
        total = sum((Counter(left_out) for _, left_out in results), Counter())
        return Mixture([filtered for filtered, _ in results], text.ratios), dict(total)
    _check(text, options)
    if looks_swapped(text, *_languages(text)):
        logger.warning(
            "%r looks swapped: its sources look like %s, and its targets like %s.",
            *(text, text.target_language, text.source_language),
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
        raise UserError(f"The filters leave nothing of {text!r}: {told}.")
    logger.info(
        "Of %s pairs of %s, %s are left out: %s.",
        f"{len(text):,}",
        f"{text.name} {'-'.join(_languages(text))}",
        f"{len(text) - num_kept:,}",
        told,
    )

    def kept() -> Iterator[Pair]:
        reason_of = _reasons(text, options, set(before))
        return (pair for pair in text if reason_of(pair) is None)

    filtered = ParallelText(text.name, text.split, *_languages(text), kept, text.bleu_tokenize)
    return filtered, left_out


# In the order in which they are looked for.
_REASONS = ("blank", "too long", "ratio", "identical", "duplicate", "script")


def _reasons(
    text: ParallelText, options: FilterOptions, seen: _Digests
) -> Callable[[Pair], str | None]:
    """The function that says of the pairs of one pass, in their order, why each is left out; pairs
    that were `seen` before are duplicates, and those that it is asked of are added."""
    scripts = [SCRIPTS.get(language_code(name), ()) for name in _languages(text)]

    def is_duplicate(pair: Pair) -> bool:
        key = hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest()
        known = key in seen
        seen.add(key)
        return known

    def reason_of(pair: Pair) -> str | None:
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

    return reason_of


def _ratio(pair: Pair) -> float:
    # In UTF-8 a Chinese character has three bytes, about as many as the letters that it stands for.
    shorter, longer = sorted(len(side.strip().encode()) for side in pair)
    return (longer - _BYTES_ADDED) / max(shorter, 1)


def _is_in(sentence: str, scripts: tuple[str, ...]) -> bool:
    """Whether a sentence has no letters, or enough of them are in some scripts."""
    letters = list(filter(str.isalpha, sentence))
    fitting = sum(is_of(letter, scripts) for letter in letters)
    return fitting >= _SMALLEST_SHARE * len(letters)


def _languages(text: ParallelText) -> tuple[str, str]:
    return text.source_language, text.target_language


def _check(text: ParallelText, options: FilterOptions) -> None:
    options.check()
    if options.check_scripts:
        unknown = [name for name in _languages(text) if language_code(name) not in SCRIPTS]
        if unknown:
            raise UserError(
                f"`check_scripts` knows no script of {', '.join(unknown)}. It knows those of the "
                f"languages {', '.join(sorted(SCRIPTS))}."
            )


def _ratio_of_lengths(name: str, value: float) -> float:
    return real_number(name, value, lambda x: 1 <= x < float("inf"), "a number, 1 or larger")
