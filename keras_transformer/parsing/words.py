"""Words of a sentence, from raw text or from lists of words.

Each treebank has its own rules for words, and a parser works best on text that is split like its
training sentences. So the parser's metadata name one of these rules:

- `"treebank"`: the Penn Treebank's rules, by nltk's `TreebankWordTokenizer`. A hyphen is part of
  its word: `well-known`.
- `"craft"`: the rules of CRAFT's articles of biology: `p53 - dependent`, `Fgf9 + / −`,
  `5 ' - GGT`.
- `"ewt"`: the rules of the English Web Treebank, of web text and email: `12 - year - old`,
  `e-mail`, `7:30`, `do nt`, `!!!`, `:-)`.

All write round brackets as `-LRB-` and `-RRB-`. The first two write straight quotes as two
backquotes and two apostrophes, and the third keeps them.
"""

import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import escape
from keras_transformer.validation import check_choice

DEFAULT_WORD_TOKENIZER = "treebank"

# CRAFT and EWT split at hyphens, but not after these prefixes: their training trees keep them more
# often than not. (CRAFT also keeps `10-fold` and `X-ray`, EWT `e-mail` and `pro-India`.)
_PREFIXES = (
    "anti|auto|co|cross|extra|hetero|inter|intra|mid|multi|non|over|pan|post|pre|pseudo|re|semi|sub"
)
_EWT_PREFIXES = rf"{_PREFIXES}|arch|counter|e|ex|neo|pro|psycho|socio"
# A full stop is part of these abbreviations and of initials, except at the end of the sentence.
_ABBREVIATIONS = (
    "al|ca|cat|cf|chr|Co|Corp|Drs?|etc|Figs?|figs?|Inc|Jr|Ltd|[Nn]os?|Prof|[Rr]efs?|St|vs|[A-Z]"
)
_EWT_ABBREVIATIONS = (
    "[Aa]rrv|[Aa]ve|Blvd|Capt|cf|Co|Col|Corp|Dept|Drs?|etc|[Ee]xt|Ft|Gen|Gov|Inc|Jr|lb|Lt|Ltd"
    "|Mrs?|Ms|Mt|oz|Prof|Reps?|Rev|Sen|Sgt|Sr|St|vs|[A-Z]"
    "|Jan|Feb|Aug|Sept?|Oct|Nov|Dec|Mon|Tues?|Wed|Thurs?|Fri|Sat|Sun"
)
_IONS = "(?:Ca|Cu|Fe|Mg|Mn|Zn)[23]|K|NADP?|Na"
# Marks that are always words of their own. All other characters except white space and full stops
# belong to words: letters and digits of any script, accents, emoji and their joiners.
_MARKS = r"\-‐‑–—−/+=<>~∼±×·•%&#*^|\[\](){},;:?!`\"“”„«»'‘’′″…°¤™®©→←↔≤≥$€£"
_LETTER = rf"[^\s.{_MARKS}]"
_ADDRESS = r"(?:(?:https?|ftp)://|www\.|mailto:)\S*[\w/]"  # without the marks after it
_CRAFT_ONLY = rf"""
    | \d{{1,3}}(?:,\d{{3}})+(?!,?\d)(?:\.\d+)?      # 10,000
    | °[CF]\b
    | \*+ | \.\.+ | ``
    | (?:{_IONS})\+(?!/)                            # Ca2+
    | [Xx]-rays?\b
    | \d[\d.]*-fold\b
    | [^\W\d_]['’][A-Z]\w+                          # O'Brien
"""
_EWT_ONLY = r"""
    | [\w.%+-]{1,64}@\w[\w.-]*\w
    | >?[:;=][-^]?[()](?!\w) | (?<!\w)[:;=]-?[DOP/](?!\w) | (?<!\S)\(:(?!\S) | \^_\^
    | \d+(?:-\d+){2,}\b | \b\d{3}-\d{4}\b               # dates and numbers of telephones
    | [+]?\d+(?:[/:.,]\d+)+ | \d+['’]s\b | (?<!\w)['’]\d\ds?\b
    | [.?!][.?!]+ | ([=*~#+<>|-])\1+ | ''|’’|‘’|``
    | U?S?\$
    | [A-Z]+&[A-Z]+\b | \b[a-z]&[a-z]\b | \b[A-Za-z]/[A-Za-z]\b | \bw/(?:o|out)?\b
    | (?i:gon(?=na\b) | wan(?=na\b) | got(?=ta\b))
    | (?i:(?:[dw]o|d(?:oes|id)|[ci]a|is|are|wa?ere|was|ha[sd]|have|(?:w|c|sh)ould)(?=nt\b))
    | \b[Ii](?=m\b|ve\b) | \b[Tt]hat(?=s\b)
    | [^\W\d_]+['’](?!(?i:ll|re|ve)\b)(?![Tt]\b)[^\W\d_]{2,}  # Qa'ida
"""


