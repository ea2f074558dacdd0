"""Parallel corpora from message catalogs of gettext, compiled (`.mo`) or as text (`.po`)."""

import gettext
import logging
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from keras_transformer.data.catalog_entries import CREDITS, catalog_entries
from keras_transformer.data.text_corpus import with_held_out
from keras_transformer.data.text_files import (
    Pair,
    Pairs,
    find_files,
    read_lines,
    readable,
    swap_sides,
    tab_separated_pairs,
    validate_folder,
)
from keras_transformer.errors import UserError
from keras_transformer.untranslated import UNTRANSLATED

logger = logging.getLogger(__name__)

SYSTEM = Path("/usr/share/locale")
ENGLISH = "en"  # the language of the message keys

_FILES = {"train": "train.tsv", "val": "dev.tsv", "test": "test.tsv"}
# The catalogs to use for a language whose code does not name a script.
_SAME = {"zh": ("zh_cn", "zh_hans")}

_MAGIC = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}  # magic number -> byte order
_CONTEXT, _FORM = "\x04", "\0"  # the end of a context; the separator of plural forms
_SINGLE, _MANY = 1, 5  # numbers that select the forms of the English singular and plural

# Contexts of early KDE.
_KDE_CONTEXT = re.compile(r"_: .*\n")
_KDE_PLURAL = "_n: "
_SPACE = re.compile(r"[ \t\r\n]+")

# An accelerator in parentheses, as in Chinese: 文件(_F).
_AFTER = re.compile(r"\s*\(([_&~])[A-Za-z0-9]\)")
_WORD = r"[^\W_]"
_MARKS = {
    "_": re.compile(rf"_(?={_WORD})"),
    "&": re.compile(rf"&(?!#?\w+;)(?={_WORD})"),  # not an HTML entity
    "~": re.compile(rf"~(?={_WORD})"),
}


def open_catalogs(
    split: str, source: str, target: str, data_dir: Path | None, hold_out: bool
) -> Pairs:
    """Return a function that starts a pass over the pairs of a split.

    Files `en-XX/train.tsv`, `dev.tsv` and `test.tsv` with lines English TAB XX take precedence over
    catalogs. With `hold_out`, splits without files are held out of `"train"`; without it, they are
    an error.

    Raises:
        UserError: if no message exists in both languages, a catalog is damaged, or the split has no
            files of its own.
    """
    files = {name: _prepared(data_dir, name, source, target) for name in _FILES}
    prepared = files[split]
    if prepared and split != "train":
        return prepared
    if split != "train" and not hold_out:
        raise UserError(
            f"catalogs: the split {split!r} has no file. Expected {_FILES[split]} with lines "
            "English TAB translation, because only trainings hold splits out."
        )
    whole = files["train"]
    if whole is None:
        pairs = catalog_pairs(_folder(data_dir), source, target)
        whole = partial(iter, pairs)
    missing = [name for name in ("val", "test") if not files[name]]
    if not missing or not hold_out:
        return whole
    # Choose by the English messages, so that both directions hold out the same pairs. Without
    # English, choose by the language that comes first in the alphabet.
    languages = [source, target]
    key = languages.index(ENGLISH if ENGLISH in languages else min(languages))
    return with_held_out(whole, split, missing, key)


def catalog_pairs(folder: Path, source: str, target: str) -> list[Pair]:
    """Return the distinct message pairs in the catalogs of a folder.

    A catalog is a `.mo` or `.po` file. Its language is its own name or the name of a folder that
    contains it: `de/LC_MESSAGES/git.mo`, `po/de.po`. If one of the languages is English, the pairs
    are the original messages with their translations. Otherwise, two translations of the same
    message form a pair.

    Args:
        folder: the folder, which is searched recursively.
        source: language code of the first side, such as `"en"`, `"de"` or `"zh_CN"`. `"zh"` stands
            for `"zh_CN"`. A language also matches the catalogs of its own country, as `"fr"`
            matches `fr_FR`.
        target: language code of the second side.

    Returns:
        A list of pairs of strings.

    Raises:
        UserError: if there are no catalogs of a language, no message exists in both languages, or a
            catalog is damaged.
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
        raise UserError(
            f"The catalogs in {folder} have no message in both {source} and {target}. Expected "
            "catalogs with at least one common message."
        )
    logger.info("%s messages in %s and %s", f"{len(pairs):,}", source, target)
    return pairs


def _messages(folder: Path, language: str) -> dict[tuple, Pair]:
    """Return (English, translation) pairs by message.

    A message is identified by the place of its catalog, without the language, and its key there.
    """
    messages = {}
    if language == ENGLISH:
        return messages
    catalogs = [path for path in _all_catalogs(folder) if _is_in_language(path, folder, language)]
    if not catalogs:
        raise UserError(
            f"Cannot find catalogs of {language} in {folder}. Expected files such as "
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
    return f" Found: {', '.join(near)}." if near else ""


def _all_catalogs(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for end in ("mo", "po") for path in folder.rglob(f"*.{end}")))


def _names(path: Path, folder: Path) -> list[str]:
    """Return the names in a catalog's path that may be its language."""
    *folders, name = path.relative_to(folder).parts
    return [*folders, *Path(name).stem.split(".")]


