"""Patterns of text that a translation copies: placeholders, addresses, tags and entities."""

import re

# A tag of markup: names, attributes with values. `a <b and c> d` and `<a@b.c>` are not tags.
# Quotes have backslashes in strings of programs.
TAG = (
    r"</?[A-Za-z][\w:.-]*"
    r"""(?:\s+[\w:.@-]+\s*=\s*(?:\\?"[^"<]*"|\\?'[^'<]*'|[^\s<>"'=]+))*\s*/?>"""
)
ENTITY = r"&(?:#\d+|#[xX][\da-fA-F]+|[A-Za-z][A-Za-z\d]*);"


def _balanced(depth: int) -> str:
    """Return a pattern of text whose braces are balanced, up to a depth."""
    inner = r"[^{}]"
    for _ in range(depth):
        inner = rf"(?:[^{{}}]|\{{{inner}*+\}})"
    return f"{inner}*+"


# A `%` before a space is a percent sign. `%d%%`, `%1$s`, `%(name)s`, `%-5.2f`, `%dpx`; `%1`, `%L1`.
_PRINTF = (
    r"%%"
    r"|%(?:\d+\$)?(?:\([^()\s]*\))?[-+#0']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh?|ll?|[qjztL])?"
    r"[A-KM-Za-z@](?![^\W\d_])"
    r"|(?<!\d)%(?:\d+\$)?[\d.]*(?:ll?|z)?[diuxs](?![^\W\d_]{3})"
    r"|(?<!\d)%L?\d+%?"
    r"|%<\w+>[\d.]*[A-Za-z]"
)
_BRACES = (
    rf"\{{\s*\w+\s*,\s*(?:plural|select|selectordinal|number|date|time|choice)\b{_balanced(5)}\}}"
    r"|\{\{\{?[^{}]*+\}?\}\}|\{%[^{}]*\}|\$\{[^{}]*+\}"
    r"|[$#@%]?\{(?:[^{}\s]|\{[^{}\s]*+\})*+\}"
)
_VARIABLE = r"(?<![\w$])\$[A-Za-z_]\w*\|?"
# A point or an unpaired parenthesis after an address does not belong to it.
_IN_URL = r"""(?:[^\s<>()"“”«»{}|\\^`。，、；：！？）」』】》&]|&(?!quot;|[lg]t;|nbsp;))"""
_URL = (
    r"(?<![A-Za-z\d])(?:(?:https?|ftps?|file|git|ssh|sftp|svn|data)://|mailto:|www\.(?=\w))"
    rf"(?:{_IN_URL}|\({_IN_URL}*\))*"
    rf"(?:(?![.,;:!?'*_~\]…]){_IN_URL}|\({_IN_URL}*\)|(?<=&amp);)"
)
_EMAIL = r"(?<![\w.+-])(?<!\w['’])[\w+-](?:[\w.+-]|['’](?=\w)){0,63}@[\w-]+(?:\.[\w-]+)+"
_PRIVATE = "[\ue000-\uf8ff]"  # characters without a meaning of their own

PLACEHOLDER = "|".join((_URL, _EMAIL, _BRACES, _PRINTF, _VARIABLE, _PRIVATE))
SYMBOLS = tuple(map(chr, range(0xEE10, 0xEE1A)))
"""The reserved symbols that stand for placeholders, if they are tokens of a vocabulary."""
# What plain text has of it.
UNTRANSLATED = re.compile(f"{TAG}|{ENTITY}|{PLACEHOLDER}")