def _pattern(only: str, abbreviations: str, prefixes: str) -> re.Pattern[str]:
    """Return the pattern of a treebank's words, of which `only` has the alternatives of its own."""
    return re.compile(
        rf"""
      {_ADDRESS}
    | can(?=not\b)
    | {_LETTER}+?(?=(?i:n['’]t\b)) | (?i:n['’]t\b)   # did n't
    {only}
    | \.\d+                                         # .05
    | ['’`](?i:s|ll|re|ve|d|m)\b
    | (?:[^\W\d_]\.){{2,}}                          # e.g.
    | (?:{abbreviations})\.(?!\w|\s*[\])}}"”’']*\s*$)
    | (?:(?i:{prefixes})-)?{_LETTER}+(?:\.{_LETTER}+)*
    | \S
    """,
        re.VERBOSE,
    )


_CRAFT = _pattern(_CRAFT_ONLY, _ABBREVIATIONS, _PREFIXES)
_EWT = _pattern(_EWT_ONLY, _EWT_ABBREVIATIONS, _EWT_PREFIXES)


def tokenize_words(text: str, name: str = DEFAULT_WORD_TOKENIZER) -> list[str]:
    """Split a sentence into words.

    Args:
        text: a sentence of running text.
        name: name of the rules: a key of `WORD_TOKENIZERS`.

    Returns:
        The words, in the spelling of the treebank.

    Raises:
        UserError: if there are no such rules.
    """
    check_choice("word_tokenizer", name, WORD_TOKENIZERS)
    return WORD_TOKENIZERS[name](text)


def _treebank_words(text: str) -> list[str]:
    from nltk.tokenize import TreebankWordTokenizer

    return TreebankWordTokenizer().tokenize(text, convert_parentheses=True)


def _craft_words(text: str) -> list[str]:
    words: list[str] = []
    is_quoted = False
    for match in _CRAFT.finditer(text):
        word = match[0]
        if word == '"':
            word, is_quoted = ("''" if is_quoted else "``"), not is_quoted
        elif word.startswith(("’", "n’")) and len(word) > 1:
            word = word.replace("’", "'")
        words.append(escape(word))
    return words


def _ewt_words(text: str) -> list[str]:
    return [escape(match[0]) for match in _EWT.finditer(text)]


WORD_TOKENIZERS: Mapping[str, Callable[[str], list[str]]] = MappingProxyType(
    {"treebank": _treebank_words, "craft": _craft_words, "ewt": _ewt_words}
)


class Words(NamedTuple):
    """A sentence as input of a parser."""

    words: list[str]
    tags: list[str | None]  # one per word; None for a word whose tag the parser predicts


# A string, or a list of words and of pairs (word, tag).
Sentence: TypeAlias = str | Sequence[str | tuple[str, str | None]]


def read_words(sentence: Sentence, word_tokenizer: str = DEFAULT_WORD_TOKENIZER) -> Words:
    """Read a sentence in any of its forms.

    Args:
        sentence: a string, or a list in which each item is a word or a pair (word, tag).
        word_tokenizer: name of the rules that split a string.

    Returns:
        `Words`. Brackets in tags are written as in trees: `(`, which some taggers return, becomes
        -LRB-.

    Raises:
        UserError: if a word or a tag is not a string, is empty, or contains ASCII white space or
            half of a character (a surrogate); but a tag may be None.
    """
    if isinstance(sentence, str):
        pairs: list[Any] = [(word, None) for word in tokenize_words(sentence, word_tokenizer)]
    elif not isinstance(sentence, Iterable):
        raise UserError(
            f"A sentence must be a string or a list of words. Received: {reprlib.repr(sentence)}"
        )
    else:
        pairs = [item if _is_pair(item) else (item, None) for item in sentence]
    for word, tag in pairs:
        if not _can_be_in_a_tree(word):
            raise UserError(
                "A word must be a string that is not empty and contains neither ASCII white space "
                f"nor half of a character. Received: {word!r}"
            )
        if not (tag is None or _can_be_in_a_tree(tag)):
            raise UserError(
                "A word's tag must be None or a string that could be a word. "
                f"Received: {(word, tag)!r}"
            )
    return Words([word for word, _ in pairs], [tag and escape(tag) for _, tag in pairs])


def _can_be_in_a_tree(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[^ \t-\r\ud800-\udfff]+", text) is not None


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2
