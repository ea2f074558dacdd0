"""Translation of files: the formats, and the work on one file, which can be interrupted."""

import contextlib
import importlib
import inspect
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from keras_transformer.documents.document import Document
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write, check_writable, sibling_path

# The ending of a file's name -> the module of `keras_transformer.documents` and its class.
FORMATS = {
    ".txt": ("document", "PlainText"),
    ".md": ("markdown", "Markdown"),
    ".markdown": ("markdown", "Markdown"),
    ".html": ("html", "Html"),
    ".htm": ("html", "Html"),
    ".xhtml": ("html", "Html"),
    ".srt": ("subtitles", "Subtitles"),
    ".vtt": ("subtitles", "Subtitles"),
    ".po": ("gettext_catalog", "GettextCatalog"),
    ".xliff": ("xliff", "Xliff"),
    ".xlf": ("xliff", "Xliff"),
    ".docx": ("docx", "Docx"),
}
# Sizes of the lists that are translated together: the first, and the largest. A list is twice as
# long as the one before while lists take less than this number of seconds.
_FIRST, _LARGEST, _SECONDS = 256, 4096, 20
_CONTROLS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass
class FileReport:
    """The result of translating a file.

    Attributes:
        num_units: number of texts.
        num_translated: number of texts with a translation.
        num_resumed: number of texts whose translations an interrupted run left.
        skipped: number of texts that were not translated, by reason.
        remarks: list of further observations.
    """

    num_units: int
    num_translated: int
    num_resumed: int
    skipped: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        done = f"translated {self.num_translated:,} of {self.num_units:,} texts"
        resumed = f" ({self.num_resumed:,} in an earlier run)" if self.num_resumed else ""
        skipped = [f"{count:,} {reason}" for reason, count in self.skipped.items()]
        rest = f"; skipped: {', '.join(skipped)}" if skipped else ""
        return "\n".join([f"{done}{resumed}{rest}", *self.remarks])


