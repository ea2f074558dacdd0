"""Translation of files: the formats, and the work on one file, which can be interrupted."""

import contextlib
import importlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from keras_transformer.documents.document import Document
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write, check_writable, sibling_path
from keras_transformer.language_codes import is_language_code, may_be_same_language
from keras_transformer.protection import protect
from keras_transformer.protection.spans import MarkedText

# The ending of a file's name -> the module of `keras_transformer.documents` and its class.
FORMATS = {
    ".txt": ("document", "PlainText"),
    ".md": ("markdown", "Markdown"),
    ".markdown": ("markdown", "Markdown"),
    ".html": ("html_document", "Html"),
    ".htm": ("html_document", "Html"),
    ".xhtml": ("html_document", "Xhtml"),
    ".epub": ("html_document", "Epub"),
    ".srt": ("subtitles", "Subtitles"),
    ".vtt": ("subtitles", "Subtitles"),
    ".po": ("catalogs", "Catalogs"),
    ".pot": ("catalogs", "Catalogs"),
    ".xliff": ("xliff", "Xliff"),
    ".xlf": ("xliff", "Xliff"),
    **dict.fromkeys(
        (".docx", ".docm", ".dotx", ".pptx", ".pptm", ".potx", ".ppsx"),
        ("office_open_xml", "OfficeOpenXml"),
    ),
    **dict.fromkeys((".odt", ".ott", ".odp", ".otp"), ("opendocument", "OpenDocument")),
}
# Sizes of the lists that are translated together: the first, and the largest. A list is twice as
# long as the one before while lists take less than this number of seconds.
_FIRST, _LARGEST, _SECONDS = 256, 4096, 20
_NUM_SETTINGS = 3
_MOST_SHOWN = 40  # characters that a vocabulary lacks


class TranslatesUnits(Protocol):
    """A translator of texts with spans, such as a `kt.Translator`."""

    def translate_units(self, units: Sequence[MarkedText]) -> Iterable[MarkedText]:
        """Return the translations of units, with the same spans."""
        ...


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
    translate: TranslatesUnits | Callable[[list[str]], Iterable[str]],
    target_lang: str | None = None,
    source_lang: str | None = None,
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
        target: the file to write, with the same ending; `.po` for a `.pot` file.
        translate: a `kt.Translator`, or any function from a list of strings to the list of their
            translations. Such a function gets texts without tags, which are put back in proportion
            to their places.
        target_lang: the language of the translations. A file that declares another is refused.
            Defaults to the translator's.
        source_lang: the language of the texts. Where the file declares it, the language of the
            translations takes its place. Defaults to the translator's, and then to the first
            language that the file declares.
        encoding: as for `read_document`.
        settings: everything the translations depend on, such as the name of the model, for JSON. An
            interrupted run is continued only with the same settings.

    Returns:
        A `FileReport`.

    Raises:
        UserError: if the file cannot be read or is damaged, `target` is `source` or has another
            ending, the file is in another language, or an interrupted run had other settings.
    """
    document = source if isinstance(source, Document) else read_document(source, encoding)
    target, metadata = Path(target), getattr(translate, "metadata", {})
    source_lang, target_lang = (
        given or (metadata[side] if is_language_code(metadata.get(side)) else None)
        for side, given in (("source", source_lang), ("target", target_lang))
    )
    validate_target(document, target, target_lang)
    memory = _Memory(target, [settings, target_lang, source_lang])
    units = {_key(unit): unit for unit in document.units}
    known = {key: unit for key, unit in units.items() if memory.get(unit)}
    checks: list[Any] = []
    _prepared(translate, [*known.values()], checks)
    for some in _lists([unit for key, unit in units.items() if key not in known]):
        memory.add(some, _translated(translate, some, checks))
    num_resumed = sum(_key(unit) in known for unit in document.units)
    results = memory.results(document.units)
    num_before = document.skipped.total()
    with atomic_write(target) as path:
        document.render(results, path, source_lang, target_lang)
    memory.delete()
    skipped = document.skipped
    skipped["without a translation"] = results.count(None)
    failed = skipped.total() - num_before
    return FileReport(
        len(results),
        len(results) - failed,
        num_resumed,
        dict(+skipped),
        [*document.remarks, *_remarks(checks)],
    )


def validate_target(
    document: Document,
    target: Path,
    target_lang: str | None = None,
    settings: Any = None,
    argument: str = "target",
) -> None:
    """Raise a `UserError` if `translate_file` cannot write a document to a file.

    Args:
        document: the `Document`.
        target: the file.
        target_lang: the language of the translations, if it is known.
        settings: the settings of `translate_file`, if they are known.
        argument: name of the argument that contains the path.
    """
    check_writable(argument, target)
    if target.exists() and target.samefile(document.path):
        raise UserError(f"Cannot write to {target}: it is the source. Pass another `{argument}`.")
    suffix = document.path.suffix.lower().replace(".pot", ".po")
    if FORMATS.get(target.suffix.lower()) != FORMATS[suffix] or target.suffix.lower() == ".pot":
        if target.suffix or not target.exists():  # not a device
            raise UserError(
                f"`{argument}` must end with {suffix} for the file {document.path}. Received: "
                f"{str(target)!r}"
            )
    document.select(target_lang)
    declared = document.language
    if target_lang and declared and not may_be_same_language(declared, target_lang):
        raise UserError(
            f"{document.path} declares translations into {declared!r}. Expected the language of "
            f"the translations, {target_lang!r}"
        )
    if settings is not None:
        _Memory(target, [settings])


class _Memory:
    """The translations of a file so far: in `TARGET.translations.jsonl`, unless it is a device.

    Its first line has the settings. Each other line has a unit and its translation: the text and
    the places of the spans, (position, index in the unit).
    """

    def __init__(self, target: Path, settings: list):
        path = sibling_path(target, "translations.jsonl")
        is_device = target.exists() and not target.is_file()
        self._path = None if is_device else path
        self._head = json.dumps(settings, default=str, sort_keys=True)
        self._found: dict[str, Any] = {}
        if self._path and path.exists():
            # A folder or a device is in the way like a file of the user's.
            content = path.read_text("utf-8", errors="replace") if path.is_file() else ""
            first, *lines = content.split("\n")
            self._check(first)
            for line in lines:
                with contextlib.suppress(
                    ValueError, TypeError, RecursionError
                ):  # empty, or not complete
                    key, *self._found[key] = json.loads(line)

    def _check(self, first: str) -> None:
        """Raise a `UserError` if the file is another's, or of a run with other settings."""
        wanted, received = json.loads(self._head), None
        with contextlib.suppress(ValueError, RecursionError):
            received = json.loads(first)
        if not isinstance(received, list) or len(received) != _NUM_SETTINGS:
            raise UserError(
                f"{self._path} must hold the translations of an interrupted run, and has another "
                "content. Move it away."
            )
        if received[: len(wanted)] == wanted:
            return
        names = ""
        if isinstance(wanted[0], dict) and isinstance(received[0], dict):
            keys = {**wanted[0], **received[0]}
            different = [x for x in keys if wanted[0].get(x) != received[0].get(x)]
            names = f" ({', '.join(f'`{x}`' for x in different)})" if different else ""
        raise UserError(
            f"{self._path} holds the translations of an interrupted run with other settings{names}."
            " Pass the same settings to continue it, or delete that file."
        )

    def get(self, unit: MarkedText) -> MarkedText | None:
        """Return the translation of a unit, with the unit's own spans, or None."""
        try:
            text, places = self._found[_key(unit)]
            found = MarkedText(text, tuple((x, unit.spans[i][1]) for x, i in places))
            wanted = [*range(len(unit.spans))], sorted(min(max(0, x), len(text)) for x, _ in places)
            is_whole = wanted == (sorted(i for _, i in places), [x for x, _ in places])
            return found if isinstance(text, str) and is_whole else None
        except (LookupError, TypeError, ValueError):
            return None

    def results(self, units: Iterable[MarkedText]) -> list[MarkedText | None]:
        """Return the translations of units, or None for those that are empty."""
        found = map(self.get, units)
        return [x if x is not None and x.text.strip() else None for x in found]

    def add(self, units: Sequence[MarkedText], translations: Sequence[MarkedText]) -> None:
        """Add translations, and write them to disk."""
        lines = []
        for unit, new in zip(units, translations, strict=True):
            numbers = {id(span): number for number, (_, span) in enumerate(unit.spans)}
            entry = [new.text, [(position, numbers.get(id(span))) for position, span in new.spans]]
            self._found[_key(unit)] = entry
            if self.get(unit) is None:
                raise UserError(
                    "`translate` must return a translation with the spans of its text. Received: "
                    f"{str(new)[:80]!r} for {str(unit)[:80]!r}"
                )
            lines.append(f"{json.dumps([_key(unit), *entry])}\n")
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not self._path.exists()
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(f"{self._head}\n" if is_new else "\n")  # An incomplete line ends here.
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(f"Cannot write to {self._path}: {error.strerror}.") from error

    def delete(self) -> None:
        """Delete the file."""
        if self._path:
            self._path.unlink(missing_ok=True)


