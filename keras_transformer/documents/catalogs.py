"""Message catalogs of gettext (`.po`, `.pot`): messages without a translation are units."""

import gettext
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_transformer.data.catalog_entries import CREDITS, LETTERS, CatalogEntry, catalog_entries
from keras_transformer.data.languages import read_table
from keras_transformer.documents.document import TextDocument, marked
from keras_transformer.documents.text_part import Edit, TextPart
from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code, language_tag
from keras_transformer.protection.spans import MarkedText
from keras_transformer.untranslated import UNTRANSLATED

_CHARSET = re.compile(r"^Content-Type:.*?charset=([\w.:-]+)", re.MULTILINE)
_FORMS = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]+)")
# White space and dots around a text. Interfaces write the dots in every language.
_AROUND = re.compile(r"(\s*)(.*?)((?:\s|…|\.{3})*)", re.DOTALL)
# The mark before the letter of a keyboard accelerator: before a word, or in one word ("E_xit").
_ACCELERATOR = re.compile(
    r"(?:_|~|&(?!\w+;))(?:(?<![^\s(\"'“‘«].)(?=[^\W\d_\u0900-\uffff])"
    r"|(?:(?<=^[A-Z].)|(?<=^[A-Z][a-z].)|(?<=^[A-Z][a-z]{2}.))(?=[a-z]))"
)
_ESCAPED = {character: f"\\{letter}" for letter, character in LETTERS.items()}
_CONTROL = re.compile(r'[\0-\x1f\x7f"\\]')
_COLUMNS = 79  # of gettext's lines
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7a3]")
# The plural forms of languages, for catalogs that do not define them.
_RULES = {
    language: rule
    for rule, languages in read_table(Path(__file__).with_name("plural_forms.tsv"))
    for language in languages.split()
}


class Catalogs(TextDocument):
    """A `.po` or `.pot` file. Only messages without a translation are changed.

    A translation is marked as fuzzy, so that gettext does not use it before it was reviewed. The
    singular and the plural of a message are two units: the form that the catalog's rule selects for
    1 gets the translation of the singular, and all others get the plural's. A header without a
    language, a charset or plural forms gets the values of the translations.
    """

    def _declared(self, data: bytes) -> str | None:
        # Charsets of catalogs have the characters of ASCII in common.
        for entry in catalog_entries(data.decode("latin-1"), str(self.path)):
            if entry.is_header and (found := _CHARSET.search(entry.translations[0].text)):
                return "utf-8" if found[1] == "CHARSET" else found[1]
        raise UserError(
            f"{self.path}: the header of the catalog has no charset. Expected a first message with "
            '"Content-Type: text/plain; charset=UTF-8\\n", as msginit writes it'
        )

    def _part(self, text: str) -> TextPart:
        return _CatalogPart(text, str(self.path))


class _Source(NamedTuple):
    """A source text of a message.

    Attributes:
        unit: the index of its unit, or None if it has no words.
        around: the pair of what stands before the unit and after it.
        accelerator: the mark of its keyboard accelerator with the letter, or `""`.
        text: the text.
    """

    unit: int | None
    around: tuple[str, str]
    accelerator: str
    text: str

    def translation(self, translations: Sequence[MarkedText | None]) -> str | None:
        """Return its translation, or None if there is none."""
        if self.unit is None:
            return self.text
        found = translations[self.unit]
        if found is None:
            return None
        text = str(found).strip()
        return f"{self.around[0]}{_with_accelerator(text, self.accelerator)}{self.around[1]}"


