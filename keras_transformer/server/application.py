"""The server's routes, as an ASGI application that any ASGI server runs."""

import functools
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import keras
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from keras_transformer.errors import UserError
from keras_transformer.protection import protect
from keras_transformer.server.detection import LanguageDetector, language_name
from keras_transformer.server.directions import Directions
from keras_transformer.server.model_thread import Busy, ModelThread
from keras_transformer.server.options import ServerOptions
from keras_transformer.translation.checks import check_pairs
from keras_transformer.translation.translator import Translator, best_of

_PAGE = Path(__file__).with_name("page.html")
_AUTO = "auto"
_SECONDS_TO_RETRY = 2
# The rest of a body that is too large is read, so that its client reads the answer.
_MOST_DISCARDED = 64 * 2**20
# The page and an explanation are complete: they load nothing, and ask only this server.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'"
)


def application(translator: Translator, options: ServerOptions | None = None) -> Starlette:
    """Return the ASGI application that serves a translator.

    Args:
        translator: a `Translator`.
        options: `ServerOptions`.

    Raises:
        UserError: if an option is out of its range.
    """
    options = options or ServerOptions()
    options.check()
    server = _Server(translator, options)
    return Starlette(
        routes=[
            Route("/", server.page),
            Route("/translate", server.translate, methods=["POST"]),
            Route("/explain", server.explain, methods=["POST"]),
            Route("/detect", server.detect, methods=["POST"]),
            Route("/languages", server.languages),
            Route("/frontend/settings", server.settings),
            Route("/health", server.health),
        ],
        exception_handlers={
            UserError: _user_error,
            Busy: _busy,
            HTTPException: _http_error,
            Exception: _defect,
        },  # pyright: ignore[reportArgumentType]
    )


class _Server:
    def __init__(self, translator, options):
        self._directions = Directions(translator)
        self._model = ModelThread(options.max_waiting)
        # Requests are translated together if they have the same translator.
        self._html_translator = functools.cache(lambda translator: translator.protecting("html"))
        self._options = options
        self._most_results = getattr(translator.search, "beam_size", 1)

    async def page(self, request: Request) -> Response:
        headers = {"Content-Security-Policy": _POLICY}
        return HTMLResponse(_PAGE.read_text("utf-8"), headers=headers)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": self._model.num_waiting})

    async def languages(self, request: Request) -> Response:
        directions = self._directions
        rows = [
            {**_language(code), "targets": directions.targets.get(code, [])}
            for code in directions.codes
        ]
        return JSONResponse(rows)

    async def settings(self, request: Request) -> Response:
        source, target = self._directions.first
        values = {
            "apiKeys": False,
            "charLimit": -1,
            "frontendTimeout": 500,
            "keyRequired": False,
            "language": {"source": _language(source), "target": _language(target)},
            "suggestions": False,
            "supportedFilesFormat": [],
            "filesTranslation": False,
        }
        return JSONResponse(values)

    async def detect(self, request: Request) -> Response:
        values = await _read(request, self._options.max_request_bytes)
        texts = _texts(values)
        text = texts if isinstance(texts, str) else "\n".join(texts)
        return JSONResponse(self._detector(text))

    async def translate(self, request: Request) -> Response:
        values = await _read(request, self._options.max_request_bytes)
        texts = _texts(values)
        is_one = isinstance(texts, str)
        is_html = _is_html(values)
        num_results = 1 + min(_alternatives(values), self._most_results - 1)
        translator, answer = self._translator(
            values, texts if is_one else "\n".join(texts), is_html
        )
        texts = [texts] if is_one else texts
        sentences = [text.sentences for text in translator.split(texts)]
        num_sentences = sum(map(len, sentences))
        if num_sentences > self._options.max_sentences:
            raise HTTPException(
                413, f"A request may have {self._options.max_sentences:,} sentences. Received: "
                f"{num_sentences:,}"
            )  # fmt: skip
        # All alternatives are searched for, so that a number has no program of its own on JAX.
        wanted = 1 if num_results == 1 else self._most_results
        results = await self._model.translate(translator, texts, wanted, num_sentences)
        best = [best_of(found)[0] for found in results]
        answer["translatedText"] = best[0] if is_one else best
        if num_results > 1:
            found = [dict.fromkeys(text for text, _ in rows[:num_results]) for rows in results]
            others = [
                [text for text in texts if text != first] for texts, first in zip(found, best)
            ]
            answer["alternatives"] = others[0] if is_one else others
        if _is_true(values, "sentences"):
            answer["sentences"] = sentences[0] if is_one else sentences
        if _is_true(values, "warnings"):
            warnings = await self._model.call(_warnings, translator, texts, best)
            answer["warnings"] = warnings[0] if is_one else warnings
        if not is_one and "detectedLanguage" in answer:
            answer["detectedLanguage"] = [answer["detectedLanguage"]] * len(texts)
        return JSONResponse(answer)

    async def explain(self, request: Request) -> Response:
        values = await _read(request, self._options.max_request_bytes)
        text = _texts(values)
        if not isinstance(text, str) or len(text.splitlines()) > 1:
            raise UserError("`q` must be one line. Received: several")
        translator, _ = self._translator(values, text)
        page = await self._model.call(_explanation, translator, text)
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    def _translator(self, values, text, is_html=False):
        """Return the translator of a request, and the beginning of its answer."""
        target = _word(values, "target")
        source, answer = _word(values, "source"), {}
        if source == _AUTO:
            detected = self._detector(protect(text).text if is_html else text)
            answer["detectedLanguage"] = detected[0]
            source = detected[0]["language"]
            if target not in self._directions.targets.get(source, ()):
                pairs = ", ".join(self._directions.targets)
                raise UserError(
                    f"The text looks like {source}, which the model does not translate into "
                    f"{target[:60]}. Expected `source` to be one of: {pairs}"
                )
        translator = self._directions.translator(source, target)
        return self._html_translator(translator) if is_html else translator, answer

    @functools.cached_property
    def _detector(self):
        return LanguageDetector(self._directions.codes)


