"""Filters that remove sentence pairs which are unsuitable for training, and report how many."""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import compress

from keras_transformer.data.languages import SCRIPTS, is_in_scripts, looks_swapped
from keras_transformer.data.mixtures import Mixture, TaggedText
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_files import Pair
from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code
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
    parts: list[ParallelText] = []
    filtered = filtered_text(text, options, parts)
    left_out = num_left_out(parts)
    return (filtered if left_out else text), left_out


def filtered_text(
    text: ParallelText, options: FilterOptions, parts: list[ParallelText]
) -> ParallelText:
    """Return the text of the pairs that `filter_pairs` keeps. Nothing is read yet.

    Its first complete pass chooses the pairs and raises the errors. Later passes repeat the choice,
    for which a byte per pair is kept in memory.

    Args:
        text: the text.
        options: `FilterOptions`.
        parts: list of the filtered parts before this text, to which its own are added.
    """
    if isinstance(text, TaggedText):
        return text.of(filtered_text(text.untagged, options, parts))
    if isinstance(text, Mixture):
        return Mixture([filtered_text(part, options, parts) for part in text.texts], text.ratios)
    _validate_text(text, options)
    others = [x for x in parts if options.drop_duplicates and _languages(x) == _languages(text)]
    is_kept = bytearray()

    def pairs() -> Iterator[Pair]:
        if is_kept:
            yield from compress(text, is_kept)
            return
        digests = {_digest(pair) for other in others for pair in other}
        reason_for, counts, kept = _reasons(text, options, digests), Counter(), bytearray()
        for pair in text:
            reason = reason_for(pair)
            counts[reason] += 1
            kept.append(reason is None)
            if reason is None:
                yield pair
        filtered.left_out = _report(text, counts)
        is_kept[:] = kept

    filtered = text.derived(pairs, "filter", asdict(options), *(x.key for x in others))
    parts.append(filtered)
    return filtered


def num_left_out(parts: Iterable[ParallelText]) -> dict[str, int]:
    """Return the number of removed pairs per reason, in all parts of a text."""
    return dict(sum((Counter(part.facts()["left_out"]) for part in parts), Counter()))


def _report(text: ParallelText, counts: Counter[str | None]) -> dict[str, int]:
    """Log the number of pairs of a text per reason, and return it."""
    if looks_swapped(text, *_languages(text)):
        logger.warning(
            "%r looks swapped: its sources look like %s, and its targets like %s.",
            text,
            text.target_language,
            text.source_language,
        )
    left_out = {reason: counts[reason] for reason in _REASONS if counts[reason]}
    told = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    if not counts[None]:
        raise UserError(
            f"The filters remove all pairs of {text!r}: {told}. Expected other options."
        )
    if left_out:
        logger.info(
            "%s of %s pairs of %s are removed: %s.",
            f"{sum(left_out.values()):,}",
            f"{len(text):,}",
            f"{text.name} {'-'.join(_languages(text))}",
            told,
        )
    return left_out


# In the order of the checks.
_REASONS = ("blank", "too long", "ratio", "identical", "duplicate", "script")


def _reasons(
    text: ParallelText, options: FilterOptions, seen: set[bytes]
) -> Callable[[Pair], str | None]:
    """Return a function that gives the reason to remove a pair, or None.

    It must be called for all pairs of one pass in order: pairs in `seen` are duplicates, and each
    pair is added to `seen`.
    """
    scripts = [SCRIPTS.get(language_code(name), ()) for name in _languages(text)]

    def is_duplicate(pair: Pair) -> bool:
        size, _ = len(seen), seen.add(_digest(pair))
        return len(seen) == size

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


def _digest(pair: Pair) -> bytes:
    # 8 bytes, so that millions of pairs need not be held in memory.
    return hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest()


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