class _CatalogPart(TextPart):
    """The text of a catalog."""

    def __init__(self, text: str, name: str):
        super().__init__(text, name)
        self._messages: list[tuple[CatalogEntry, list[_Source]]] = []
        self._header: CatalogEntry | None = None
        for entry in catalog_entries(text, name):
            reasons = {
                "obsolete": entry.is_obsolete,
                "fuzzy": "fuzzy" in entry.flags,
                "translated": any(found.text for found in entry.translations),
            }
            if entry.is_header and self._header is None:
                self._header = entry
                found = re.search(
                    r"^Language:[ \t]*(\S+)", entry.translations[0].text, re.MULTILINE
                )
                self.language = found[1] if found else None
            elif reason := next(filter(reasons.get, reasons), None):
                self.skipped[reason] += 1
            else:
                keys = [key for key in ("msgid", "msgid_plural") if key in entry.fields]
                sources = [self._source(entry, key) for key in keys]
                if any(source.unit is not None for source in sources):
                    self._messages.append((entry, sources))

    def _source(self, entry: CatalogEntry, key: str) -> _Source:
        """Return a source text of a message, and add its unit."""
        text, start, stop = entry.fields[key]
        before, inner, after = _AROUND.fullmatch(text).groups()  # type: ignore[union-attr]
        accelerator = _accelerator(inner)
        if accelerator:
            inner = inner[: accelerator.start()] + inner[accelerator.end() :]
        if CREDITS.fullmatch(inner):
            self.skipped["for the names of translators"] += 1
            return _Source(None, ("", ""), "", text)
        is_unit = any(map(str.isalpha, UNTRANSLATED.sub("", inner)))
        if not is_unit:
            self.skipped["without letters"] += bool(text.strip())
        is_unit = is_unit and self.add(marked(inner, start), start, stop)
        letter = accelerator[0] + text[len(before) + accelerator.end()] if accelerator else ""
        return _Source(len(self.units) - 1 if is_unit else None, (before, after), letter, text)

    def rendered(
        self, translations: Sequence[MarkedText | None], edits: Sequence[Edit] = ()
    ) -> str:
        edits = [*edits, *(self._header_edits() if any(translations) else ())]
        for entry, sources in self._messages:
            texts = [source.translation(translations) for source in sources]
            forms = self._forms(self._rule()) if sources[1:] else None
            if sources[1:] and not forms:
                self.skipped["with plurals, whose forms the catalog does not define"] += 1
            elif all(text is not None for text in texts):
                edits += self._filled(entry, texts, forms)
        return super().rendered([None] * len(translations), edits)

    def _header_edits(self) -> Iterator[Edit]:
        """Yield the fields of the header that the translations define, if they are empty."""
        if self._header is None:
            return
        _, start, stop = self._header.translations[0]
        # gettext writes "pt_BR" and "sr@latin" where BCP 47 has "pt-BR" and "sr-Latn".
        code = self.target_lang or ""
        language = code if "@" in code else language_tag(code).replace("-", "_")
        for pattern, new in (
            (r"charset=(CHARSET)", "UTF-8"),
            (r"\"Language:([ \t]*)(?:\\n)?\"", language and f" {language}"),
            (r"Plural-Forms:[ \t]*(nplurals=INTEGER; plural=EXPRESSION;)", self._rule()),
        ):
            if new and (found := re.compile(pattern).search(self.text, start, stop)):
                yield *found.span(1), new

    def _rule(self) -> str:
        """Return the plural forms that the header or the language defines, or `""`."""
        header = self._header.translations[0].text if self._header else ""
        if (found := _FORMS.search(header)) and self._forms(found[0]):
            return found[0]
        language = self.target_lang or self.language or ""
        own = re.sub(r"[@.].*", "", language).replace("-", "_").lower()
        return _RULES.get(own) or _RULES.get(language_code(language), "")

    def _forms(self, rule: str) -> list[int] | None:
        """Return for each plural form whether it is for the plural (1) or the singular (0)."""
        found = _FORMS.search(rule)
        try:
            select, count = gettext.c2py(found[2].strip()), int(found[1])  # type: ignore[index]
            return [int(count == 1 or form != select(1)) for form in range(count)]
        except (TypeError, ValueError, ArithmeticError, RecursionError):
            return None

    def _filled(
        self, entry: CatalogEntry, texts: list[Any], forms: list[int] | None
    ) -> Iterator[Edit]:
        """Yield the changes of an entry that gets translations."""
        start, stop = entry.translations[0].start, entry.translations[-1].stop
        sources = self.text[entry.start : start]
        newline = "\r\n" if "\r\n" in sources else "\n"
        columns = max(_COLUMNS, *map(len, sources.splitlines()))
        new = [(f"msgstr[{form}]", texts[which]) for form, which in enumerate(forms or ())]
        fields = [written_field(*x, newline, columns) for x in new or [("msgstr", texts[0])]]
        if entry.flags_start is None:
            yield entry.start, entry.start, f"#, fuzzy{newline}"
        else:
            space = "" if self.text[entry.flags_start].isspace() else " "
            yield entry.flags_start, entry.flags_start, f" fuzzy,{space}"
        yield start, stop, newline.join(fields)


def _accelerator(text: str) -> re.Match[str] | None:
    """Return the mark before the letter of a keyboard accelerator, if a text has exactly one."""
    found = list(_ACCELERATOR.finditer(text))
    is_mark = len(found) == 1 and text.count(found[0][0]) == 1
    kept = (x.span() for x in UNTRANSLATED.finditer(text)) if is_mark else ()
    inside = any(start <= found[0].start() < stop for start, stop in kept)
    return found[0] if is_mark and not inside else None


def _with_accelerator(text: str, accelerator: str) -> str:
    """Return a translation with an accelerator before the same letter, or before its first one."""
    if not accelerator:
        return text
    mark, letter = accelerator
    if _WIDE.search(text):  # Its characters are not on the keys.
        return f"{text}({mark}{letter.upper()})"
    kept = UNTRANSLATED.sub(lambda x: " " * len(x[0]), text)
    letter = re.escape(letter)
    for pattern in (rf"(?i)\b{letter}", rf"(?i){letter}", r"\b[^\W\d_]", r"[^\W\d_]"):
        if found := re.search(pattern, kept):
            return f"{text[: found.start()]}{mark}{text[found.start() :]}"
    return text


def written_field(key: str, text: str, newline: str = "\n", columns: int = _COLUMNS) -> str:
    """Return a field as it is written in a catalog.

    Args:
        key: its keyword.
        text: its text.
        newline: the end of a line.
        columns: the longest line, if it can be divided at a space.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    parts = [part for line in lines for part in _wrapped(_escaped(line), columns - 2)]
    if len(lines) < 2 and len(key) + 1 + len("".join(parts)) + 2 <= columns:
        return f'{key} "{"".join(parts)}"'
    return newline.join([f'{key} ""', *(f'"{part}"' for part in parts)])


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: _ESCAPED.get(found[0], f"\\{ord(found[0]):03o}"), text)


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Divide an escaped line after spaces."""
    while len(text) > width:
        place = text.rfind(" ", 0, width) + 1 or text.find(" ", width) + 1
        if not place:
            break
        yield text[:place]
        text = text[place:]
    if text:
        yield text
