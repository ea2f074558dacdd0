"""The server's routes, as an ASGI application that any ASGI server runs."""

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import keras
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from keras_transformer.documents.file_translation import FORMATS
from keras_transformer.documents.html import html_part
from keras_transformer.errors import UserError
from keras_transformer.server import parameters
from keras_transformer.server.detection import language_names
from keras_transformer.server.directions import Directions, Source
from keras_transformer.server.options import ServerOptions
from keras_transformer.server.scheduler import Admission, Answer, Busy, Scheduler
from keras_transformer.server.translated_files import (
    TranslatedFiles,
    discard,
    read_upload,
    safe_name,
    translate_upload,
)
from keras_transformer.tasks.length_batches import before_batch
from keras_transformer.translation.checks import check_pairs
from keras_transformer.translation.translator import Translator, best_of

_PAGE = Path(__file__).with_name("page.html")
_AUTO = "auto"
_SECONDS_TO_RETRY = 2
# An explanation's page and its time grow with the square of the length.
_MOST_EXPLAINED = 500  # characters
_COST_OF_EXPLANATION = 100_000  # bytes of a request that waits
_MOST_DETECTED = 20_000  # characters, with tags
# The page and an explanation are complete: they load nothing, and ask only this server.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'"
)
# A translated file is of the client's making: a browser must not run it as a page of this server.
_DOWNLOAD = {"Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff"}
_IDENTITY = "The text is already in the language of the translation"


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
    cors = Middleware(
        CORSMiddleware,
        allow_origins=options.cors_origin,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
    )
    return Starlette(
        routes=[
            Route("/", server.page),
            Route("/translate", server.translate, methods=["POST"]),
            Route("/translate_file", server.translate_file, methods=["POST"]),
            Route("/download_file/{name}", server.download, name="download"),
            Route("/explain", server.explain, methods=["POST"]),
            Route("/detect", server.detect, methods=["POST"]),
            Route("/languages", server.languages),
            Route("/frontend/settings", server.settings),
            Route("/health", server.health),
        ],
        middleware=[cors] if options.cors_origin else [],
        exception_handlers={
            UserError: _user_error,
            Busy: _busy,
            HTTPException: _http_error,
            Exception: _defect,
        },  # pyright: ignore[reportArgumentType]
        lifespan=server.lifespan,
    )


def _admitted(
    route: Callable[..., Awaitable[Response]],
) -> Callable[..., Awaitable[Response]]:
    """Return a route whose request is counted until it is answered, with its parameters read."""

    @functools.wraps(route)
    async def admitted(self: "_Server", request: Request) -> Response:
        is_file = request.url.path == "/translate_file"
        options = self.options
        limit = options.max_file_bytes if is_file else options.max_request_bytes
        with self.admission.request() as hold:
            values = await parameters.read_parameters(request, limit, options.body_seconds, hold)
            return await route(self, request, values, hold)

    return admitted


