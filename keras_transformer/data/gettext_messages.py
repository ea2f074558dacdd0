"""Messages of programs as sentences: one line each, without marks of keyboard accelerators."""

import re

from keras_transformer.data.text_files import Pair

# A key that stands for who translated the catalog, and contexts of early KDE.
_CREDITS = re.compile(
    r"translator[-_ ]credits|(?:_: )?(?:NAME|EMAIL)S? OF TRANSLATORS|Your (?:names|emails)", re.I
)
_CONTEXT = re.compile(r"_: .*\n")
_PLURAL = "_n: "
_SPACE = re.compile(r"[ \t\r\n]+")
# %s and the like, and the names in braces: what is left of them tells nothing.
_PLACEHOLDER = re.compile(r"%(?:\d+\$)?[-+#0-9.*']*(?:hh?|ll?|[qjzt])?[a-zA-Z]|\{[^{}]*\}")

_AFTER = re.compile(r"\s*\(([_&~])[A-Za-z0-9]\)")  # as in Chinese: 文件(_F)
_WORD = r"[^\W_]"
_MARKS = {
    "_": re.compile(rf"_(?={_WORD})"),
    "&": re.compile(rf"&(?!#?\w+;)(?={_WORD})"),  # no entity of HTML
    "~": re.compile(rf"~(?={_WORD})"),
}


def clean_message(english: str, translation: str) -> Pair | None:
    """A message and its translation, each one line as a user reads it; None if there is nothing to
    translate in it."""
    if _CREDITS.fullmatch(english.strip()) or english.startswith(_PLURAL):
        return None
    english = _CONTEXT.sub("", english, count=1) if english.startswith("_: ") else english
    english, translation = (_SPACE.sub(" ", text).strip(" ") for text in (english, translation))
    if not translation or not any(map(str.isalpha, _PLACEHOLDER.sub("", english))):
        return None
    return without_accelerators(english, translation)


def without_accelerators(english: str, translation: str) -> Pair:
    """Takes out the mark before the letter that a menu's item is called by: `_`, `&` or `~`.

    The same characters stand in names, such as `max_length` and `AT&T`. It is a mark if there is
    just one, which begins a word (`Save _As`) or is in the midst of one that is written as labels
    are (`E_xit`), and the other side does not have the same word (but for `_OK`); or if it is put
    behind, in parentheses (`文件(_F)`).
    """
    for mark, pattern in _MARKS.items():
        found = [list(pattern.finditer(text)) for text in (english, translation)]
        if (after := _AFTER.search(translation)) and after[1] == mark and after[0] not in english:
            translation = translation[: after.start()] + translation[after.end() :]
            found[1] = []
        elif len(found[1]) > 1:
            continue
        if len(found[0]) != 1:
            continue
        words = [_word_at(x[0]) for x in found if x]
        if words[0] in translation.split() and not re.match(rf"{mark}[A-Z]", words[0]):
            continue
        begins = any(word.startswith(mark) for word in words)
        if after or begins or words[0].replace(mark, "").istitle():
            english, translation = (
                pattern.sub("", text) if matches else text
                for text, matches in zip((english, translation), found)
            )
    return english, translation


def _word_at(found: re.Match) -> str:
    """The word, up to spaces, in which a mark is, from the first letter or mark on."""
    text, start = found.string, found.start()
    begin = text.rfind(" ", 0, start) + 1
    end = text.find(" ", start)
    return re.sub(r"^[^\w&~]+", "", text[begin : None if end < 0 else end])
