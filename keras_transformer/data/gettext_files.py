"""Message catalogs of gettext, compiled (`.mo`) and as text (`.po`)."""

import gettext
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from keras_transformer.data.text_files import read_lines, readable
from keras_transformer.errors import UserError

_MAGIC = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}  # the byte order
_CONTEXT, _FORM = "\x04", "\0"  # what ends a context, and what is between plural forms
_PO_LINE = re.compile(
    r'(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*)?"((?:[^"\\]|\\.)*)"$'
)
_BEGIN = re.compile(r"#|msgctxt\b|msgid\b")  # what a message begins with
_FIRST_FORM = "msgstr[0]"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}  # those of \\ and \" are themselves
_SINGLE, _MANY = 1, 5  # the numbers whose forms go with the English singular and the plural


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
        yield from _messages(read(path))
    except (UnicodeDecodeError, LookupError, ZeroDivisionError, struct.error) as error:
        raise UserError(f"The catalog {path} is damaged: {error}.") from None


def _messages(entries: Iterator[tuple[str, str, list[str]]]) -> Iterator[Message]:
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
        name = found and (found[1] or name)
        if not name:
            raise UserError(
                f"The catalog {path} is damaged: line {number} is no part of a message."
            )
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