class _Server:
    def __init__(self, translator: Translator, options: ServerOptions):
        self.options = options
        self.admission = Admission(options.max_waiting, options.max_waiting_bytes)
        self._directions = Directions(translator)
        self._scheduler = Scheduler(options.max_sentences)
        self._files = TranslatedFiles(options.file_seconds)
        # Requests are translated together if they have the same translator.
        self._html_translator = functools.cache(lambda translator: translator.protecting("html"))
        self._most_results = getattr(translator.search, "beam_size", 1)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self._files.close()

    async def page(self, request: Request) -> Response:
        headers = {"Content-Security-Policy": _POLICY}
        return HTMLResponse(_PAGE.read_text("utf-8"), headers=headers)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": self.admission.num_requests})

    async def languages(self, request: Request) -> Response:
        targets, names = self._directions.targets, language_names(self._directions.codes)
        rows = [
            {"code": code, "name": name, "targets": targets.get(code, [])}
            for code, name in names.items()
        ]
        return JSONResponse(rows)

    async def settings(self, request: Request) -> Response:
        names = language_names(self._directions.first)
        source, target = ({"code": code, "name": name} for code, name in names.items())
        values = {
            "apiKeys": False,
            "charLimit": self.options.max_characters,
            "frontendTimeout": 500,
            "keyRequired": False,
            "language": {"source": source, "target": target},
            "suggestions": False,
            "supportedFilesFormat": [*FORMATS],
            "filesTranslation": True,
        }
        return JSONResponse(values)

    @_admitted
    async def detect(self, request: Request, values: dict[str, Any], hold: Any) -> Response:
        texts = parameters.texts(values, self.options.max_characters)
        text = texts if isinstance(texts, str) else "\n".join(texts)
        return JSONResponse([found.json() for found in self._directions.detected(text)])

    @_admitted
    async def translate(self, request: Request, values: dict[str, Any], hold: Any) -> Response:
        texts = parameters.texts(values, self.options.max_characters)
        is_one = isinstance(texts, str)
        texts = [texts] if is_one else texts
        is_html = parameters.is_html(values)
        wanted = parameters.alternatives(values), parameters.is_true(values, "warnings")
        with_sentences = parameters.is_true(values, "sentences")
        source, target = await self._languages(values, _words(texts, is_html))
        answer: dict[str, Any] = {}
        if values["source"] == _AUTO:
            answer["detectedLanguage"] = {"language": source.code, "confidence": source.confidence}
        if source.is_target:
            answer |= _unchanged(texts, *wanted)
            sentences = [[text] if text.strip() else [] for text in texts]
        else:
            translator = self._directions.translator(source.code, target)
            translator = self._html_translator(translator) if is_html else translator
            sentences, found = await self._translated(translator, texts, *wanted)
            answer |= found
        if with_sentences:
            answer["sentences"] = sentences
        if is_one:
            keys = {*answer} - {"detectedLanguage"}
            answer |= {name: answer[name][0] for name in keys}
        elif "detectedLanguage" in answer:
            answer["detectedLanguage"] = [answer["detectedLanguage"]] * len(texts)
        return JSONResponse(answer)

    async def _languages(self, values: dict[str, Any], text: str) -> tuple[Source, str]:
        """Return the source and the target of a request, which may be the same."""
        target = self._directions.code("target", parameters.word(values, "target"))
        source = parameters.word(values, "source")
        if source == _AUTO:
            return self._directions.source_of(text, target), target
        source = self._directions.code("source", source)
        if source != target:
            self._directions.translator(source, target)
        return Source(source, 100.0, source == target), target

    async def _translated(
        self, translator: Translator, texts: list[str], num_alternatives: int, with_warnings: bool
    ) -> tuple[list[list[str]], dict[str, Any]]:
        """Return the sentences of texts, and the parts of the answer."""
        num_results = 1 + min(num_alternatives, self._most_results - 1)
        # All alternatives are searched for, so that a number has no program of its own on JAX.
        wanted = 1 if num_results == 1 else self._most_results
        found: Answer = await self._scheduler.translate(translator, texts, wanted)
        best = [best_of(results)[0] for results in found.results]
        answer: dict[str, Any] = {"translatedText": best}
        if num_results > 1:
            rows = [dict.fromkeys(text for text, _ in x[:num_results]) for x in found.results]
            answer["alternatives"] = [
                [text for text in row if text != first] for row, first in zip(rows, best)
            ]
        if with_warnings:
            answer["warnings"] = await self._scheduler.call(
                _warnings, self._scheduler, translator, found, best
            )
        return [[*text.sentences] for text in found.prepared], answer

    @_admitted
    async def translate_file(self, request: Request, values: dict[str, Any], hold: Any) -> Response:
        upload = parameters.upload(values)
        folder = self._files.new_folder()
        try:
            path = folder / safe_name(upload.filename or "")
            path.write_bytes(await upload.read())
            document = await self._scheduler.call(read_upload, path)
            texts = [unit.text for unit in document.units]
            parameters.check_characters(sum(map(len, texts)), self.options.max_characters)
            source, target = await self._languages(values, "\n".join(texts))
            if not source.is_target:
                translator = self._directions.translator(source.code, target)
                path = await self._scheduler.call(
                    translate_upload,
                    document,
                    translator,
                    source.code,
                    target,
                    self._scheduler.turns,
                )
        except BaseException:
            discard(folder)
            raise
        url = request.url_for("download", name=self._files.keep(path))
        return JSONResponse({"translatedFileUrl": str(url)})

    async def download(self, request: Request) -> Response:
        path = self._files.find(request.path_params["name"])
        if path is None:
            raise HTTPException(404, "There is no such file, or it was deleted")
        return FileResponse(path, filename=path.name, headers=_DOWNLOAD)

    @_admitted
    async def explain(self, request: Request, values: dict[str, Any], hold: Any) -> Response:
        text = parameters.texts(values, self.options.max_characters)
        if not isinstance(text, str) or len(text.splitlines()) > 1 or len(text) > _MOST_EXPLAINED:
            raise UserError(f"`q` must be one line of at most {_MOST_EXPLAINED} characters")
        source, target = await self._languages(values, text)
        translator = self._directions.translator(source.code, target)
        hold(_COST_OF_EXPLANATION)
        page = await self._scheduler.call(_explanation, self._scheduler, translator, text)
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


def _unchanged(texts: list[str], num_alternatives: int, with_warnings: bool) -> dict[str, Any]:
    """Return the parts of the answer for texts that are in the target language."""
    answer: dict[str, Any] = {"translatedText": texts}
    if num_alternatives:
        answer["alternatives"] = [[] for _ in texts]
    if with_warnings:
        answer["warnings"] = [[_IDENTITY] for _ in texts]
    return answer


def _explanation(scheduler: Scheduler, translator: Translator, sentence: str) -> str:
    with scheduler.turns():
        before_batch.get()()  # The search for an explanation has no batches.
        return translator.explain(sentence).html()


def _warnings(
    scheduler: Scheduler, translator: Translator, answer: Answer, best: list[str]
) -> list[list[str]]:
    """Return the messages of `Translator.check` for each text, and what the model did not read."""
    few_shapes = keras.backend.backend() == "jax"
    with scheduler.turns():
        sources = [str(text.source) for text in answer.prepared]
        checks = check_pairs(translator, sources, best, few_shapes)
    return [[finding.message for finding in check.findings] for check in checks]


def _words(texts: list[str], is_html: bool) -> str:
    """Return the beginning of texts without tags, for a detection of their language."""
    text = "\n".join(texts)[:_MOST_DETECTED]
    return "\n".join(unit.marked.text for unit in html_part(text).units) if is_html else text


# Errors: one line each, in LibreTranslate's form


def _error(message: str, status: int, headers: Any = None) -> Response:
    text = " ".join(message.split()).encode("utf-8", "replace").decode()
    return JSONResponse({"error": text}, status, headers)


async def _user_error(request: Request, error: UserError) -> Response:
    return _error(str(error), 400)


async def _busy(request: Request, error: Busy) -> Response:
    retry = {"Retry-After": str(_SECONDS_TO_RETRY)}
    return _error("Too many requests are waiting. Try again later", 503, retry)


async def _http_error(request: Request, error: HTTPException) -> Response:
    return _error(error.detail, error.status_code, error.headers)


async def _defect(request: Request, error: Exception) -> Response:
    return _error("Internal error. The server's log has its cause", 500)
