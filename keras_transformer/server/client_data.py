"""Data from clients: the parameters of a request, and files to translate."""

import asyncio
import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

from keras_transformer.documents.file_translation import FORMATS, read_document, translate_file
from keras_transformer.errors import UserError
from keras_transformer.server import ServerOptions
from keras_transformer.server.directions import Detected
from keras_transformer.translation.translator import Translator

# The rest of a body that is too large is read, so that its client reads the answer.
_MOST_DISCARDED = 64 * 2**20
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 60
_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
_LONGEST_NAME = 200  # bytes, so that the code of a language and an ending have room


async def read_parameters(
    request: Request, limit: int, seconds: float, hold: Callable[[int], None]
) -> dict[str, Any]:
    """Return the parameters of a request. The body's take precedence over the query's.

    Args:
        request: the request.
        limit: the most bytes of the body.
        seconds: the longest time in which it is read.
        hold: function that is called with the number of bytes of each piece of the body.

    Raises:
        UserError: if the body is damaged, or a parameter has half of a surrogate pair.
        HTTPException: if the body is too large, or comes too slowly.
    """
    try:
        async with asyncio.timeout(seconds):
            limited = Request(request.scope, _limited(request.receive, limit, hold))
            values = await _body(limited, limit)
    except TimeoutError:
        raise HTTPException(408, f"A request must be sent within {seconds:,} seconds") from None
    for name, value in values.items():
        if any(_SURROGATE.search(x) for x in (name, *_strings(value))):
            raise UserError(
                f"`{shown(name)}` must be Unicode text. Received: half of a surrogate pair"
            )
    return {**_fields(request.query_params), **values}


def _limited(receive: Receive, limit: int, hold: Callable[[int], None]) -> Receive:
    """Return a function that receives the messages of a request, and counts their bytes."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        count = len(message.get("body", b""))
        size += count
        if size <= limit:
            hold(count)
            return message
        if not message.get("more_body") or size > limit + _MOST_DISCARDED:
            raise HTTPException(413, f"A request may have {limit:,} bytes. Received: more")
        return {**message, "body": b""}

    return limited


async def _body(request: Request, limit: int) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _FORMS:
        try:
            # The body's size bounds the number of fields.
            return _fields(await request.form(max_fields=limit, max_part_size=limit))
        except ValueError as error:  # such as a charset that Python does not decode
            raise UserError(f"The body is not a valid form: {error}") from None
    body = await request.body()
    return _json(body) if kind == "application/json" or kind.endswith("+json") else {}


def _json(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UserError(f"The body is not valid JSON: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UserError(f"The body must be a JSON object. Received: {type(values).__name__}")
    return values


def _fields(form: Any) -> dict[str, Any]:
    fields: dict[str, list] = {}
    for name, value in form.multi_items():
        fields.setdefault(name, []).append(value)
    return {name: found[0] if len(found) == 1 else found for name, found in fields.items()}


def _strings(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [x for x in values if isinstance(x, str)]


def shown(value: Any) -> str:
    """Return the beginning of a value that a client sent, which an answer can contain."""
    return _SURROGATE.sub("\ufffd", str(value)[:_SHOWN])


def texts(values: dict[str, Any], options: ServerOptions) -> str | list[str]:
    """Return `q`: a string, or a list of strings, within the limits of a request."""
    if "q" not in values:
        raise UserError("`q` is missing. Expected the text to translate")
    found = values["q"]
    rows = found if isinstance(found, list) else [found]
    check_count(len(rows), options.max_sentences, "texts")
    for text in rows:
        if not isinstance(text, str):
            received = "a file" if isinstance(text, UploadFile) else shown(json.dumps(text))
            raise UserError(f"`q` must be a string or a list of strings. Received: {received}")
    check_count(sum(map(len, rows)), options.max_characters, "characters")
    return found


def check_count(count: int, limit: int, things: str) -> None:
    """Raise an `HTTPException` if a request has too many things of some kind."""
    if count > limit:
        raise HTTPException(413, f"A request may have {limit:,} {things}. Received: {count:,}")


def word(values: dict[str, Any], name: str) -> str:
    """Return the code of a language."""
    if name not in values:
        raise UserError(f"`{name}` is missing. Expected the code of a language")
    if not isinstance(values[name], str):
        raise UserError(f"`{name}` must be a string. Received: {name}={shown(values[name])}")
    return values[name]


def upload(values: dict[str, Any]) -> UploadFile:
    """Return `file`, with its name."""
    found = values.get("file")
    if not isinstance(found, UploadFile) or not found.filename:
        raise UserError("`file` must be a file with a name, in a multipart form. Received: none")
    return found


def alternatives(values: dict[str, Any]) -> int:
    """Return the number of further translations."""
    value = values.get("alternatives", 0)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        value = int(value)  # of a form
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UserError(
            f"`alternatives` must be an integer of at least 0. Received: {shown(value)}"
        )
    return value


def flag(
    values: dict[str, Any],
    name: str,
    no: Sequence = ("false", False),
    yes: Sequence = ("true", True),
) -> bool:
    """Return whether a parameter has one of the values for yes. Without it, it has not."""
    value = values.get(name, no[0])
    if value not in (*no, *yes):
        raise UserError(f"`{name}` must be {no[0]} or {yes[0]}. Received: {shown(value)}")
    return value in yes


class TranslatedFiles:
    """A folder of translated files. Each has a name that cannot be guessed.

    Args:
        seconds: how long a file is kept.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._folder = tempfile.TemporaryDirectory(prefix="keras-transformer-")
        self._paths: dict[str, Path] = {}

    def close(self) -> None:
        """Delete all files."""
        self._paths.clear()
        self._folder.cleanup()

    def new_folder(self) -> Path:
        """Return a new folder for an upload and its translation."""
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def keep(self, path: Path) -> str:
        """Offer a file for some time, and return its name. Its folder is deleted afterwards."""
        name = f"{secrets.token_urlsafe(24)}{path.suffix}"
        self._paths[name] = path
        asyncio.get_running_loop().call_later(self._seconds, self._forget, name)
        return name

    def find(self, name: str) -> Path | None:
        """Return the path of a file, or None if there is none with this name any more."""
        return self._paths.get(name)

    def _forget(self, name: str) -> None:
        if path := self._paths.pop(name, None):
            discard(path.parent)