def _key(unit: MarkedText) -> str:
    """Return a string that is the same for units with equal texts and spans."""
    return json.dumps([unit.text, [(place, span.kind, span.raw) for place, span in unit.spans]])


def _translated(translate: Any, units: Sequence[MarkedText], checks: list[Any]) -> list[MarkedText]:
    """Return the translations of units, and collect the checks of the units."""
    if hasattr(translate, "translate_units"):
        results = list(translate.translate_units(_prepared(translate, units, checks)))
    else:
        found = [protect(unit, placeholders=False) for unit in units]
        results = list(translate([protected.text for protected in found]))
        if len(results) == len(units) and all(isinstance(text, str) for text in results):
            results = [protected.restore(text) for protected, text in zip(found, results)]
    if len(results) != len(units) or not all(isinstance(x, MarkedText) for x in results):
        raise UserError(
            f"`translate` must return one string per text. Received: {len(results):,} results for "
            f"{len(units):,}"
        )
    return results


def _prepared(translate: Any, units: Sequence[Any], checks: list[Any]) -> Sequence[Any]:
    """Prepare units, if the translator can, and collect their checks."""
    if hasattr(translate, "prepare"):
        units = translate.prepare(units, same_ends=True)
        checks += [(unit.is_cut, unit.unknown) for unit in units]
    return units


def _remarks(checks: Sequence[Any]) -> Iterator[str]:
    """Yield remarks on the parts of texts that a model does not read."""
    if num_cut := sum(is_cut for is_cut, _ in checks):
        yield f"cut to the longest text that the model reads (texts: {num_cut:,})"
    if unknown := [letters for _, letters in checks if letters]:
        letters = [letter for letter, _ in Counter("".join(unknown)).most_common()]
        shown = "".join(letters[:_MOST_SHOWN]) + "..." * (len(letters) > _MOST_SHOWN)
        yield f"not in the vocabulary: {shown} (texts: {len(unknown):,})"


def _lists(units: list[MarkedText]) -> Iterator[list[MarkedText]]:
    """Divide units into lists, which grow as long as they take little time."""
    start, size = 0, _FIRST
    while start < len(units):
        begin = time.monotonic()
        yield units[start : start + size]
        start += size
        if time.monotonic() - begin < _SECONDS:
            size = min(2 * size, _LARGEST)
