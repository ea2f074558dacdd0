"""Message catalogs of gettext (`.po`): messages without a translation are units."""

import gettext
import re
from collections.abc import Sequence

from keras_transformer.documents.document import TextDocument, required, splice
from keras_transformer.errors import UserError
from keras_transformer.untranslated import UNTRANSLATED

_CHARSET = re.compile(rb"Content-Type:[^\n]*?charset=([\w.:-]+)")
_FORMS = re.compile(r"nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;]+)")
# An entry: its comments, its source, and its translations.
_ENTRY = re.compile(
    r"(?P<comments>(?:[ \t]*(?:#(?![|~])[^\n]*)?\r?\n)*)"
    r"(?P<source>(?:[ \t]*(?:(?:#\||msgctxt|msgid|\")[^\n]*)?\r?\n)*)"
    r"(?P<target>[ \t]*msgstr[^\r\n]*(?:\r?\n[ \t]*(?:\"|msgstr)[^\r\n]*)*)"
)
_DAMAGED = re.compile(r'^[ \t]*(?!#)\S(?:[^\r\n]*[^"\s])?[ \t]*\r?$', re.MULTILINE)
_FLAGS = re.compile(r"^([ \t]*#,)", re.MULTILINE)


class GettextCatalog(TextDocument):
    """A `.po` file, which polib reads. Only entries that get a translation are rewritten.

    A translation is marked as fuzzy, so that gettext does not use it before it was reviewed. The
    singular and the plural of a message are two units: the form that the catalog's rule selects for
    1 gets the translation of the singular, and all others get the plural's.
    """

    def _declared(self, data: bytes) -> str | None:
        found = _CHARSET.search(data)
        if found is None or found[1] == b"CHARSET":
            raise UserError(
                f"{self.path}, line 1: the header of the catalog has no charset. Expected a first "
                'message with "Content-Type: text/plain; charset=UTF-8\\n", as msginit writes it.'
            )
        return found[1].decode()

    def _find_units(self) -> None:
        polib = required("polib", "polib")
        self._check_lines()
        if damaged := _DAMAGED.search(self.text):
            raise self._error(damaged.span(), "the catalog is damaged. Expected a quoted string")
        try:
            catalog = polib.pofile(
                str(self.path), encoding="utf-8-sig" if self._mark else self._codec
            )
        except (OSError, ValueError, IndexError) as error:
            line = re.search(r"line (\d+)", str(error))
            raise UserError(
                f"{self.path}, line {line[1] if line else '?'}: the catalog is damaged. Expected "
                "messages as msgfmt reads them."
            ) from None
        self.language = catalog.metadata.get("Language") or None
        self._entries: list[tuple[re.Match, list[str], list, list[int] | None]] = []
        starts = [0, *(found.end() for found in re.finditer(r"\r\n?|\n", self.text))]
        forms = None
        for entry in catalog:
            reasons = {
                "obsolete": entry.obsolete,
                "fuzzy": "fuzzy" in entry.flags,
                "translated": entry.msgstr or any(entry.msgstr_plural.values()),
            }
            if reason := next(filter(reasons.get, reasons), None):
                self.skipped[reason] += 1
                continue
            start = starts[entry.linenum - 1]
            found = _ENTRY.match(self.text, start)
            if found is None:
                raise self._error((start, 0), "a message without msgstr")
            texts = [entry.msgid]
            if entry.msgid_plural:
                texts.append(entry.msgid_plural)
                forms = forms or self._forms(catalog.metadata.get("Plural-Forms", ""), start)
            # The number of the unit, or the text itself if it is none, such as "%d".
            parts = []
            for text in texts:
                has_words = any(map(str.isalpha, UNTRANSLATED.sub("", text)))
                self.skipped["without letters"] += not has_words
                is_unit = has_words and self._add(text.strip(), found.span("source"))
                parts.append(len(self.units) - 1 if is_unit else text)
            if any(isinstance(part, int) for part in parts):
                self._entries.append((found, texts, parts, forms if texts[1:] else None))

    def _forms(self, header: str, place: int) -> list[int]:
        """Return for each plural form whether it is for the plural (1) or the singular (0)."""
        found = _FORMS.search(header)
        try:
            rule = gettext.c2py(found[2].strip())  # type: ignore[index]
            count = int(found[1])  # type: ignore[index]
            return [int(count == 1 or form != rule(1)) for form in range(count)]
        except (TypeError, ValueError, ZeroDivisionError):
            raise self._error(
                (place, 0),
                "a message with a plural, but the header has no valid Plural-Forms. "
                f"Received: {header!r}",
            ) from None

    def _rendered(self, translations: Sequence[str | None]) -> str:
        edits = []
        for found, sources, parts, forms in self._entries:
            new = [translations[x] if isinstance(x, int) else x.strip() for x in parts]
            if not all(new):
                continue
            new = [_with_space_of(source, text or "") for source, text in zip(sources, new)]
            edits.append((*found.span(), self._filled(found, new, forms)))
        return splice(self.text, edits)

    def _filled(self, found: re.Match, new: list[str], forms: list[int] | None) -> str:
        """Return the text of an entry with a translation."""
        polib = required("polib", "polib")
        newline = "\r\n" if "\r\n" in found["source"] else "\n"
        comments, count = _FLAGS.subn(r"\1 fuzzy,", found["comments"], count=1)
        if not count:
            comments += f"#, fuzzy{newline}"
        plural = {form: new[which] for form, which in enumerate(forms)} if forms else {}
        entry = polib.POEntry(msgstr="" if forms else new[0], msgstr_plural=plural)
        lines = str(entry).strip("\n").split("\n")
        first = next(n for n, line in enumerate(lines) if line.startswith("msgstr"))
        return comments + found["source"] + newline.join(lines[first:])


def _with_space_of(source: str, text: str) -> str:
    """Return a text with the white space at the beginning and end of its source."""
    start = len(source) - len(source.lstrip())
    return source[:start] + text.strip() + source[len(source.rstrip()) :]
