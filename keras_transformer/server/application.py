"""The server's routes, as an ASGI application that any ASGI server runs."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from keras_transformer.decoding.batched_search import before_batch
from keras_transformer.documents.file_translation import FORMATS
from keras_transformer.documents.html_document import html_part
from keras_transformer.errors import UserError
from keras_transformer.server import ServerOptions, client_data
from keras_transformer.server.client_data import TranslatedFiles
from keras_transformer.server.directions import Detected, Directions, language_names
from keras_transformer.server.scheduler import EXTRA, Admission, Answer, Busy, Scheduler
from keras_transformer.translation.translator import Translator, best_result

_Direction = tuple[Translator | None, Detected, str]
_PAGE = Path(__file__).with_name("page.html")
_AUTO = "auto"
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
    options.validate()
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
            HTTPException: _http_error,
            ClientDisconnect: _gone,
            Exception: _defect,
        },  # pyright: ignore[reportArgumentType]
        lifespan=server.lifespan,
    )


def _admitted(
    route: Callable[..., Awaitable[Response]],
) -> Callable[..., Awaitable[Response]]:
    """Return a route whose request is counted until it is answered, with its parameters read.

    It is canceled when its client goes away.
    """

    @functools.wraps(route)
    async def admitted(self: "_Server", request: Request) -> Response:
        is_file = request.url.path == "/translate_file"
        options = self.options
        limit = options.max_file_bytes if is_file else options.max_request_bytes
        with self.admission.request() as hold, _ending():
            values = await client_data.read_parameters(request, limit, options.body_seconds, hold)
            answer = asyncio.create_task(route(self, request, values, hold))  # pyright: ignore
            # After the body, nothing but the end of the connection is received.
            gone = asyncio.create_task(request.receive())  # pyright: ignore
            try:
                await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    raise ClientDisconnect
                return answer.result()
            finally:
                answer.cancel()
                gone.cancel()

    return admitted


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Answer what the server cancels at its end."""
    try:
        yield
    except asyncio.CancelledError:
        raise Busy("The server ends") from None


class _Server:
    def __init__(self, translator: Translator, options: ServerOptions) -> None:
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
        texts = client_data.texts(values, self.options)
        text = texts if isinstance(texts, str) else "\n".join(texts)
        found = await asyncio.to_thread(self._directions.detected, text)
        return JSONResponse([each._asdict() for each in found])

    @_admitted
    async def translate(self, request: Request, values: dict[str, Any], hold: Any) -> Response:
        texts = client_data.texts(values, self.options)
        is_one = isinstance(texts, str)
        texts = [texts] if is_one else texts
        is_html = client_data.flag(values, "format", ("text",), ("html",))
        number = client_data.alternatives(values)
        optional = {
            "alternatives": number > 0,
            "warnings": client_data.flag(values, "warnings"),
            "sentences": client_data.flag(values, "sentences"),
        }
        translator, source, _ = await self._direction(values, lambda: _words(texts, is_html))
        if translator is None:
            found: dict[str, list[Any]] = {
                "translatedText": texts,
                "alternatives": [[] for _ in texts],
                "warnings": [[_IDENTITY] for _ in texts],
                "sentences": [[text] if text.strip() else [] for text in texts],
            }
        else:
            translator = self._html_translator(translator) if is_html else translator
            found = await self._translated(translator, texts, number, optional["warnings"])
        if values["source"] == _AUTO:
            found = {"detectedLanguage": [source._asdict()] * len(texts), **found}
        return JSONResponse(
            {
                name: column[0] if is_one else column
                for name, column in found.items()
                if optional.get(name, True)
            }
        )

    async def _direction(self, values: dict[str, Any], text: Callable[[], str]) -> _Direction:
        """Call `_find_direction`, in a thread if it may have to load the detector."""
        if values.get("source") == _AUTO:
            return await asyncio.to_thread(self._find_direction, values, text)
        return self._find_direction(values, text)

    def _find_direction(self, values: dict[str, Any], text: Callable[[], str]) -> _Direction:
        """Return the translator of a request, its source and its target.

        There is no translator for a text that is in the target language.
        """
        target = self._directions.code("target", client_data.word(values, "target"))
        source = client_data.word(values, "source")
        if source == _AUTO:
            found = self._directions.source_of(text(), target)
        else:
            found = Detected(self._directions.code("source", source), 100.0)
        if found.language == target:
            return None, found, target
        return self._directions.translator(found.language, target), found, target

    async def _translated(
        self, translator: Translator, texts: list[str], num_alternatives: int, with_warnings: bool
    ) -> dict[str, list[Any]]:
        """Return the parts of the answer, with one item per text."""
        num_results = 1 + min(num_alternatives, self._most_results - 1)
        # All alternatives are searched for, so that a number has no program of its own on JAX.
        wanted = 1 if num_results == 1 else self._most_results
        found: Answer = await self._scheduler.translate(translator, texts, wanted)
        best = [best_result(results)[0] for results in found.results]
        others = [dict.fromkeys(text for text, _ in x[:num_results]) for x in found.results]
        warnings = []
        if with_warnings:
            warnings = await self._scheduler.call(
                _warnings, translator, found, best, rank=found.rank
            )
        return {
            "translatedText": best,
            "alternatives": [[x for x in row if x != first] for row, first in zip(others, best)],
            "warnings": warnings,
            "sentences": [text.sentences for text in found.prepared],
        }

    @_admitted
    async def translate_file(self, request: Request, values: dict[str, Any], hold: Any) -> Response:
        upload = client_data.upload(values)
        folder = self._files.new_folder()

        def direction(text: str) -> _Direction:
            return self._find_direction(values, lambda: text)

        try:
            path = folder / client_data.safe_name(upload.filename or "")
            path.write_bytes(await upload.read())
            limit = self.options.max_characters
            path = await self._scheduler.call(client_data.translate_upload, path, limit, direction)
        except BaseException:
            client_data.discard(folder)
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
        text = client_data.texts(values, self.options)
        if not isinstance(text, str) or len(text.splitlines()) > 1 or len(text) > _MOST_EXPLAINED:
            raise UserError(f"`q` must be one line of at most {_MOST_EXPLAINED} characters")
        translator, _, _ = await self._direction(values, lambda: text)
        if translator is None:
            raise UserError(f"`q` is not explained: {_IDENTITY[0].lower()}{_IDENTITY[1:]}")
        hold(_COST_OF_EXPLANATION)
        page = await self._scheduler.call(_explanation, translator, text, rank=EXTRA)
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


def _explanation(translator: Translator, sentence: str) -> str:
    # Few servers are asked to explain, so the pages are loaded here.
    from keras_transformer.visualization.explanation import explain_translation

    before_batch.get()()  # The search for an explanation has no batches.
    return explain_translation(translator, sentence).html()


def _warnings(translator: Translator, answer: Answer, best: list[str]) -> list[list[str]]:
    """Return the messages of `Translator.check_translations` for each text."""
    sources = [str(text.source) for text in answer.prepared]
    checks = translator.check_translations(sources, best)
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


async def _http_error(request: Request, error: HTTPException) -> Response:
    return _error(error.detail, error.status_code, error.headers)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    return Response()  # which nobody reads


async def _defect(request: Request, error: Exception) -> Response:
    return _error("Internal error. The server's log has its cause", 500)
