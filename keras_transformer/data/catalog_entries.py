"""The entries of a message catalog of gettext, with the places of their fields."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from keras_transformer.errors import UserError

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_STRIPPED = re.compile(
    r"(?P<space>\s*)(?:(?P<comment>#(?!~(?![|,])).*)|(?P<obsolete>#~)?\s*(?P<content>.*?)\s*$)",
    re.DOTALL,
)
_TOKEN = re.compile(
    r"\s*(?:(?P<key>msgctxt|msgid_plural|msgid|msgstr|domain)(?![A-Za-z_])"
    r"(?:\s*\[\s*(?P<form>\d{1,3})\s*\])?"
    r'|"(?P<text>(?:[^"\\\r\n]|\\[^\r\n])*+)")\s*'
)
_ESCAPE = re.compile(r"(?P<codes>(?:\\(?:[0-7]{1,3}|x[\da-fA-F]+))+)|\\(?P<letter>.)")
LETTERS = dict(zip('ntrabvf"\\', '\n\t\r\a\b\v\f"\\'))
# Keys for the translators' names, which are not messages.
CREDITS = re.compile(
    r"translator[-_ ]credits|(_: )?(NAME|EMAIL)S? OF TRANSLATORS|Your (name|email)s", re.I
)
_FIRST = ("domain", "msgctxt", "msgid")


class Field(NamedTuple):
    """A field of an entry.

    Attributes:
        text: the text that its strings stand for.
        start: index of its keyword.
        stop: index of the end of its last string.
    """

    text: str
    start: int
    stop: int


@dataclass
class CatalogEntry:
    """A message with its comments and translations.

    Attributes:
        fields: dict of a `Field` by its keyword: `"msgctxt"`, `"msgid"`, `"msgid_plural"`, and
            `"msgstr"` or `"msgstr[0]"`, `"msgstr[1]"` and so on.
        flags: list of strings, such as `"fuzzy"` and `"c-format"`.
        flags_start: index behind the `#,` of the flags, or None.
        start: index of the first line that may not stand before its flags, such as a previous
            message and the keyword `msgid`.
        is_obsolete: whether its lines begin with `#~`.
        translations: list of the fields of its translations.
        is_header: whether it is the header of the catalog.
    """

    fields: dict[str, Field] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    flags_start: int | None = None
    start: int = -1
    is_obsolete: bool = False

    @property
    def translations(self) -> list[Field]:
        return [found for key, found in self.fields.items() if key.startswith("msgstr")]

    @property
    def is_header(self) -> bool:
        source = self.fields.get("msgid")
        return source is not None and not (source.text or "msgctxt" in self.fields)

    def _add_comment(self, text: str, start: int) -> None:
        if text.startswith("#,"):
            self.flags_start = start + 2
            self.flags += [flag.strip() for flag in text[2:].split(",")]
        elif text.startswith("#|") and self.start < 0:
            self.start = start

    def _add(self, token: re.Match[str], line_start: int) -> bool:
        """Add a keyword or a string, and return whether it may stand there."""
        if token["key"]:
            form = token["form"]
            key = token["key"] if form is None else f"msgstr[{int(form)}]"
            self.start = line_start if self.start < 0 else self.start
            is_new, old = key not in self.fields, Field("", token.start("key"), token.end("key"))
            self.fields.setdefault(key, old)
            return is_new and (form is None or token["key"] == "msgstr")
        if not self.fields:
            return False
        key, old = self.fields.popitem()
        new = old.text + unescaped(token["text"])
        self.fields[key] = Field(new, old.start, token.end("text") + 1)
        return True


def catalog_entries(text: str, name: str) -> Iterator[CatalogEntry]:
    """Yield the entries of a catalog, as `msgfmt` reads them.

    Args:
        text: the text of a `.po` or `.pot` file.
        name: name of the file, for error messages.

    Raises:
        UserError: if the text is not a catalog, when its damaged line is reached.
    """
    entry = CatalogEntry()
    for number, line in enumerate(_LINE.finditer(text), start=1):
        found = next(_STRIPPED.finditer(text, *line.span()))
        if found["comment"] and entry.translations:
            yield _complete(entry, text, name)
            entry = CatalogEntry()
        if found["comment"]:
            entry._add_comment(found["comment"], found.start("comment"))
        position, stop = found.span("content")
        while position < stop:
            token = _TOKEN.match(text, position, stop)
            if token and token["key"] in _FIRST and entry.translations:
                yield _complete(entry, text, name)
                entry = CatalogEntry()
            if not (token and entry._add(token, found.end("space"))):
                raise UserError(
                    f"{name}, line {number}: the catalog is damaged. Expected a keyword such as "
                    "msgid, or a quoted string"
                )
            entry.is_obsolete |= bool(found["obsolete"])
            position = token.end()
    if entry.fields:
        yield _complete(entry, text, name)


def _complete(entry: CatalogEntry, text: str, name: str) -> CatalogEntry:
    """Return an entry, or raise a `UserError` if it has no source or no translation."""
    if entry.is_obsolete or ("msgid" in entry.fields and entry.translations):
        return entry
    line = text.count("\n", 0, max(0, entry.start)) + 1
    missing = "msgstr" if "msgid" in entry.fields else "msgid"
    raise UserError(f"{name}, line {line}: a message without {missing}")


def unescaped(text: str) -> str:
    """Return the text that a string of a catalog stands for, without its quotes."""

    def character(found: re.Match[str]) -> str:
        if found["letter"]:
            return LETTERS.get(found["letter"], found[0])
        codes = re.findall(r"\\(?:x([\da-fA-F]+)|([0-7]+))", found["codes"])
        values = bytes((int(x, 16) if x else int(octal, 8)) & 255 for x, octal in codes)
        try:
            return values.decode()
        except UnicodeDecodeError:
            return values.decode("latin-1")

    return _ESCAPE.sub(character, text) if "\\" in text else text
