"""The model card and the license that another library's model comes with."""

import re
import zipfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from keras_transformer.convert.marian_files import LARGEST, zip_in
from keras_transformer.data.shortlist import Shortlist
from keras_transformer.files import open_zip
from keras_transformer.presets.location import CARD, HUGGING_FACE, SHORTLIST, download_repository
from keras_transformer.presets.registry import license_in, read_card
from keras_transformer.version import __version__

DOCUMENTS = (CARD, "LICENSE*", "LICENCE*", "COPYING*")
"""Patterns of the names of the documents in a repository."""
_LICENSE = re.compile(r"(licen[cs]e|copying)(\.(md|txt))?", re.IGNORECASE)
_LARGEST = 2**20  # bytes of a document
_LONGEST_TITLE = 80


class SourceDocuments(NamedTuple):
    """The documents of a model.

    Attributes:
        card: text of its README.md, or an empty string.
        license_text: text of its license file, or an empty string.
    """

    card: str = ""
    license_text: str = ""

    @property
    def license(self) -> str:
        """The name of the license: the card's, or the first line of the license file."""
        lines = [line.strip("# ") for line in self.license_text.splitlines()]
        title = next(filter(None, lines), "")
        return license_in(self.card) or title[:_LONGEST_TITLE]

    def license_section(self) -> str:
        """Return the text of the license file as a section of a card, or an empty string."""
        if not self.license_text.strip():
            return ""
        rows = [f"    {line}".rstrip() for line in self.license_text.strip("\n").splitlines()]
        return "\n## License\n\n" + "\n".join(rows) + "\n"


def read_documents(source: str | Path) -> SourceDocuments:
    """Read the documents of a model.

    Args:
        source: a folder, a zip file, a folder of zip files, or `hf://user/repository`.

    Raises:
        UserError: if the repository cannot be read, or the zip file is damaged.
    """
    if str(source).startswith(HUGGING_FACE):
        # After a conversion, the folder also holds the other files that were downloaded.
        source = download_repository(str(source), DOCUMENTS)
    path = Path(source)
    found = _in_folder(path) if path.is_dir() else SourceDocuments()
    if found == SourceDocuments() and (archive := zip_in(path)) is not None:
        return _in_zip(*archive)
    return found


def conversion_card(source: str | Path, name: str = "", shortlist: Shortlist | None = None) -> str:
    """Return the card of a converted model: its own card, a note, and the text of its license.

    Args:
        source: as for `read_documents`.
        name: the name of the source in the note. Defaults to the source.
        shortlist: the shortlist that is kept with it.

    Raises:
        UserError: as `read_documents`.
    """
    documents = read_documents(source)
    head = re.match(r"---\n.*?\n---\n", documents.card, re.DOTALL)
    end = head.end() if head else 0
    note = f"Converted from {name or source} by keras_transformer {__version__}.\n"
    if documents.license and not license_in(documents.card):
        note += f"\n- license: {documents.license}"
    if shortlist is not None:
        note += f"\n- shortlist: {shortlist.name}, in {SHORTLIST}"
    card = f"{documents.card[:end]}\n{note.strip()}\n\n{documents.card[end:].strip()}".strip()
    return f"{card}\n{documents.license_section()}"


def _in_folder(folder):
    licenses = [x for x in sorted(folder.iterdir()) if _LICENSE.fullmatch(x.name) and x.is_file()]
    text = "\n".join(_as_text(path.read_bytes()[:_LARGEST]) for path in licenses[:1])
    return SourceDocuments(read_card(folder), text)


def _in_zip(path, folder):
    """Read the documents at the top of a zip file, or in a folder there, or in a named folder."""
    found = {}
    with open_zip(path, LARGEST) as archive:
        for member in sorted(archive.infolist(), key=lambda member: member.filename):
            parts = PurePosixPath(member.filename.replace("\\", "/")).parts
            is_license = bool(parts) and _LICENSE.fullmatch(parts[-1]) is not None
            name = "license_text" if is_license else "card"
            own = PurePosixPath(folder).parts[-1:]
            is_here = parts[-2:-1] == own if own else len(parts) in (1, 2)
            if is_here and (is_license or parts[-1] == CARD) and name not in found:
                found[name] = _read_member(archive, member)
    return SourceDocuments(**found)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    with archive.open(member) as file:
        return _as_text(file.read(_LARGEST))


def _as_text(data):
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