def read_document(path: str | PathLike, encoding: str | None = None) -> Document:
    """Read the texts of a file.

    Args:
        path: the file. The ending of its name selects its format.
        encoding: the encoding of a text file that does not declare one. Defaults to UTF-8.

    Returns:
        A `Document`.

    Raises:
        UserError: if the file cannot be read, is damaged, or has another format.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise UserError(
            f"Cannot translate {path}: unknown format {path.suffix!r}. Expected one of: "
            f"{', '.join(FORMATS)}"
        )
    module, name = FORMATS[path.suffix.lower()]
    kind = getattr(importlib.import_module(f"keras_transformer.documents.{module}"), name)
    try:
        return kind(path, encoding)
    except OSError as error:
        raise UserError(f"Cannot read the file {path}: {error.strerror or error}.") from None


def translate_file(
    source: str | PathLike | Document,
    target: str | PathLike,
    translate: Callable[..., Iterable[str]],
    target_lang: str | None = None,
    encoding: str | None = None,
    settings: Any = None,
) -> FileReport:
    """Translate a file into another of the same format.

    ```python
    kt.documents.translate_file("manual.docx", "manual.de.docx", translator)
    ```

    Structure, markup, times, comments, line ends and encoding stay as they are. The file is written
    completely or not at all. Until then, the translations are kept in `TARGET.translations.jsonl`,
    which a run after an interruption continues.

    Args:
        source: the file, or the result of `read_document`.
        target: the file to write, with the same ending.
        translate: function from a list of strings to the list of their translations, such as a
            `kt.Translator`. If it has an argument `markup`, it is called with `markup="html"` or
            `markup="markdown"` for texts with markup.
        target_lang: the language of the translations. A file that declares another is refused.
        encoding: as for `read_document`.
        settings: everything the translations depend on, such as the name of the model, for JSON. An
            interrupted run is continued only with the same settings.

    Returns:
        A `FileReport`.

    Raises:
        UserError: if the file cannot be read or is damaged, `target` is `source` or has another
            ending, or the file is in another language.
    """
    document = source if isinstance(source, Document) else read_document(source, encoding)
    target = Path(target)
    check_target(document, target, target_lang)
    document.language = document.language or target_lang
    memory = sibling_path(target, "translations.jsonl")
    head = json.dumps([settings, target_lang, document.markup], default=str, sort_keys=True)
    found = _remembered(memory, head)
    new = [unit for unit in dict.fromkeys(document.units) if unit not in found]
    num_resumed = sum(unit in found for unit in document.units)
    takes_markup = document.markup and "markup" in inspect.signature(translate).parameters
    options = {"markup": document.markup} if takes_markup else {}
    for units in _lists(new):
        translations = [_CONTROLS.sub("", text) for text in translate(units, **options)]
        if len(translations) != len(units):
            raise UserError(
                f"`translate` must return one string per text. Received: {len(translations):,} "
                f"for {len(units):,}"
            )
        _remember(memory, head, zip(units, translations))
        found.update(zip(units, translations))
    results = [found[unit] if found[unit].strip() else None for unit in document.units]
    with atomic_write(target) as path:
        document.render(results, path)
    memory.unlink(missing_ok=True)
    skipped = Counter(document.skipped)
    skipped["without a translation"] = results.count(None)
    failed = sum(skipped[x] for x in skipped if x.startswith(("without a t", "with other")))
    return FileReport(
        len(results), len(results) - failed, num_resumed, dict(+skipped), document.remarks
    )


def check_target(document: Document, target: Path, target_lang: str | None) -> None:
    """Raise a `UserError` if `translate_file` cannot write a document to a file."""
    if target.exists() and target.samefile(document.path):
        raise UserError(f"Cannot write to {target}: it is the source. Pass another `output`.")
    if FORMATS.get(target.suffix.lower()) != FORMATS.get(document.path.suffix.lower()):
        if target.suffix or not target.exists():  # not a device
            raise UserError(
                f"`output` must end with {document.path.suffix}, like {document.path}. Received: "
                f"output={str(target)!r}"
            )
    check_writable("output", target)
    if target_lang and document.language and not _may_be(document.language, target_lang):
        raise UserError(
            f"{document.path} declares translations into {document.language!r}. Expected the "
            f"language of the translations, {target_lang!r}"
        )


def _may_be(declared: str, wanted: str) -> bool:
    """Return whether two codes can stand for one language: "de" and "deu" are not compared."""
    codes = [re.split("[-_@.]", code.lower())[0] for code in (declared, wanted)]
    return len(codes[0]) != len(codes[1]) or codes[0] == codes[1]


def _lists(units: list[str]) -> Iterator[list[str]]:
    """Divide units into lists, which grow as long as they take little time."""
    start, size = 0, _FIRST
    while start < len(units):
        begin = time.monotonic()
        yield units[start : start + size]
        start += size
        if time.monotonic() - begin < _SECONDS:
            size = min(2 * size, _LARGEST)


def _remembered(memory: Path, head: str) -> dict[str, str]:
    """Return the translations of an interrupted run with the same first line, its settings."""
    found = {}
    if memory.exists():
        first, *lines = memory.read_text("utf-8", errors="replace").split("\n")
        if first != head:
            memory.unlink()
            return found
        for line in lines:
            with contextlib.suppress(ValueError):  # empty, or not written completely
                source, found[source] = json.loads(line)
    return found


def _remember(memory: Path, head: str, pairs: Iterable[tuple[str, str]]) -> None:
    is_new = not memory.exists()
    with open(memory, "a", encoding="utf-8") as file:
        file.write(f"{head}\n" if is_new else "\n")  # An incomplete line ends here.
        file.writelines(f"{json.dumps(pair)}\n" for pair in pairs)
        file.flush()
        os.fsync(file.fileno())
