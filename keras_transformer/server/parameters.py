"""The parameters of a request, from its query, its JSON body or its form."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from keras_transformer.errors import UserError

# The rest of a body that is too large is read, so that its client reads the answer.
_MOST_DISCARDED = 64 * 2**20
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 60


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
            body = b"".join([chunk async for chunk in _body(request, limit, hold)])
    except TimeoutError:
        raise HTTPException(408, f"A request must be sent within {seconds:,} seconds") from None
    query = _fields(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        values = _json(body)
    elif body:
        values = await _form(request, body, limit)
    else:
        values = {}
    for name, value in values.items():
        if any(_SURROGATE.search(x) for x in (name, *_strings(value))):
            raise UserError(
                f"`{shown(name)}` must be Unicode text. Received: half of a surrogate pair"
            )
    return {**query, **values}


async def _body(request: Request, limit: int, hold: Callable) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= limit:
            hold(len(chunk))
            yield chunk
        elif size > limit + _MOST_DISCARDED:
            break
    if size > limit:
        raise HTTPException(413, f"A request may have {limit:,} bytes. Received: more")


def _json(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UserError(f"The body is not valid JSON: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UserError(f"The body must be a JSON object. Received: {type(values).__name__}")
    return values


async def _form(request: Request, body: bytes, limit: int) -> dict[str, Any]:
    try:
        # The body's size bounds the number of fields.
        form = await Request(request.scope, _received(body)).form(
            max_fields=limit, max_part_size=limit
        )
    except (MultiPartException, HTTPException, ValueError) as error:
        message = getattr(error, "detail", None) or str(error)
        raise UserError(f"The body is not a valid form: {message}") from None
    return _fields(form)


def _fields(form: Any) -> dict[str, Any]:
    fields: dict[str, list] = {}
    for name, value in form.multi_items():
        fields.setdefault(name, []).append(value)
    return {name: found[0] if len(found) == 1 else found for name, found in fields.items()}


def _received(body: bytes) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _strings(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [x for x in values if isinstance(x, str)]


def shown(value: Any) -> str:
    """Return the beginning of a value that a client sent, which an answer can contain."""
    return _SURROGATE.sub("\ufffd", str(value)[:_SHOWN])


def texts(values: dict[str, Any], limit: int) -> str | list[str]:
    """Return `q`: a string, or a list of strings, with at most `limit` characters in all."""
    if "q" not in values:
        raise UserError("`q` is missing. Expected the text to translate")
    found = values["q"]
    for text in found if isinstance(found, list) else [found]:
        if not isinstance(text, str):
            received = "a file" if isinstance(text, UploadFile) else shown(json.dumps(text))
            raise UserError(f"`q` must be a string or a list of strings. Received: {received}")
    check_characters(sum(map(len, found)), limit)
    return found


def check_characters(count: int, limit: int) -> None:
    """Raise an `HTTPException` if texts have too many characters."""
    if count > limit:
        raise HTTPException(
            413, f"A request may have {limit:,} characters. Received: {count:,}"
        )  # fmt: skip


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


def is_true(values: dict[str, Any], name: str) -> bool:
    """Return whether a parameter is true. Without it, it is not."""
    value = values.get(name, False)
    if value not in (True, False, "true", "false"):
        raise UserError(f"`{name}` must be true or false. Received: {shown(value)}")
    return value in (True, "true")


def is_html(values: dict[str, Any]) -> bool:
    """Return whether the texts have markup."""
    form = values.get("format", "text")
    if form not in ("text", "html"):
        raise UserError(f"`format` must be text or html. Received: {shown(form)}")
    return form == "html"
