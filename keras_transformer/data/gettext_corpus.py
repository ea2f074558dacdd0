"""Parallel corpora from message catalogs of gettext, compiled (`.mo`) or as text (`.po`)."""

import gettext
import logging
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from keras_transformer.data.text_files import (
    Pair,
    Pairs,
    check_folder,
    find_files,
    read_lines,
    readable,
    swap_sides,
    tab_separated_pairs,
)
from keras_transformer.data.train_val_split import with_held_out
from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)

SYSTEM = Path("/usr/share/locale")
ENGLISH = "en"  # what programs are written in: the language of the keys

_FILES = {"train": "train.tsv", "val": "dev.tsv", "test": "test.tsv"}
# Which catalogs are of a language whose name says no script.
_SAME = {"zh": ("zh_cn", "zh_hans")}

_MAGIC = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}  # the byte order
_CONTEXT, _FORM = "\x04", "\0"  # what ends a context, and what is between plural forms
_PO_LINE = re.compile(
    r'(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*)?"((?:[^"\\]|\\.)*)"$'
)
_BEGIN = re.compile(r"#|msgctxt\b|msgid\b")  # what a message begins with
_FIRST_FORM = "msgstr[0]"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}  # those of \\ and \" are themselves
_SINGLE, _MANY = 1, 5  # the numbers whose forms go with the English singular and the plural

# A key that stands for who translated the catalog, and contexts of early KDE.
_CREDITS = re.compile(
    r"translator[-_ ]credits|(?:_: )?(?:NAME|EMAIL)S? OF TRANSLATORS|Your (?:names|emails)", re.I
)
_KDE_CONTEXT = re.compile(r"_: .*\n")
_KDE_PLURAL = "_n: "
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


def open_catalogs(
    split: str, source: str, target: str, data_dir: Path | None, hold_out: bool
) -> Pairs:
    """Returns the function that starts a pass over the pairs of a split.

    Files `en-XX/train.tsv`, `dev.tsv` and `test.tsv` of lines English TAB XX go before catalogs.
    With `hold_out`, `"train"` lacks what is held out for splits that have no files.

    Raises:
        UserError: if there is no message in both languages, or a catalog is damaged.
    """
    files = {name: _prepared(data_dir, name, source, target) for name in _FILES}
    prepared = files[split]
    if prepared and split != "train":
        return prepared
    whole = files["train"]
    if whole is None:
        pairs = catalog_pairs(_folder(data_dir), source, target)
        whole = partial(iter, pairs)
    missing = [name for name in ("val", "test") if not files[name]]
    if not missing or (split == "train" and not hold_out):
        return whole
    # By the English messages; or those of one language, in both directions the same.
    languages = [source, target]
    key = languages.index(ENGLISH if ENGLISH in languages else min(languages))
    return with_held_out(whole, split, missing, key)


def catalog_pairs(folder: Path, source: str, target: str) -> list[Pair]:
    """The distinct pairs of messages in the catalogs of a folder.

    A catalog is a `.mo` or `.po` of which the name, or that of a folder that holds it, is its
    language: `de/LC_MESSAGES/git.mo`, `po/de.po`. Messages are those of English with their
    translations; of two other languages, what both translate the same message to.

    Args:
        folder: the folder, whose subfolders are read too.
        source: language code of the first side, such as `"en"`, `"de"`, `"zh_CN"`; `"zh"` is the
            latter, and a language finds its own country, as `"fr"` does `fr_FR`.
        target: language code of the second.

    Raises:
        UserError: if there are no catalogs of a language, no messages in both, or one is damaged.
    """
    sides = [_messages(folder, language) for language in (source, target)]
    if source == ENGLISH:
        pairs = sides[1].values()
    elif target == ENGLISH:
        pairs = swap_sides(sides[0].values())
    else:
        pairs = ((text, sides[1][key][1]) for key, (_, text) in sides[0].items() if key in sides[1])
    pairs = list(dict.fromkeys(pairs))
    if not pairs:
        raise UserError(f"The catalogs in {folder} have no message in both {source} and {target}.")
    logger.info("%s messages in %s and %s", f"{len(pairs):,}", source, target)
    return pairs


def _messages(folder: Path, language: str) -> dict[tuple, Pair]:
    """(English, translation) by the catalog's place, whatever its language, and the key there."""
    messages = {}
    if language == ENGLISH:
        return messages
    catalogs = [path for path in _all_catalogs(folder) if _is_of(path, folder, language)]
    if not catalogs:
        raise UserError(
            f"There are no catalogs of {language} in {folder}. Expected files such as "
            f"{language}/LC_MESSAGES/NAME.mo or {language}.po." + _hint(folder, language)
        )
    for path in catalogs:
        place = tuple(name for name in _names(path, folder) if not _is_same(name, language))
        for message in read_catalog(path):
            if pair := clean_message(message.english, message.translation):
                messages[place, message.key] = pair
    return messages


def _hint(folder: Path, language: str) -> str:
    begins = _code(language).partition("_")[0] + "_"
    names = {name for path in _all_catalogs(folder) for name in _names(path, folder)}
    near = sorted(name for name in names if _code(name).startswith(begins))
    return f" There are: {', '.join(near)}." if near else ""


def _all_catalogs(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for end in ("mo", "po") for path in folder.rglob(f"*.{end}")))


