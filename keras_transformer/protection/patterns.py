"""Placeholders, addresses and tags of plain text, found by patterns."""

import re
from collections.abc import Iterable
from typing import cast

from keras_transformer import untranslated
from keras_transformer.errors import UserError
from keras_transformer.validation import check_strings

# Not entities, which Moses's tokenizer writes for apostrophes: models read them.
_FOUND = re.compile(f"{untranslated.TAG}|{untranslated.PLACEHOLDER}")
# A text without these characters has nothing to protect.
_HINT = re.compile(r"[%{<@$\ue000-\uf8ff]|://|mailto:|www\.")
_TAG = re.compile(r"<(/?)([\w:.-]+)(?:\s[^<]*?)?(/?)>")
_VOID = frozenset(
    "area base basefont br col embed hr img input link meta param source track wbr".split()
)
_JOINERS = "[\u200d\ufe0e\ufe0f]*"  # characters in emoji that join others, or choose their style

# Sets of patterns by their names: placeholders of some libraries that are text elsewhere.
NAMED = {
    "i18next": (r"</?\d+\s*/?>", r"\$t\((?:[^()]|\([^()]*\))*+\)"),
    "laravel": (r"(?<![\w:]):[A-Za-z_]\w*(?![\w:])",),
}


def compiled(patterns: Iterable[str | re.Pattern[str]]) -> tuple[re.Pattern[str], ...]:
    """Compile the regular expressions of parts to keep.

    Args:
        patterns: list of strings: regular expressions, or names of `NAMED` sets of them; or the
            result of this function.

    Raises:
        UserError: if one of them is not a regular expression.
    """
    if isinstance(patterns, tuple) and all(isinstance(x, re.Pattern) for x in patterns):
        return cast(tuple[re.Pattern[str], ...], patterns)
    names = check_strings("protect", cast(Iterable[str], patterns))
    return tuple(_compiled(x) for name in names for x in NAMED.get(name, (name,)))


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UserError(
            f"`protect` must be regular expressions. Received: {pattern!r}: {error}"
        ) from None


def find(
    text: str, patterns: Iterable[re.Pattern[str]] = (), lacked: str = ""
) -> list[tuple[int, int]]:
    """Return the start and stop of each placeholder, address and tag of a text, in order.

    Args:
        text: a string.
        patterns: further patterns. Parts that overlap become one.
        lacked: characters that are parts too, each with the characters that change its style.
    """
    first = re.compile(f"{_FOUND.pattern}|[{re.escape(lacked)}]{_JOINERS}") if lacked else _FOUND
    used = [first, *patterns] if lacked or _HINT.search(text) else patterns
    found = [match.span() for pattern in used for match in pattern.finditer(text)]
    if not patterns:
        return found
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(found):
        if start < stop and (not merged or start >= merged[-1][1]):
            merged.append((start, stop))
        elif start < stop:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
    return merged


def tag_kind(raw: str) -> tuple[str, str] | None:
    """Return the kind of a tag, and its name; or None for another string.

    The kind is the kind of a `Span`, or `"empty"` for a tag such as `<x/>`.
    """
    if not (match := _TAG.fullmatch(raw)):
        return None
    is_end, name, is_alone = match.groups()
    name = name.lower()
    if name in _VOID:
        return ("mark" if name == "wbr" else "separator"), name
    return ("empty" if is_alone else "close" if is_end else "open"), name