def _explanation(translator: Translator, sentence: str) -> str:
    return translator.explain(sentence).html()


def _warnings(translator: Translator, sources: list[str], best: list[str]) -> list[list[str]]:
    """Return the messages of `Translator.check` for each text."""
    few_shapes = keras.backend.backend() == "jax"
    checks = check_pairs(translator, sources, best, few_shapes)
    return [[finding.message for finding in check.findings] for check in checks]


def _language(code: str) -> dict[str, str]:
    return {"code": code, "name": language_name(code)}


# Requests


async def _read(request: Request, limit: int) -> dict[str, Any]:
    """Return the parameters of a request: of its JSON body, or of its form."""
    body = await _body(request, limit)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            values = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise UserError(f"The body is not valid JSON: {' '.join(str(error).split())}") from None
        if not isinstance(values, dict):
            raise UserError(f"The body must be a JSON object. Received: {type(values).__name__}")
        return values
    try:
        form = await Request(request.scope, _received(body)).form(max_part_size=limit)
    except (MultiPartException, HTTPException, ValueError) as error:
        message = getattr(error, "detail", None) or str(error)
        raise UserError(f"The body is not a valid form: {message}") from None
    fields = {name: form.getlist(name) for name in form}
    return {name: found[0] if len(found) == 1 else found for name, found in fields.items()}


async def _body(request: Request, limit: int) -> bytes:
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= limit:
            body += chunk
        elif size > limit + _MOST_DISCARDED:
            break
    if size > limit:
        raise HTTPException(413, f"A request may have {limit:,} bytes. Received: more")
    return bytes(body)


def _received(body: bytes) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _texts(values: dict[str, Any]) -> str | list[str]:
    """Return `q`: a string, or a list of strings."""
    if "q" not in values:
        raise UserError("`q` is missing. Expected the text to translate")
    texts = values["q"]
    for text in texts if isinstance(texts, list) else [texts]:
        if not isinstance(text, str):
            raise UserError(
                f"`q` must be a string or a list of strings. Received: {json.dumps(text)[:60]}"
                if isinstance(text, int | float | list | dict | None)
                else "`q` must be a string or a list of strings. Received: a file"
            )
        if re.search("[\ud800-\udfff]", text):
            raise UserError("`q` must be Unicode text. Received: half of a surrogate pair")
    return texts


def _word(values: dict[str, Any], name: str) -> str:
    if name not in values:
        raise UserError(f"`{name}` is missing. Expected the code of a language")
    if not isinstance(values[name], str):
        raise UserError(f"`{name}` must be a string. Received: {name}={values[name]!r}"[:160])
    return values[name]


def _alternatives(values: dict[str, Any]) -> int:
    value = values.get("alternatives", 0)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        value = int(value)  # of a form
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UserError(
            f"`alternatives` must be an integer of at least 0. Received: {str(value)[:60]}"
        )
    return value


def _is_true(values: dict[str, Any], name: str) -> bool:
    value = values.get(name, False)
    if value not in (True, False, "true", "false"):
        raise UserError(f"`{name}` must be true or false. Received: {str(value)[:60]}")
    return value in (True, "true")


def _is_html(values: dict[str, Any]) -> bool:
    form = values.get("format", "text")
    if form not in ("text", "html"):
        raise UserError(f"`format` must be text or html. Received: {str(form)[:60]}")
    return form == "html"


# Errors: one line each, in LibreTranslate's form


def _error(message: str, status: int, headers: Any = None) -> Response:
    return JSONResponse({"error": message}, status, headers)


async def _user_error(request: Request, error: UserError) -> Response:
    return _error(" ".join(str(error).split()), 400)


async def _busy(request: Request, error: Busy) -> Response:
    retry = {"Retry-After": str(_SECONDS_TO_RETRY)}
    return _error("Too many sentences are waiting. Try again later", 503, retry)


async def _http_error(request: Request, error: HTTPException) -> Response:
    return _error(error.detail, error.status_code, error.headers)


async def _defect(request: Request, error: Exception) -> Response:
    return _error("Internal error. The server's log has its cause", 500)
