"""Fonts for the letters of any script, among those that the machine has."""

import functools
import unicodedata


def families_for(texts):
    """The names of fonts that have all letters of some texts, as far as the machine has any.

    Matplotlib's own font has no Chinese, for example, and others are looked for only where it lacks
    a letter.

    Args:
        texts: iterable of strings.

    Returns:
        A list for matplotlib's `font.family`, its own first: of each letter the first that has it
        draws it.
    """
    import matplotlib
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    families = list(matplotlib.rcParams["font.family"])
    lacking = set(map(ord, "".join(texts))) - _letters(findfont(FontProperties()))
    # A face that is neither bold nor slanted, if there is one. "Last Resort" has a box for each.
    fonts = (font for font in fontManager.ttflist if not font.name.startswith("Last Resort"))
    plainest = sorted(fonts, key=lambda font: (font.style != "normal", abs(font.weight - 400)))
    for font in plainest:
        if not lacking:
            break
        if found := lacking & _letters(font.fname):
            families.append(font.name)
            lacking -= found
    return families


def width_of(text):
    """About how many Latin letters are as wide as a text: a Chinese character is as two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


@functools.cache
def _letters(path):
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(path).get_charmap())