def _names(path: Path, folder: Path) -> list[str]:
    """The names that may say of which language a catalog is."""
    *folders, name = path.relative_to(folder).parts
    return [*folders, *Path(name).stem.split(".")]


def _is_of(path: Path, folder: Path, language: str) -> bool:
    return any(_is_same(name, language) for name in _names(path, folder))


def _is_same(name: str, language: str) -> bool:
    name, wanted = _code(name), _code(language)
    return name in (wanted, f"{wanted}_{wanted}", *_SAME.get(wanted, ()))


def _code(language: str) -> str:
    return language.lower().replace("-", "_")


def _folder(data_dir: Path | None) -> Path:
    if data_dir is None:
        data_dir = SYSTEM
    check_folder(data_dir)
    own = data_dir / "catalogs"
    return own if own.is_dir() else data_dir


def _prepared(data_dir: Path | None, split: str, source: str, target: str) -> Pairs | None:
    other = source if target == ENGLISH else target
    paths = find_files(data_dir, "catalogs", [f"{ENGLISH}-{other}/{_FILES[split]}"])
    if not paths or ENGLISH not in (source, target):
        return None
    pairs = partial(tab_separated_pairs, *paths, expected=f"English TAB {other}")
    return pairs if source == ENGLISH else lambda: swap_sides(pairs())


class Message(NamedTuple):
    """A message by its key, which is its context and its English singular, and its texts."""

    key: str
    english: str
    translation: str


def read_catalog(path: Path) -> Iterator[Message]:
    """The translated messages of a catalog, singular and plural as two.

    Left out are the header, and in a `.po` what is fuzzy or obsolete.

    Raises:
        UserError: if the file cannot be read, or is damaged.
    """
    read = _po_entries if path.suffix == ".po" else _mo_entries
    try:
        yield from _translated(read(path))
    except (UnicodeDecodeError, LookupError, ZeroDivisionError, struct.error) as error:
        raise UserError(f"The catalog {path} is damaged: {error}.") from None


def _translated(entries: Iterator[tuple[str, str, list[str]]]) -> Iterator[Message]:
    """Of (key, English plural or nothing, translations): the header's comes first."""
    form_of = gettext.c2py("n != 1")
    for key, plural, translations in entries:
        if not key:
            form_of = _plural_rule(translations[0])
            continue
        english = key.rpartition(_CONTEXT)[2]
        numbered = ((english, _SINGLE), (plural, _MANY)) if plural else ((english, None),)
        for text, number in numbered:
            form = 0 if number is None else form_of(number)
            if form < len(translations) and translations[form]:
                yield Message(f"{key}{_FORM if number == _MANY else ''}", text, translations[form])


def _plural_rule(header: str) -> Callable[[int], int]:
    found = re.search(r"plural=([^;\n]+)", header)
    try:
        return gettext.c2py(found[1].strip() if found else "n != 1")
    except ValueError:
        return gettext.c2py("n != 1")


def _mo_entries(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    with readable(path) as file:
        data = file.read()
    order = _MAGIC.get(data[:4])
    if order is None:
        raise UserError(f"{path} is no message catalog: it does not begin as a .mo file does.")
    count, ids, strings = struct.unpack_from(f"{order}3I", data, 8)
    charset = "utf-8"
    for index in range(count):
        key, text = (_mo_string(data, order, table + 8 * index) for table in (ids, strings))
        if not key and (found := re.search(rb"charset=([\w.-]+)", text)):
            charset = found[1].decode()
        key, _, plural = key.decode(charset).partition(_FORM)
        yield key, plural, text.decode(charset).split(_FORM)


def _mo_string(data: bytes, order: str, place: int) -> bytes:
    length, start = struct.unpack_from(f"{order}2I", data, place)
    if start + length > len(data):
        raise struct.error("it ends before its last message")
    return data[start : start + length]


def _po_entries(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Of UTF-8, as all are today: `msgconv` converts others."""
    fields, name, is_fuzzy = {}, None, False
    for number, line in enumerate(read_lines(path, "messages"), start=1):
        line = line.strip()
        if _FIRST_FORM in fields and _BEGIN.match(line):
            if not is_fuzzy:
                yield _po_entry(fields)
            fields, name, is_fuzzy = {}, None, False
        if line.startswith("#,"):
            is_fuzzy |= "fuzzy" in line
        if not line or line.startswith("#"):
            continue
        found = _PO_LINE.match(line)
        if found is None or not (found[1] or name):
            raise UserError(
                f"The catalog {path} is damaged: line {number} is no part of a message."
            )
        name = found[1] or name
        name = _FIRST_FORM if name == "msgstr" else name
        fields[name] = fields.get(name, "") + _unescaped(found[2])
    if _FIRST_FORM in fields and not is_fuzzy:
        yield _po_entry(fields)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)


def _po_entry(fields: dict[str, str]) -> tuple[str, str, list[str]]:
    context = f"{fields['msgctxt']}{_CONTEXT}" if "msgctxt" in fields else ""
    forms = [text for name, text in fields.items() if name.startswith("msgstr")]
    return context + fields.get("msgid", ""), fields.get("msgid_plural", ""), forms


def clean_message(english: str, translation: str) -> Pair | None:
    """A message and its translation, each one line as a user reads it; None if there is nothing to
    translate in it."""
    if _CREDITS.fullmatch(english.strip()) or english.startswith(_KDE_PLURAL):
        return None
    english = _KDE_CONTEXT.sub("", english, count=1) if english.startswith("_: ") else english
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
