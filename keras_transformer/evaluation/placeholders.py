"""Scores of placeholders and markup, which translations must copy."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from keras_transformer.untranslated import UNTRANSLATED
from keras_transformer.validation import check_one_per_source, check_strings

_PLACE = re.compile(r"^%\d+\$")


def placeholders(text: str) -> Counter[str]:
    """Return the number of occurrences of each placeholder, tag and address in a text.

    Positions of arguments are ignored: `%2$s` counts as `%s`, because a translation may have
    another order.
    """
    return Counter(_PLACE.sub("%", found[0]) for found in UNTRANSLATED.finditer(text))


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
