"""The common part of all documents: a file as units of text, which are replaced in place."""

import codecs
import importlib
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.documents.text_part import LONGEST_UNIT, TextPart
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText, Span

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    *((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
    *((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
)

# Codecs that write a byte order mark -> the same encoding without it. (Without a mark, Python reads
# UTF-16 in the byte order of the machine.)
_WITHOUT_MARK = {
    "utf-8-sig": "utf-8",
    **{f"utf-{x}": f"utf-{x}-{'le' if sys.byteorder == 'little' else 'be'}" for x in (16, 32)},
}
_CONTROLS = re.compile(r"(?:\x1b\[[\d;?]*[A-Za-z]|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f])+")


class Document:
    """A file as a list of units, the texts to translate.

    Args:
        path: the file.
        encoding: the encoding of a text file that declares none. Defaults to UTF-8.

    Attributes:
        units: list of `MarkedText`: texts, with a `Span` for each piece that is not translated.
        language: the language of the translations that the file declares, or None.
        skipped: `Counter` of the texts that are not units, by reason.
        remarks: list of further observations.

    Raises:
        UserError: if the file cannot be read or is damaged.
    """

    def __init__(self, path: Path, encoding: str | None = None):
        self.path = path
        self.encoding = encoding
        self.parts: list[TextPart] = []
        self._read()

    def _read(self) -> None:
        """Read the file into `parts`."""
        raise NotImplementedError

    @property
    def units(self) -> list[MarkedText]:
        return [unit.marked for part in self.parts for unit in part.units]

    @property
    def language(self) -> str | None:
        return next((part.language for part in self.parts if part.language), None)

    @property
    def skipped(self) -> Counter[str]:
        return sum((part.skipped for part in self.parts), Counter())

    @property
    def remarks(self) -> list[str]:
        return [remark for part in self.parts for remark in part.remarks]

    def select(self, target_lang: str | None) -> None:
        """Leave out the texts whose translations the file declares to be in another language.

        Args:
            target_lang: the language of the translations, or None if it is unknown.

        Raises:
            UserError: if it is unknown, and the file declares several.
        """

    def render(
        self,
        translations: Sequence[MarkedText | None],
        path: Path,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> None:
        """Write the file with translations in the places of the units.

        A language that a text of the file declares becomes the language of the translations, if it
        is the one that they were translated from.

        Args:
            translations: one `MarkedText` per unit, with the unit's spans, or None for a unit that
                stays as it is.
            path: the file to write.
            source_lang: the language that was translated from, if it is known. Defaults to the
                first one that the file declares.
            target_lang: the language of the translations. None leaves the declarations.
        """
        raise NotImplementedError

    def _texts(
        self,
        translations: Sequence[MarkedText | None],
        source_lang: str | None,
        target_lang: str | None,
    ) -> list[str]:
        """Return the new text of each part."""
        declared = [part.text[slice(*place)] for part in self.parts for place in part.languages]
        source = source_lang or next((code for code in declared if code.strip()), None)
        texts, start = [], 0
        for part in self.parts:
            stop = start + len(part.units)
            part.source_lang, part.target_lang = source, target_lang
            texts.append(part.rendered(translations[start:stop], part.language_edits()))
            start = stop
        return texts


class TextDocument(Document):
    """A document in a text format."""

    _errors = "strict"  # name of the handler of errors of encodings

    def _read(self) -> None:
        data = self.path.read_bytes()
        mark, name = byte_order_mark(data)
        self._mark = mark
        self._codec = name or self.encoding or self._declared(data) or "utf-8"
        data = data.removeprefix(mark)
        text = decoded(data, self._codec, str(self.path), self._errors)
        # A file without a byte order mark gets none.
        normal = codecs.lookup(self._codec).name
        self._codec = _WITHOUT_MARK.get(normal, self._codec)
        part = TextPart(text, str(self.path))
        if self._encoded(text) != data:
            raise UserError(
                f"{self.path} is not in the only form that {self._codec} has for its characters, "
                "and could not be written back as it is. Convert the file to UTF-8 first."
            )
        if (place := text.find("\0")) >= 0 and text.count("\0") > 1:
            raise part.error(place, "NUL bytes. Expected text, in UTF-8")
        self.parts = [self._part(text)]

    def _part(self, text: str) -> TextPart:
        """Return the text as a part, with its units."""
        raise NotImplementedError

    def _declared(self, data: bytes) -> str | None:
        """Return the encoding that the content declares, or None."""

    def render(
        self,
        translations: Sequence[MarkedText | None],
        path: Path,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> None:
        (text,) = self._texts(translations, source_lang, target_lang)
        path.write_bytes(self._mark + self._encoded(text))

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode(self._codec, self._errors)
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise UserError(
                f"{self.path} is in {self._codec}, which lacks {text[error.start]!r}, in line "
                f"{line} of the translation. Convert the file to UTF-8 first."
            ) from None
        except ValueError as error:
            raise UserError(f"{self.path} cannot be written as {self._codec}: {error}.") from None


def byte_order_mark(data: bytes) -> tuple[bytes, str | None]:
    """Return the byte order mark of a content, or `b""`, and the encoding that it stands for."""
    return next((x for x in _MARKS if data.startswith(x[0])), (b"", None))


def decoded(data: bytes, codec: str, name: str, errors: str = "strict") -> str:
    """Decode the content of a file.

    Args:
        data: the content.
        codec: name of its encoding.
        name: name of the file, for error messages.
        errors: name of the handler of errors.

    Raises:
        UserError: if the encoding is unknown, or is not the content's.
    """
    try:
        return data.decode(codec, errors)
    except LookupError:
        raise UserError(f"{name} has an unknown encoding: {codec!r}.") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name}, line {line}: cannot decode byte 0x{data[error.start]:02x} as {codec}. "
            "Convert the text to UTF-8, or pass its `encoding`."
        ) from None
    except ValueError as error:
        raise UserError(f"{name} cannot be decoded as {codec}: {error}.") from None


class PlainText(TextDocument):
    """A text file, whose units are its lines."""

    def _part(self, text: str) -> TextPart:
        part = TextPart(text, str(self.path))
        for line in re.finditer(r"[^\s][^\r\n\f\v\x1c-\x1e\x85]*", text):
            content = line[0].rstrip()
            part.add(marked(content, line.start()), line.start(), line.start() + len(content))
        return part


def marked(text: str, start: int = 0) -> MarkedText:
    """Return a text whose control characters, with ANSI's codes for colors, are marks.

    Args:
        text: the text, as it stands in the file.
        start: index of its beginning there.
    """
    plain, spans, last = "", [], 0
    for found in _CONTROLS.finditer(text):
        plain += text[last : found.start()]
        spans.append(
            (len(plain), Span(found[0], "mark", start + found.start(), start + found.end()))
        )
        last = found.end()
    return MarkedText(plain + text[last:], tuple(spans))


def validate_lines(part: TextPart, pattern: str = r"[^\n]", name: str = "line") -> None:
    """Raise a `UserError` for a line that is longer than the longest unit."""
    if found := re.search(rf"{pattern}{{{LONGEST_UNIT + 1}}}", part.text):
        problem = f"a {name} of over {LONGEST_UNIT:,} characters. Expected a shorter one"
        raise part.error(found.start(), problem)


def required(module: str, package: str) -> Any:
    """Import a module of the extra `documents`, or raise a `UserError` that names its package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"This format requires {package}. Install it: pip install {package}, or this package "
            "with its extra `documents`."
        ) from error
