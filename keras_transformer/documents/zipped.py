"""The common part of zipped formats: members with texts, and others, which are copied."""

import contextlib
import copy
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.documents.document import Document, byte_order_mark, decoded
from keras_transformer.documents.markup import Event
from keras_transformer.documents.text_part import TextPart
from keras_transformer.documents.xml_events import declared_encoding, encoded_xml
from keras_transformer.errors import UserError
from keras_transformer.protection.spans import MarkedText

LARGEST_TEXT = 1 << 26  # bytes of a member with texts
_LARGEST_TOTAL = 1 << 30
_DEEPEST = 20  # for texts within texts, such as text boxes
_MOST_MEMBERS = 50_000
_LONGEST_END = 22 + 65_535  # bytes of the last record with its comment
# Everything that damaged archives raise. RuntimeError is about passwords.
_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError),
    *(RuntimeError, ValueError, IndexError, OverflowError),
)


class ZippedDocument(Document):
    """A document that is a zip archive of XML texts and other members.

    The archive is checked completely before its texts are read. A subclass defines `_read_parts`,
    which gets texts from `_text` and keeps those that have units with `_keep`.
    """

    def _read(self) -> None:
        self._codecs: dict[str, tuple[bytes, str]] = {}  # of each text: a mark and an encoding
        self._kept: list[str] = []  # names of the members that are `parts`
        with open(self.path, "rb") as file:
            file.seek(-min(_LONGEST_END, file.seek(0, os.SEEK_END)), os.SEEK_END)
            end = file.read()
        with contextlib.ExitStack() as stack:
            try:
                self._archive = stack.enter_context(_opened(self.path))
                self._check(end)
            except UserError:
                raise
            except _DAMAGES as error:
                kind = f"a complete {self.path.suffix.lower()} file"
                raise UserError(f"{self.path} is not {kind}: {_printable(str(error))}.") from None
            self._read_parts()

    def _check(self, end: bytes) -> None:
        """Raise an error for an archive that is damaged or too large."""
        members, total = self._archive.infolist(), 0
        self.names = [info.filename for info in members]
        # A damaged length can hide members, which `zipfile` does not count.
        (count,) = struct.unpack_from("<H", end, end.rindex(b"PK\5\6") + 10)
        if count not in (len(members), 0xFFFF):
            raise ValueError(f"it has {len(members):,} of {count:,} members")
        if len(members) > _MOST_MEMBERS:
            raise ValueError(f"it has {len(members):,} members. Expected at most {_MOST_MEMBERS:,}")
        for info in members:
            total += info.file_size
            if total > _LARGEST_TOTAL:
                raise UserError(
                    f"{self._name(info.filename)}: {total:,} bytes or more when unpacked. "
                    f"Expected at most {_LARGEST_TOTAL:,}"
                )
        if len(set(self.names)) < len(members):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"it has two members {twice}")
        for info in members:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise NotImplementedError(f"{info.filename} is not stored or deflated")
            with self._archive.open(info) as member:
                size = sum(map(len, iter(lambda: member.read(1 << 20), b"")))
            if size != info.file_size:
                raise EOFError(f"{info.filename} has {size:,} of {info.file_size:,} bytes")

    def _read_parts(self) -> None:
        """Read the texts of the archive."""
        raise NotImplementedError

    def _name(self, name: str) -> str:
        """Return the name of a member for error messages."""
        return f"{self.path}, {_printable(name)}"

    def _text(self, name: str) -> str:
        """Return the text of a member, in the encoding that it declares as XML does."""
        if name not in self.names:
            kind = f"a complete {self.path.suffix.lower()} file"
            raise UserError(f"{self.path} is not {kind}: it has no member {_printable(name)}.")
        if (size := self._archive.getinfo(name).file_size) > LARGEST_TEXT:
            raise UserError(
                f"{self._name(name)}: {size:,} bytes when unpacked. Expected at most "
                f"{LARGEST_TEXT:,} of text"
            )
        data = self._archive.read(name)
        mark, codec = byte_order_mark(data)
        codec = codec or declared_encoding(data) or "utf-8"
        self._codecs[name] = mark, codec
        return decoded(data.removeprefix(mark), codec, self._name(name))

    def _keep(self, name: str, part: TextPart) -> None:
        """Add a part with the text of a member."""
        self._kept.append(name)
        self.parts.append(part)

    def render(
        self,
        translations: Sequence[MarkedText | None],
        path: Path,
        source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> None:
        texts = self._texts(translations, source_lang, target_lang)
        new = {
            name: text
            for name, text, part in zip(self._kept, texts, self.parts)
            if text != part.text
        }
        if not new:
            shutil.copyfile(self.path, path)
            return
        with _opened(self.path) as source, zipfile.ZipFile(path, "w") as target:
            target.comment = source.comment
            for info in source.infolist():
                changed = copy.copy(info)
                changed.extra = _without_sizes(info.extra)
                if (text := new.get(info.filename)) is not None:
                    mark, codec = self._codecs[info.filename]
                    data = mark + encoded_xml(text, codec, self._name(info.filename))
                    changed.file_size = len(data)
                    target.writestr(changed, data)
                else:
                    with target.open(changed, "w") as file, source.open(info) as old:
                        shutil.copyfileobj(old, file)


def validate_depth(part: TextPart, event: Event, depth: int) -> None:
    """Raise an error if a text is in too many others, which each have a copy of it."""
    if depth > _DEEPEST:
        raise part.error(event.start, f"texts within texts, more than {_DEEPEST} deep.")


def _opened(path: Path) -> zipfile.ZipFile:
    """Open an archive. Names of members are in UTF-8, or in the encoding of old archives."""
    with contextlib.suppress(UnicodeDecodeError):
        return zipfile.ZipFile(path, metadata_encoding="utf-8")
    return zipfile.ZipFile(path)


def _printable(text: str) -> str:
    return "".join(x if x.isprintable() else "?" for x in text[:200]).strip(".")


def _without_sizes(extra: bytes) -> bytes:
    """Return the further fields of a member without its 64-bit sizes, which are written again."""
    kept = b""
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        kept += b"" if kind == 1 else extra[: 4 + size]
        extra = extra[4 + size :]
    return kept
