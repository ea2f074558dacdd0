"""Characters at which a line of text, or a field of a table, ends for some program."""

import re

# All characters at which `str.splitlines` splits, and the tab.
BREAKS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_BREAK = re.compile(f"[{BREAKS}]")


def without_breaks(text, source=""):
    """Replace each line break and tab of a text by a space, except those that its source has too.

    So the translation of one line is one line. A model whose vocabulary falls back to bytes can
    predict, and even more often draw, a line feed that nothing in the source asks for.

    Args:
        text: a string.
        source: the string that it was made from.

    Returns:
        A string of the same length.
    """
    return _BREAK.sub(lambda match: match[0] if match[0] in source else " ", text)