def _is_in_language(path: Path, folder: Path, language: str) -> bool:
    return any(_is_same(name, language) for name in _names(path, folder))


def _is_same(name: str, language: str) -> bool:
    name, wanted = _code(name), _code(language)
    return name in (wanted, f"{wanted}_{wanted}", *_SAME.get(wanted, ()))


def _code(language: str) -> str:
    return language.lower().replace("-", "_")


def _folder(data_dir: Path | None) -> Path:
    if data_dir is None:
        data_dir = SYSTEM
    validate_folder(data_dir)
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
    """A message with its key, which consists of its context and its English singular."""

    key: str
    english: str
    translation: str


def read_catalog(path: Path) -> Iterator[Message]:
    """Yield the translated messages of a catalog; singular and plural are separate messages.

    The header and, in a `.po` file, fuzzy and obsolete messages are skipped.

    Raises:
        UserError: if the file cannot be read, or is damaged.
    """
    read = _po_entries if path.suffix == ".po" else _mo_entries
    try:
        yield from _translated(read(path))
    except (UnicodeDecodeError, LookupError, ZeroDivisionError, struct.error) as error:
        raise UserError(f"The catalog {path} is damaged: {error}.") from None


def _translated(entries: Iterator[tuple[str, str, list[str]]]) -> Iterator[Message]:
    """Yield messages from entries (key, English plural or "", translations), header first."""
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
        raise UserError(
            f"{path} is not a message catalog. Expected the first bytes of a .mo file. Received: "
            f"{data[:4]!r}"
        )
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
    """Yield the entries of a `.po` file in UTF-8. (`msgconv` converts other encodings.)"""
    for entry in catalog_entries("\n".join(read_lines(path, "messages")), str(path)):
        texts = {name: found.text for name, found in entry.fields.items()}
        if not entry.is_obsolete and ("fuzzy" not in entry.flags or entry.is_header):
            context = f"{texts['msgctxt']}{_CONTEXT}" if "msgctxt" in texts else ""
            translations = [found.text for found in entry.translations]
            yield context + texts["msgid"], texts.get("msgid_plural", ""), translations


def clean_message(english: str, translation: str) -> Pair | None:
    """Return a message and its translation, each as one line without markup for accelerators.

    Returns:
        The pair, or None if the message contains nothing to translate.
    """
    if CREDITS.fullmatch(english.strip()) or english.startswith(_KDE_PLURAL):
        return None
    english = _KDE_CONTEXT.sub("", english, count=1) if english.startswith("_: ") else english
    english, translation = (_SPACE.sub(" ", text).strip(" ") for text in (english, translation))
    if not translation or not any(map(str.isalpha, UNTRANSLATED.sub("", english))):
        return None
    return without_accelerators(english, translation)


def without_accelerators(english: str, translation: str) -> Pair:
    """Remove the mark before the letter of a menu item's keyboard accelerator: `_`, `&` or `~`.

    The same characters occur in names, such as `max_length` and `AT&T`. A character counts as a
    mark if it is the only one of its kind and the other side does not contain the same word (except
    for `_OK`), and if it begins a word (`Save _As`) or stands inside a word with a capital first
    letter (`E_xit`). It also counts as a mark in parentheses at the end (`文件(_F)`).
    """
    for mark, pattern in _MARKS.items():
        after = _AFTER.search(translation)
        is_after = after is not None and after[1] == mark and after[0] not in english
        if after and is_after:
            translation = translation[: after.start()] + translation[after.end() :]
        words = [_word_at(x) for x in pattern.finditer(english)]
        others = [] if is_after else [_word_at(x) for x in pattern.finditer(translation)]
        if _are_marked(mark, words, others, translation, after is not None):
            english = pattern.sub("", english)
            translation = pattern.sub("", translation) if others else translation
    return english, translation


def _are_marked(
    mark: str, words: list[str], others: list[str], translation: str, is_after: bool
) -> bool:
    """Return whether a mark in words of both sides stands before letters of an accelerator."""
    if len(words) != 1 or len(others) > 1:
        return False
    if words[0] in translation.split() and not re.match(rf"{mark}[A-Z]", words[0]):
        return False
    begins = any(word.startswith(mark) for word in (*words, *others))
    return is_after or begins or words[0].replace(mark, "").istitle()


def _word_at(found: re.Match) -> str:
    """Return the word around a match, up to spaces, from its first letter or mark on."""
    text, start = found.string, found.start()
    begin = text.rfind(" ", 0, start) + 1
    end = text.find(" ", start)
    return re.sub(r"^[^\w&~]+", "", text[begin : None if end < 0 else end])
