"""Checks whether a text is in its declared language, or in the other language of a translator.

Both languages are known, so no general language detection is needed: scripts distinguish most pairs
of languages, and frequent words distinguish some languages in Latin letters. Other pairs are not
checked.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import islice
from types import MappingProxyType

from keras_transformer.language_codes import language_code

# The scripts of languages that are not written in Latin letters, as Unicode names them.
_SCRIPTS = {
    **dict.fromkeys(("be", "bg", "kk", "ky", "mk", "mn", "ru", "tg", "uk"), ("CYRILLIC",)),
    **dict.fromkeys(("ar", "fa", "ps", "ug", "ur"), ("ARABIC",)),
    **dict.fromkeys(("he", "yi"), ("HEBREW",)),
    **dict.fromkeys(("hi", "mr", "ne"), ("DEVANAGARI",)),
    **dict.fromkeys(("am", "ti"), ("ETHIOPIC",)),
    **{"el": ("GREEK",), "hy": ("ARMENIAN",), "ka": ("GEORGIAN",), "th": ("THAI",)},
    **{"bn": ("BENGALI",), "ta": ("TAMIL",), "te": ("TELUGU",), "ml": ("MALAYALAM",)},
    **{"gu": ("GUJARATI",), "kn": ("KANNADA",), "km": ("KHMER",), "lo": ("LAO",)},
    **{"my": ("MYANMAR",), "pa": ("GURMUKHI",), "si": ("SINHALA",), "sr": ("CYRILLIC", "LATIN")},
    "zh": ("CJK", "BOPOMOFO"),
    "ja": ("CJK", "HIRAGANA", "KATAKANA"),
    "ko": ("HANGUL", "CJK"),
}
_LATIN = (
    "af az ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it lt lv ms mt nb nl nn no pl pt"
    " ro sk sl sq sv sw tl tr vi"
)
SCRIPTS = MappingProxyType({**dict.fromkeys(_LATIN.split(), ("LATIN",)), **_SCRIPTS})
"""The scripts of a language by its code, as the Unicode names of letters begin."""

# Frequent words, most of them function words.
_WORDS = {
    "de": "der die das und ist nicht ein eine einen einem einer mit den dem des im auf für von zu "
    "sich er sie es ich wir auch wird werden sind haben hat wie aus bei nach zum zur",
    "en": "the of and to in is that it for was with on he she they you we his her this are be at "
    "as have has from not an by or which their",
    "es": "el la los las un una y que de en con por para no se su es lo del al como está son más",
    "fr": "le la les un une des et est que qui dans pour pas sur avec ce il elle nous vous je au "
    "aux du ne se sont plus",
    "it": "il lo la gli le un una e che di non è per con del della nel sono si da dei alla più",
    "nl": "de het een van en dat niet is met op te zijn voor aan er ik je hij zij wij ook naar",
    "pt": "o os as um uma e que não de do da em no na para com por se é são mais dos das ao",
}
# A vote is a sentence with more words or letters of one language.
_MIN_VOTES = 10
_MIN_SHARE = 0.8
_SAMPLE = 1000  # pairs


class LanguageCheck:
    """A count of the sentences that look like each of two languages.

    Args:
        expected: code of the declared language, or None if it is not known.
        other: code of the language that the text may be in by mistake, or None.
    """

    def __init__(self, expected: str | None = None, other: str | None = None):
        self.expected, self.other = expected, other
        codes = [language_code(language or "") for language in (expected, other)]
        scripts = [{*SCRIPTS.get(code, ())} for code in codes]
        words = [{*_WORDS.get(code, "").split()} for code in codes]
        self._scripts = [tuple(mine - theirs) for mine, theirs in (scripts, scripts[::-1])]
        self._words = [mine - theirs for mine, theirs in (words, words[::-1])]
        if not all(scripts) or not any(self._scripts):
            self._scripts = None
        self._knows_words = all(words)
        self._votes = [0, 0]

    def add(self, sentence: str) -> None:
        """Count a sentence."""
        if self._scripts:
            counts = [sum(is_of(x, scripts) for x in sentence) for scripts in self._scripts]
        elif self._knows_words:
            found = re.findall(r"[^\W\d_]+", sentence.lower())
            counts = [sum(word in words for word in found) for words in self._words]
        else:
            return
        if counts[0] != counts[1]:
            self._votes[counts[1] > counts[0]] += 1

    def add_all(self, sentences: Iterable[str]) -> str:
        """Count sentences, and return a warning if they look like the other language, or ""."""
        for sentence in sentences:
            self.add(sentence)
        if not self.is_other:
            return ""
        return f"Sources look like {self.other}, but the model translates from {self.expected}."

    @property
    def is_other(self) -> bool:
        """Whether nearly all sentences that distinguish the languages look like the other one."""
        _, others = self._votes
        return others >= _MIN_VOTES and others >= _MIN_SHARE * sum(self._votes)


def looks_swapped(pairs: Iterable[tuple[str, str]], source: str, target: str) -> bool:
    """Return whether each side of a text looks like the language of the other side.

    Args:
        pairs: the pairs, of which the first 1,000 are read.
        source: code of the language of the first sentences.
        target: code of the language of the second sentences.
    """
    checks = LanguageCheck(source, target), LanguageCheck(target, source)
    for pair in islice(pairs, _SAMPLE):
        for check, sentence in zip(checks, pair):
            check.add(sentence)
    return all(check.is_other for check in checks)


@cache
def is_of(letter: str, scripts: tuple[str, ...]) -> bool:
    """Return whether a character is a letter of one of the scripts."""
    return unicodedata.name(letter, "").removeprefix("FULLWIDTH ").startswith(scripts)
