"""The command that serves a model over HTTP."""

import ipaddress
import os
import signal
import socket
import sys
from dataclasses import dataclass

import tyro

from keras_transformer.command_line import CommonOptions, given
from keras_transformer.commands.translate import PrecisionOptions
from keras_transformer.errors import UserError
from keras_transformer.progress import progress_shown
from keras_transformer.server import ServerOptions
from keras_transformer.translation.translator import Translator

_MORE_CONNECTIONS = 100


@dataclass(kw_only=True)
class ServeOptions(PrecisionOptions, ServerOptions, CommonOptions):
    model: tyro.conf.Positional[str]
    """Model folder; a name that `keras-transformer list` prints; or hf://user/repository."""
    host: str = "127.0.0.1"
    """Address to listen on: by default this machine only; 0.0.0.0 for all networks."""
    port: int = 5000
    """Port to listen on; 0 for any free one."""
    beam_size: int | None = None
    """Live hypotheses per sentence. Defaults to the search that the model was saved with."""
    max_source_length: int | None = 1024
    """The most tokens of a line, including its end token; None for no limit but the model's. A
    longer line is answered with status 400."""


def serve(options: ServeOptions) -> None:
    """Serve a model over HTTP: LibreTranslate's requests, and a page to type in.

    The server listens on this machine only, unless `--host` selects another address.
    """
    try:
        import iso639  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn

        from keras_transformer.server.application import application
        from keras_transformer.server.directions import Directions
        from keras_transformer.server.scheduler import translate
    except ImportError as error:
        raise UserError(
            f"The server needs the package {error.name}, which this package's extra `serve` "
            "installs: pip install starlette uvicorn python-multipart iso639-lang"
        ) from error
    options.validate()
    with _listen(options.host, options.port) as listener:  # fails before the model is loaded
        translator = Translator.from_preset(
            options.model,
            max_source_length=options.max_source_length,
            **options.precision(),
            **given(options, "beam_size"),
        )
        directions = Directions(translator)
        # Compiles the search. A wrong model fails now.
        next(translate(directions.translator(*directions.first), ["1"]))
        config = uvicorn.Config(
            application(translator, options),
            log_level="warning",
            access_log=False,
            # Connections. The application refuses further requests, unless there are more of these.
            limit_concurrency=options.max_waiting + _MORE_CONNECTIONS,
            timeout_graceful_shutdown=options.shutdown_seconds,
        )
        host, port = listener.getsockname()[:2]
        print(f"{options.model}: {_address(host, port)}", file=sys.stderr, flush=True)
        # uvicorn raises the signal again when it has finished all requests, or its time is over. A
        # thread may still translate for a client that has gone, and would be waited for.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        with progress_shown(False):  # of searches
            uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address, or raise a `UserError`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as error:  # the last: not a name of a host
        number = getattr(error, "errno", None) or 0
        reason = os.strerror(number) if number > 0 else getattr(error, "strerror", "not a host")
        raise UserError(
            f"Cannot listen on `host={host}` and `port={port}`: {reason.lower()}. Expected an "
            "address of this machine and a free port"
        ) from error


def _address(host: str, port: int) -> str:
    """Return the URL of the server, and who can reach it."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if ipaddress.ip_address(host).is_loopback:
        return f"listening on {url}, for this machine only (--host 0.0.0.0: for all networks)"
    return f"listening on {url}, for everybody who can reach this machine"