def discard(folder: Path) -> None:
    """Delete the folder of an upload."""
    shutil.rmtree(folder, ignore_errors=True)


def safe_name(name: str) -> str:
    """Return the name of an uploaded file without folders, and check its format.

    Raises:
        UserError: if there is no such format.
    """
    path = PurePath(name.replace("\\", "/").replace("\0", "")).name
    stem, suffix = PurePath(path).stem, PurePath(path).suffix.lower()
    if suffix not in FORMATS:
        raise UserError(
            f"`file` must have one of the endings {', '.join(FORMATS)}. Received: "
            f"{path[-_LONGEST_NAME:]!r}"
        )
    return stem.encode("utf-8", "ignore")[:_LONGEST_NAME].decode("utf-8", "ignore") + suffix


def translate_upload(
    path: Path, limit: int, direction: Callable[[str], tuple[Translator | None, Detected, str]]
) -> Path:
    """Translate a file into its folder, and return the path of the translation.

    Args:
        path: the file.
        limit: the most characters of its texts.
        direction: function of its texts that returns a translator, the source and the target. The
            file of a direction without a translator stays as it is.

    Raises:
        UserError: if it is damaged. The error names it without its folder.
        HTTPException: if it has too many characters.
    """
    try:
        document = read_document(path)
        texts = [unit.text for unit in document.units]
        check_count(sum(map(len, texts)), limit, "characters")
        translator, source, target = direction("\n".join(texts))
        if translator is None:
            return path
        new = path.with_name(f"{path.stem}_{target}{path.suffix}")
        translate_file(document, new, translator, target_lang=target, source_lang=source.language)
    except UserError as error:
        raise UserError(str(error).replace(f"{path.parent}/", "")) from None
    return new
