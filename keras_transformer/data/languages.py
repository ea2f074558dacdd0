"""Languages: their scripts, words and abbreviations, and whether a text is in one of two.

Both languages of a text are known, so no general language detection is needed: scripts distinguish
most pairs of languages, and frequent words distinguish some languages in Latin letters. Other pairs
are not checked.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from keras_transformer.language_codes import language_code


class Language(NamedTuple):
    """The properties of a language, as `languages.tsv` describes them."""

    scripts: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    titles: frozenset[str] = frozenset()
    abbreviations: frozenset[str] = frozenset()


def read_table(path: Path) -> list[list[str]]:
    """Return the rows of a file of cells between tabs. "-" is empty, and `#` begins a comment."""
    lines = (x for x in path.read_text("utf-8").split("\n") if x and not x.startswith("#"))
    return [["" if cell == "-" else cell for cell in line.split("\t")] for line in lines]


LANGUAGES = MappingProxyType(
    {
        code: Language(tuple(scripts.split()), *(frozenset(words.split()) for words in others))
        for code, scripts, *others in read_table(Path(__file__).with_name("languages.tsv"))
    }
)
SCRIPTS = MappingProxyType({code: x.scripts for code, x in LANGUAGES.items() if x.scripts})
"""The scripts of a language by its code, as the Unicode names of letters begin."""

# A vote is a sentence with more words or letters of one language.
_MIN_VOTES = 10
_MIN_SHARE = 0.8
_SAMPLE = 1000  # pairs


class LanguageVotes:
    """A count of the sentences that look like each of two languages.

    Args:
        expected: code of the declared language, or None if it is not known.
        other: code of the language that the text may be in by mistake, or None.
    """

    def __init__(self, expected: str | None = None, other: str | None = None):
        self.expected, self.other = expected, other
        codes = [language_code(language or "") for language in (expected, other)]
        scripts = [{*SCRIPTS.get(code, ())} for code in codes]
        words = [LANGUAGES.get(code, Language()).words for code in codes]
        self._scripts = [tuple(mine - theirs) for mine, theirs in (scripts, scripts[::-1])]
        self._words = [mine - theirs for mine, theirs in (words, words[::-1])]
        if not all(scripts) or not any(self._scripts):
            self._scripts = None
        self._knows_words = all(words)
        self._votes = [0, 0]

    def add(self, sentence: str) -> None:
        """Count a sentence."""
        if self._scripts:
            counts = [sum(is_in_scripts(x, scripts) for x in sentence) for scripts in self._scripts]
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
        """True if nearly all sentences that distinguish the languages look like the other one."""
        _, others = self._votes
        return others >= _MIN_VOTES and others >= _MIN_SHARE * sum(self._votes)


def looks_swapped(pairs: Iterable[tuple[str, str]], source: str, target: str) -> bool:
    """Return whether each side of a text looks like the language of the other side.

    Args:
        pairs: the pairs. Only the first 1,000 are read.
        source: code of the language of the first sentences.
        target: code of the language of the second sentences.
    """
    votes = LanguageVotes(source, target), LanguageVotes(target, source)
    for pair in islice(pairs, _SAMPLE):
        for side, sentence in zip(votes, pair):
            side.add(sentence)
    return all(side.is_other for side in votes)


@cache
def is_in_scripts(letter: str, scripts: tuple[str, ...]) -> bool:
    """Return whether a character is a letter of one of the scripts."""
    return unicodedata.name(letter, "").removeprefix("FULLWIDTH ").startswith(scripts)
